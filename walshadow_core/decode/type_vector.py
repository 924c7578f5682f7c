"""vector, halfvec and sparsevec of the extension pgvector.

On disk a vector is an int16 of dimensions, an int16 of filler, and float4s (``src/vector.h``); a halfvec the same
with floats of 16 bits (``src/halfvec.h``). A sparsevec is int32 dimensions, int32 elements that are not zero, an int32
of filler, the elements' places (int32, from 0) and their float4s (``src/sparsevec.h``). No element is null.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.decode.columns import (
    BAD_VALUE,
    DONE,
    NO_ROOM,
    Codec,
    CodecMaker,
    TypeUse,
    VarColumn,
    VarFill,
    ascii_maker,
)
from walshadow_core.decode.deform import KIND_VALUE
from walshadow_core.decode.float_text import FLOAT4_WIDTH, put_float4
from walshadow_core.decode.text_put import LONGEST_NUMBER, put_number
from walshadow_core.pgformat.heap import load16, load32
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.words import SLACK

ARROW: Final = pa.list_(pa.field("item", pa.float32(), nullable=False))
HEADER: Final = 4
SPARSE_HEADER: Final = 12

_OPEN, _CLOSE, _OPEN_SPARSE, _CLOSE_SPARSE, _COMMA, _COLON, _SLASH = b"[]{},:/"


@kernel
def _widened(half: int) -> int:
    """The bits of a float4 of the same value as a float of 16 bits: 1 bit of sign, 5 of exponent, 10 of fraction."""
    sign = (half & 0x8000) << 16
    exponent = (half >> 10) & 31
    fraction = half & 0x3FF
    if exponent == 31:
        return sign | 0x7F800000 | (fraction << 13)
    if exponent == 0:
        if fraction == 0:
            return sign
        exponent = 1
        while fraction & 0x400 == 0:
            fraction <<= 1
            exponent -= 1
        fraction &= 0x3FF
    return sign | ((exponent + 112) << 23) | (fraction << 13)


@kernel
def _element(buf: Bytes, at: int, k: int, width: int) -> int:
    """The float4 bits of element ``k``, of 2 or 4 bytes."""
    return _widened(load16(buf, at + 2 * k)) if width == 2 else load32(buf, at + 4 * k)


@kernel
def _dimensions(buf: Bytes, at: int, many: int, width: int) -> int:
    """Elements of a vector or halfvec of ``many`` bytes; -1 if they are not as many as it has room for."""
    if many < HEADER:
        return -1
    count = load16(buf, at)
    return count if many == HEADER + width * count else -1


@kernel
def take_vectors(
    width: int,
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
    """A columns.VarFill for the elements as float4s, of 2 or 4 bytes each as they are stored."""
    room = data.size - SLACK
    for i in range(first, kind.size):
        if kind[i] == KIND_VALUE:
            at = int(offset[i])
            count = _dimensions(buf, at, int(length[i]), width)
            if count < 0:
                return BAD_VALUE, i, used
            if used + 4 * count > room:
                return NO_ROOM, i, used
            for k in range(count):
                bits = np.uint32(_element(buf, at + HEADER, k, width))
                for j in range(4):
                    data[used + j] = np.uint8((bits >> np.uint32(8 * j)) & np.uint32(255))
                used += 4
        offsets[row + i + 1] = used
    return DONE, kind.size, used


@kernel
def vector_to_text(
    width: int,
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
    """A columns.VarFill for vector and halfvec as their output functions print them."""
    room = data.size - SLACK
    for i in range(first, kind.size):
        if kind[i] == KIND_VALUE:
            at = int(offset[i])
            count = _dimensions(buf, at, int(length[i]), width)
            if count < 0:
                return BAD_VALUE, i, used
            if used + 2 + count * (FLOAT4_WIDTH + 1) > room:
                return NO_ROOM, i, used
            data[used] = _OPEN
            used += 1
            for k in range(count):
                if k > 0:
                    data[used] = _COMMA
                    used += 1
                used = put_float4(np.uint64(_element(buf, at + HEADER, k, width)), data, used)
            data[used] = _CLOSE
            used += 1
        offsets[row + i + 1] = used
    return DONE, kind.size, used


@kernel
def sparsevec_to_text(
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
    """A columns.VarFill for sparsevec: ``{place:element,...}/dimensions``, places from 1 on."""
    room = data.size - SLACK
    for i in range(first, kind.size):
        if kind[i] == KIND_VALUE:
            at = int(offset[i])
            many = int(length[i])
            if many < SPARSE_HEADER:
                return BAD_VALUE, i, used
            count = load32(buf, at + 4)
            if many != SPARSE_HEADER + 8 * count:
                return BAD_VALUE, i, used
            if used + 3 + LONGEST_NUMBER + count * (LONGEST_NUMBER + FLOAT4_WIDTH + 2) > room:
                return NO_ROOM, i, used
            places = at + SPARSE_HEADER
            elements = places + 4 * count
            data[used] = _OPEN_SPARSE
            used += 1
            for k in range(count):
                if k > 0:
                    data[used] = _COMMA
                    used += 1
                used = put_number(np.uint64(load32(buf, places + 4 * k) + 1), 1, data, used)
                data[used] = _COLON
                used = put_float4(np.uint64(load32(buf, elements + 4 * k)), data, used + 1)
            data[used] = _CLOSE_SPARSE
            data[used + 1] = _SLASH
            used = put_number(np.uint64(load32(buf, at)), 1, data, used + 2)
        offsets[row + i + 1] = used
    return DONE, kind.size, used


class VectorColumn(VarColumn):
    """Builder of lists of float4s: its bytes are the elements of all lists."""

    def __init__(self, fill: VarFill, reason: str) -> None:
        super().__init__(ARROW, fill, reason=reason)

    def finish(self) -> pa.Array:
        """See ColumnBuilder."""
        rows, offsets, data, bitmap, nulls = self.take()
        elements = pa.Array.from_buffers(pa.float32(), data.size // 4, [None, pa.py_buffer(data)])
        return pa.Array.from_buffers(ARROW, rows, [bitmap, pa.py_buffer(offsets >> 2)], nulls, children=[elements])


def _vectors(width: int) -> CodecMaker:
    fill = partial(take_vectors, width)

    def make(use: TypeUse) -> Codec:
        return Codec(ARROW, lambda: VectorColumn(fill, f"not a value of {use.type_name}"))

    return make


EXTENSION_CODECS: Mapping[str, CodecMaker] = {
    "vector": _vectors(4),
    "halfvec": _vectors(2),
    "sparsevec": ascii_maker(sparsevec_to_text),
}
"""This family's types, by name."""

EXTENSION_TEXTS: Mapping[str, CodecMaker] = {
    "vector": ascii_maker(partial(vector_to_text, 4)),
    "halfvec": ascii_maker(partial(vector_to_text, 2)),
}
"""The same as text."""
