"""The texts of everything that is floats: float8 and float4, geometric types, cubes, vectors.

One kernel prints them all. They differ in what is before the floats, in how many there are, and in punctuation; the
modules of the families say how each is stored.
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
from walshadow_core.decode.float_text import LONGEST_FLOAT, put_float
from walshadow_core.decode.text_put import LONGEST_NUMBER, put_number
from walshadow_core.pgformat.heap import load16, load32
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.words import SLACK, load64

FLOAT8, FLOAT4, LINE, POINTS, LSEG, CIRCLE, PATH, POLYGON, CUBE, VECTOR, HALFVEC, SPARSEVEC = range(12)
"""Forms. POINTS are a point, or the two of a box."""

_OPEN = np.frombuffer(b"\0\0{\0[<[(\0[[{", np.uint8)
_CLOSE = np.frombuffer(b"\0\0}\0]>])\0]]}", np.uint8)
"""What stands around a value of each form, if anything; another pair for closed paths, and cubes that are points."""
_PARENTHESIS, _END_PARENTHESIS, _COMMA, _SPACE, _COLON, _SLASH = b"(), :/"

PATH_HEADER: Final = 12
POLYGON_HEADER: Final = 36
CUBE_HEADER: Final = 4
VECTOR_HEADER: Final = 4
SPARSE_HEADER: Final = 12
CUBE_POINT: Final = 0x80000000

_INFINITY = np.uint64(0x7FF0000000000000)
_1 = np.uint64(1)


@kernel
def float4_bits(half: int) -> int:
    """The bits of the float4 of the same value as a float of 16 bits: 1 bit of sign, 5 of exponent, 10 of fraction."""
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
def _is_point(buf: Bytes, at: int, count: int) -> bool:
    """Whether two corners of a cube are equal as numbers: zeros are, NaNs are not."""
    for k in range(count):
        left = load64(buf, np.uint64(at + 8 * k))
        right = load64(buf, np.uint64(at + 8 * (count + k)))
        unequal = (left | right) << _1 != np.uint64(0) if left != right else (left << _1) >> _1 > _INFINITY
        if unequal:
            return False
    return True


@kernel
def _layout(buf: Bytes, at: int, many: int, form: int) -> tuple[int, int, int, int]:
    """(bytes before the floats, floats, bytes of each, floats in one pair of parentheses or 0) of a value.

    (0, -1, 0, 0) if its length fits no value of the form.
    """
    bad = 0, -1, 0, 0
    if form == FLOAT4:
        return 0, 1, 4, 0
    if form < PATH:
        return 0, many >> 3, 8, 2 if form >= POINTS else 0
    if form <= POLYGON:
        header = PATH_HEADER if form == PATH else POLYGON_HEADER
        if many < header:
            return bad
        points = load32(buf, at)
        if many != header + 16 * points or (form == PATH and load32(buf, at + 4) > 1):
            return bad
        return header, 2 * points, 8, 2
    if many < VECTOR_HEADER:
        return bad
    if form == CUBE:
        count = load32(buf, at)
        corners = 2 if count < CUBE_POINT else 1
        count &= CUBE_POINT - 1
        if many != CUBE_HEADER + 8 * corners * count:
            return bad
        if corners == 2 and not _is_point(buf, at + CUBE_HEADER, count):
            return CUBE_HEADER, 2 * count, 8, count
        return CUBE_HEADER, count, 8, 0
    if form == SPARSEVEC:
        if many < SPARSE_HEADER:
            return bad
        count = load32(buf, at + 4)
        return (SPARSE_HEADER + 4 * count, count, 4, 0) if many == SPARSE_HEADER + 8 * count else bad
    count = load16(buf, at)
    width = 4 if form == VECTOR else 2
    return (VECTOR_HEADER, count, width, 0) if many == VECTOR_HEADER + width * count else bad


@kernel
def floats_to_text(
    form: int,
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
    """A columns.VarFill for values of one form."""
    room = data.size - SLACK
    for i in range(first, kind.size):
        if kind[i] == KIND_VALUE:
            start = int(np.int64(offset[i]))
            header, count, width, group = _layout(buf, start, int(np.int64(length[i])), form)
            if count < 0:
                return BAD_VALUE, i, used
            longest = LONGEST_FLOAT + 4 + (LONGEST_NUMBER if form == SPARSEVEC else 0)
            if used + longest * (count + 2) > room:
                return NO_ROOM, i, used
            opening, closing = _OPEN[form], _CLOSE[form]
            if (form == PATH and load32(buf, start + 4) == 1) or (form == CUBE and group == 0):
                opening, closing = np.uint8(_PARENTHESIS), np.uint8(_END_PARENTHESIS)
            if opening != 0:
                data[used] = opening
                used += 1
            if group == 0:
                group = count + 1
            grouped = count - count % group
            inside = 0
            for k in range(count):
                if k > 0:
                    data[used] = _COMMA
                    used += 1
                    if form == CUBE and inside > 0:
                        data[used] = _SPACE
                        used += 1
                if inside == 0 and k < grouped:
                    data[used] = _PARENTHESIS
                    used += 1
                if form == SPARSEVEC:
                    place = np.uint64(load32(buf, start + SPARSE_HEADER + 4 * k) + 1)
                    used = put_number(place, 1, data, used)
                    data[used] = _COLON
                    used += 1
                at = start + header + width * k
                if width == 8:
                    bits = load64(buf, np.uint64(at))
                else:
                    bits = np.uint64(load32(buf, at) if width == 4 else float4_bits(load16(buf, at)))
                used = put_float(bits, width == 8, data, used)
                inside += 1
                if inside == group:
                    inside = 0
                    if k < grouped:
                        data[used] = _END_PARENTHESIS
                        used += 1
            if closing != 0:
                data[used] = closing
                used += 1
            if form == SPARSEVEC:
                data[used] = _SLASH
                used = put_number(np.uint64(load32(buf, start)), 1, data, used + 1)
        offsets[row + i + 1] = used
    return DONE, kind.size, used


def floats_maker(form: int) -> CodecMaker:
    """The maker of text codecs of that form."""
    return ascii_maker(partial(floats_to_text, form))


TEXTS: Mapping[int, CodecMaker] = {oid.FLOAT8: floats_maker(FLOAT8), oid.FLOAT4: floats_maker(FLOAT4)}
"""float8 and float4 as text."""
