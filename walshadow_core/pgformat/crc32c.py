"""CRC-32C of many stretches of a buffer: the library's function, called from a kernel.

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
from walshadow_core.pgformat.jit import kernel


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


_FUNCTION: Final = _library_function()


@intrinsic  # type: ignore[untyped-decorator]
def _call(typing_context: Any, function: Any, crc: Any, data: Any, count: Any) -> Any:
    """uint32_t function(uint32_t crc, const uint8_t *data, size_t count)."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word, size = ir.IntType(32), ir.IntType(64)
        pointer = ir.FunctionType(word, [word, size, size]).as_pointer()
        return builder.call(builder.inttoptr(arguments[0], pointer), arguments[1:])

    return types.uint32(types.uint64, types.uint32, types.uint64, types.uint64), code


@kernel
def _first_bad(
    function: np.uint64,
    buf: Bytes,
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    header: int,
    crc_at: int,
) -> int:
    data = np.uint64(buf.ctypes.data)
    for i in range(len(offset)):
        at, size = offset[i], length[i]
        if at < 0 or size < header or at + size > buf.size:
            return i
        first = data + np.uint64(at)
        body = _call(function, np.uint32(0), first + np.uint64(header), np.uint64(size - header))
        found = _call(function, body, first, np.uint64(crc_at))
        stored = np.uint32(0)
        for k in range(4):
            stored |= np.uint32(buf[np.uint64(at + crc_at + k)]) << np.uint32(8 * k)
        if found != stored:
            return i
    return len(offset)


def first_bad(buf: Bytes, offset: NDArray[np.int64], length: NDArray[np.int64], header: int, crc_at: int) -> int:
    """The index of the first stretch of ``buf`` whose checksum fails, or their count. A stretch is a header of
    ``header`` bytes and a body; the checksum is in the header's bytes from ``crc_at`` on, its last four, and covers the
    body and then the header up to there."""
    if _FUNCTION:
        return _first_bad(np.uint64(_FUNCTION), buf, offset, length, header, crc_at)
    for i, (at, size) in enumerate(zip(offset.tolist(), length.tolist(), strict=True)):
        whole = buf[at : at + size].tobytes()
        found = google_crc32c.extend(google_crc32c.value(whole[header:]), whole[:crc_at])
        if found.to_bytes(4, "little") != whole[crc_at:header]:
            return i
    return len(offset)
