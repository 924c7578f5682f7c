"""bit and varbit as zeros and ones.

On disk (``utils/varbit.h``) an int32 of bits is followed by the bits, the first one highest in its byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.columns import BAD_VALUE, DONE, NO_ROOM, CodecMaker, ascii_maker
from walshadow_core.decode.deform import KIND_VALUE
from walshadow_core.pgformat.heap import load32
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.words import SLACK, store64

HEADER: Final = 4

_EIGHT = np.array([int.from_bytes(f"{byte:08b}".encode(), "little") for byte in range(256)], np.uint64)
"""The eight characters of a byte, as a word."""


@kernel
def bits_to_text(
    buf: Bytes,
    offset: NDArray[np.int32],
    length: NDArray[np.int32],
    kind: NDArray[np.uint8],
    first: int,
    offsets: NDArray[np.int32],
    data: Bytes,
    row: int,
    used: int,
) -> tuple[int, int, int]:
    """A columns.VarFill for bit and varbit."""
    room = data.size - SLACK
    for i in range(first, kind.size):
        if kind[i] == KIND_VALUE:
            at = int(np.int64(offset[i]))
            size = int(np.int64(length[i])) - HEADER
            if size < 0:
                return BAD_VALUE, i, used
            bits = load32(buf, at)
            if (bits + 7) >> 3 != size:
                return BAD_VALUE, i, used
            if used + bits > room:
                return NO_ROOM, i, used
            at += HEADER
            for k in range(size):
                store64(data, np.uint64(used + 8 * k), _EIGHT[buf[np.uint64(at + k)]])
            used += bits
        offsets[row + i + 1] = used
    return DONE, kind.size, used


CODECS: Mapping[int, CodecMaker] = {oid.BIT: ascii_maker(bits_to_text), oid.VARBIT: ascii_maker(bits_to_text)}
"""This family's types, by oid."""
