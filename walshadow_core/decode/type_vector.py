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
    copy_bytes,
)
from walshadow_core.decode.deform import KIND_VALUE
from walshadow_core.decode.float_lists import HALFVEC, SPARSEVEC, VECTOR, VECTOR_HEADER, float4_bits, floats_maker
from walshadow_core.pgformat.heap import load16
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.words import SLACK

ARROW: Final = pa.list_(pa.field("item", pa.float32(), nullable=False))


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
    """A columns.VarFill for the elements as float4s, stored in 2 or 4 bytes each."""
    room = data.size - SLACK
    for i in range(first, kind.size):
        if kind[i] == KIND_VALUE:
            many = int(np.int64(length[i]))
            if many < VECTOR_HEADER:
                return BAD_VALUE, i, used
            at = int(np.int64(offset[i]))
            count = load16(buf, at)
            if many != VECTOR_HEADER + width * count:
                return BAD_VALUE, i, used
            if used + 4 * count > room:
                return NO_ROOM, i, used
            at += VECTOR_HEADER
            if width == 4:
                copy_bytes(buf, at, 4 * count, data, used)
            else:
                for k in range(count):
                    bits = float4_bits(load16(buf, at + 2 * k))
                    for j in range(4):
                        data[used + 4 * k + j] = (bits >> (8 * j)) & 255
            used += 4 * count
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
    "sparsevec": floats_maker(SPARSEVEC),
}
"""This family's types, by name."""

EXTENSION_TEXTS: Mapping[str, CodecMaker] = {
    "vector": floats_maker(VECTOR),
    "halfvec": floats_maker(HALFVEC),
}
"""The same as text."""
