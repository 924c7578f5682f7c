"""cube, of the extension of that name, as cube_out prints it.

On disk (``contrib/cube/cubedata.h``) a uint32 of dimensions, its highest bit set if the cube is a point, is followed
by the float8s of one corner, and unless it is a point by those of the other. A cube whose corners are equal is printed
as a point too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.decode.columns import BAD_VALUE, DONE, NO_ROOM, CodecMaker, ascii_maker
from walshadow_core.decode.deform import KIND_VALUE
from walshadow_core.decode.float_text import FLOAT8_WIDTH, put_float8
from walshadow_core.pgformat.heap import load32
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.words import SLACK, load64

HEADER: Final = 4
POINT_BIT: Final = 0x80000000
DIMENSIONS_MASK: Final = 0x7FFFFFFF

_OPEN, _CLOSE, _COMMA, _SPACE = b"(), "
_INFINITY = np.uint64(0x7FF0000000000000)
_ONE = np.uint64(1)


@kernel
def _equal(buf: Bytes, at: int, other: int) -> bool:
    """Whether two float8s are equal as numbers: zeros are, NaNs are not."""
    left = load64(buf, np.uint64(at))
    right = load64(buf, np.uint64(other))
    if left == right:
        return bool((left << _ONE) >> _ONE <= _INFINITY)
    return bool((left | right) << _ONE == np.uint64(0))


@kernel
def _put_corner(buf: Bytes, at: int, count: int, out: Bytes, to: int) -> int:
    out[to] = _OPEN
    to += 1
    for k in range(count):
        if k > 0:
            out[to] = _COMMA
            out[to + 1] = _SPACE
            to += 2
        to = put_float8(load64(buf, np.uint64(at + 8 * k)), out, to)
    out[to] = _CLOSE
    return to + 1


@kernel
def cube_to_text(
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
    """A columns.VarFill for cube."""
    room = data.size - SLACK
    for i in range(first, kind.size):
        if kind[i] == KIND_VALUE:
            at = int(offset[i])
            many = int(length[i])
            if many < HEADER:
                return BAD_VALUE, i, used
            header = load32(buf, at)
            count = header & DIMENSIONS_MASK
            point = header & POINT_BIT != 0
            if many != HEADER + 8 * count * (1 if point else 2):
                return BAD_VALUE, i, used
            if used + 5 + 2 * count * (FLOAT8_WIDTH + 2) > room:
                return NO_ROOM, i, used
            at += HEADER
            other = at + 8 * count
            if not point:
                k = 0
                while k < count and _equal(buf, at + 8 * k, other + 8 * k):
                    k += 1
                point = k == count
            used = _put_corner(buf, at, count, data, used)
            if not point:
                data[used] = _COMMA
                used = _put_corner(buf, other, count, data, used + 1)
        offsets[row + i + 1] = used
    return DONE, kind.size, used


EXTENSION_CODECS: Mapping[str, CodecMaker] = {"cube": ascii_maker(cube_to_text)}
"""This family's types, by name."""
