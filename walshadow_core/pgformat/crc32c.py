"""CRC-32C of WAL records: the library's function, called from a kernel.

A call from Python costs more than the checksum of a usual WAL record, of which there are millions a second. The
library is that under ``google_crc32c``, whose C function takes (checksum so far, bytes, count); without it (a build in
plain Python), and where kernels run as plain Python, ``google_crc32c`` itself is called.
"""

from __future__ import annotations

import ctypes
import importlib
from typing import Any, Final

import google_crc32c
import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.pgformat.heap import load32
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.words import copy_exactly


def _library_function() -> int:
    """The address of the library's ``crc32c_extend``; 0 if it can't be had."""
    if google_crc32c.implementation != "c" or numba.config.DISABLE_JIT:
        return 0
    try:
        # The symbol is of a library that the module was linked to: looked up through it, that one is found.
        library = ctypes.CDLL(importlib.import_module("google_crc32c._crc32c").__file__)
        return ctypes.cast(library.crc32c_extend, ctypes.c_void_p).value or 0
    except (AttributeError, OSError):
        return 0


FUNCTION: Final = np.uint64(_library_function())
"""For kernels: where the library's function is; 0 where checksums are to be looked at with ``first_bad``."""


@intrinsic  # type: ignore[untyped-decorator]
def _call(typing_context: Any, function: Any, crc: Any, data: Any, count: Any) -> Any:
    """uint32_t function(uint32_t crc, const uint8_t *data, size_t count)."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word, size = ir.IntType(32), ir.IntType(64)
        pointer = ir.FunctionType(word, [word, size, size]).as_pointer()
        return builder.call(builder.inttoptr(arguments[0], pointer), arguments[1:])

    return types.uint32(types.uint64, types.uint32, types.uint64, types.uint64), code


@kernel
def holds(function: np.uint64, buf: Bytes, at: int, size: int, header: int, crc_at: int) -> bool:
    """Whether the checksum of ``buf[at : at + size]`` is right; the caller has checked the bounds, and that ``crc_at``
    bytes more may be written behind.

    It is a header of ``header`` bytes and a body. The checksum is the header's last four bytes, from ``crc_at`` on, and
    covers the body and then the header up to there. ``function`` is FUNCTION, which must not be 0.
    """
    # Put in the order that is covered: a second call costs more than most of these checksums.
    copy_exactly(buf, np.uint64(at), buf, np.uint64(at + size), np.uint64(crc_at))
    first = np.uint64(buf.ctypes.data) + np.uint64(at + header)
    found = _call(function, np.uint32(0), first, np.uint64(size - header + crc_at))
    return bool(found == np.uint32(load32(buf, at + crc_at)))


def first_bad(buf: Bytes, offset: NDArray[np.int64], length: NDArray[np.int64], header: int, crc_at: int) -> int:
    """The index of the first of some such stretches whose checksum is not right, or their count: without FUNCTION."""
    for i, (at, size) in enumerate(zip(offset.tolist(), length.tolist(), strict=True)):
        whole = buf[at : at + size].tobytes()
        found = google_crc32c.extend(google_crc32c.value(whole[header:]), whole[:crc_at])
        if found.to_bytes(4, "little") != whole[crc_at:header]:
            return i
    return len(offset)
