"""point, lseg, box, line, circle, path, polygon as their output functions print them (``utils/adt/geo_ops.c``).

On disk (``utils/geo_decls.h``) they are float8s: pairs x, y for a point and for what has points; three
coefficients for a line; a point and a radius for a circle. Before the points of a path are three int32s: how many,
1 if it is closed, and a filler; before those of a polygon, how many and its bounding box.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.columns import BAD_VALUE, DONE, NO_ROOM, CodecMaker, ascii_maker
from walshadow_core.decode.deform import KIND_VALUE
from walshadow_core.decode.float_text import FLOAT8_WIDTH, put_float8
from walshadow_core.pgformat.heap import load32
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.words import SLACK, load64

PLAIN, LSEG, LINE, CIRCLE, PATH, POLYGON = range(6)
"""Shapes of text. PLAIN are points with commas between: a point, or the two of a box."""
POINT_SIZE: Final = 16
PATH_HEADER: Final = 12
POLYGON_HEADER: Final = 36
"""Bytes before the first point."""

_PARENTHESIS, _BRACKET, _BRACE, _ANGLE = b"([{<"
_END_PARENTHESIS, _END_BRACKET, _END_BRACE, _END_ANGLE, _COMMA = b")]}>,"


@kernel
def put_floats(buf: Bytes, at: int, count: int, out: Bytes, to: int) -> int:
    """float8s with commas between; the end. Each takes up to FLOAT8_WIDTH + 1 bytes."""
    for k in range(count):
        if k > 0:
            out[to] = _COMMA
            to += 1
        to = put_float8(load64(buf, np.uint64(at + 8 * k)), out, to)
    return to


@kernel
def _put_points(buf: Bytes, at: int, count: int, out: Bytes, to: int) -> int:
    for k in range(count):
        if k > 0:
            out[to] = _COMMA
            to += 1
        out[to] = _PARENTHESIS
        to = put_floats(buf, at + POINT_SIZE * k, 2, out, to + 1)
        out[to] = _END_PARENTHESIS
        to += 1
    return to


@kernel
def _delimiters(shape: int, closed: bool) -> tuple[int, int]:
    """What stands around a value; (0, 0) is nothing."""
    if shape == PLAIN:
        return 0, 0
    if shape == LINE:
        return _BRACE, _END_BRACE
    if shape == CIRCLE:
        return _ANGLE, _END_ANGLE
    if closed:
        return _PARENTHESIS, _END_PARENTHESIS
    return _BRACKET, _END_BRACKET


@kernel
def geometry_to_text(
    shape: int,
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
    """A columns.VarFill for one shape."""
    room = data.size - SLACK
    for i in range(first, kind.size):
        if kind[i] == KIND_VALUE:
            at = int(offset[i])
            many = int(length[i])
            closed = False
            points = many // POINT_SIZE
            if shape >= PATH:
                header = PATH_HEADER if shape == PATH else POLYGON_HEADER
                if many < header:
                    return BAD_VALUE, i, used
                points = load32(buf, at)
                flag = load32(buf, at + 4) if shape == PATH else 1
                if many != header + POINT_SIZE * points or flag > 1:
                    return BAD_VALUE, i, used
                closed = flag == 1
                at += header
            if used + 2 + (points + 1) * (2 * FLOAT8_WIDTH + 4) > room:
                return NO_ROOM, i, used
            start, end = _delimiters(shape, closed)
            if start != 0:
                data[used] = start
                used += 1
            if shape == LINE:
                used = put_floats(buf, at, 3, data, used)
            else:
                used = _put_points(buf, at, points, data, used)
            if shape == CIRCLE:
                data[used] = _COMMA
                used = put_floats(buf, at + POINT_SIZE, 1, data, used + 1)
            if end != 0:
                data[used] = end
                used += 1
        offsets[row + i + 1] = used
    return DONE, kind.size, used


def _shape(shape: int) -> CodecMaker:
    return ascii_maker(partial(geometry_to_text, shape))


CODECS: Mapping[int, CodecMaker] = {
    oid.POINT: _shape(PLAIN),
    oid.BOX: _shape(PLAIN),
    oid.LSEG: _shape(LSEG),
    oid.LINE: _shape(LINE),
    oid.CIRCLE: _shape(CIRCLE),
    oid.PATH: _shape(PATH),
    oid.POLYGON: _shape(POLYGON),
}
"""This family's types, by oid."""
