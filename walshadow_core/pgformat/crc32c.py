"""CRC-32C of WAL records, in kernels.

x86 and ARM have an instruction that takes eight bytes at a time; a processor without it looks them up in tables.
"""

from __future__ import annotations

import platform
from typing import Any, Final

import llvmlite.binding
import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.pgformat.heap import load32
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.words import load64

_POLYNOMIAL: Final = 0x82F63B78
_ALL: Final = np.uint64(0xFFFFFFFF)


def _instruction() -> str | None:
    """LLVM's name for it; None if the processor that kernels are compiled for may be without."""
    if numba.config.DISABLE_JIT or numba.config.CPU_NAME or numba.config.CPU_FEATURES:
        return None
    names = {
        "x86_64": ("sse4.2", "llvm.x86.sse42.crc32.64.64"), "AMD64": ("sse4.2", "llvm.x86.sse42.crc32.64.64"),
        "aarch64": ("crc", "llvm.aarch64.crc32cx"), "arm64": ("crc", "llvm.aarch64.crc32cx"),
    }  # fmt: skip
    feature, name = names.get(platform.machine(), ("", ""))
    return name if llvmlite.binding.get_host_cpu_features().get(feature) else None


def _tables() -> NDArray[np.uint64]:
    """uint64[8, 256]: what a byte comes to, k bytes before the end."""
    table = np.arange(256, dtype=np.uint64)
    for _ in range(8):
        table = (table >> np.uint64(1)) ^ np.where(table & np.uint64(1), np.uint64(_POLYNOMIAL), np.uint64(0))
    out = np.empty((8, 256), np.uint64)
    out[0] = table
    for k in range(1, 8):
        out[k] = table[out[k - 1] & np.uint64(255)] ^ (out[k - 1] >> np.uint64(8))
    return out


INSTRUCTION: Final = _instruction()
_TABLES: Final = _tables()


@intrinsic  # type: ignore[untyped-decorator]
def word_by_instruction(typing_context: Any, crc: Any, word: Any) -> Any:
    """The register after a word."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide, narrow = ir.IntType(64), ir.IntType(32)
        x86 = str(INSTRUCTION).startswith("llvm.x86")
        register = wide if x86 else narrow
        function = builder.module.declare_intrinsic(INSTRUCTION, (), ir.FunctionType(register, [register, wide]))
        if x86:
            return builder.call(function, arguments)
        return builder.zext(builder.call(function, [builder.trunc(arguments[0], narrow), arguments[1]]), wide)

    return types.uint64(types.uint64, types.uint64), code


@kernel
def word_by_tables(crc: np.uint64, word: np.uint64) -> np.uint64:
    """The register after a word."""
    word ^= crc
    out = np.uint64(0)
    for k in range(8):
        out ^= _TABLES[7 - k, (word >> np.uint64(8 * k)) & np.uint64(255)]
    return out


_word: Final = word_by_instruction if INSTRUCTION else word_by_tables


@kernel
def _extend(crc: np.uint64, buf: Bytes, at: np.uint64, count: np.uint64) -> np.uint64:
    """The register after ``count`` bytes; eight before the last of them can be read, be they of these or not."""
    stop = at + count
    while at + np.uint64(8) <= stop:
        crc = _word(crc, load64(buf, at))
        at += np.uint64(8)
    # What is left are the last ``bits`` of a word whose others, with the register's, are made zero: those count for
    # nothing. Shifted in two steps, as it may be by 64. No branch: how much is left is not to be foreseen.
    bits = np.uint64(8) * (stop - at)
    up = np.uint64(56) - bits
    left = (load64(buf, stop - np.uint64(8)) >> up >> np.uint64(8)) ^ crc
    return np.uint64(_word(np.uint64(0), left << up << np.uint64(8)) ^ (crc >> bits))


@kernel
def holds(buf: Bytes, at: int, size: int, header: int, crc_at: int) -> bool:
    """Whether the checksum of ``buf[at : at + size]`` is right; the caller has checked the bounds.

    It is a header of ``header`` bytes, eight at least, and a body. The checksum is the header's last four bytes, from
    ``crc_at`` on, and covers the body and then the header up to there.
    """
    crc = _extend(_ALL, buf, np.uint64(at + header), np.uint64(size - header))
    crc = _extend(crc, buf, np.uint64(at), np.uint64(crc_at))
    return bool(crc ^ _ALL == np.uint64(load32(buf, at + crc_at)))
