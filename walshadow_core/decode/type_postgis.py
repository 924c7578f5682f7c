"""geometry and geography, of the extension PostGIS, as their output functions print them: EWKB in hex.

On disk (``liblwgeom/gserialized.txt``, versions 1 and 2 of the format) a value has three bytes of SRID, a byte of
flags, in version 2 perhaps eight bytes more of them, perhaps a bounding box of float4s, and a tree of geometries in
prefix order. Each is a uint32 of type and a uint32 of count, then by type:

* point, linestring, circularstring, triangle: ``count`` points;
* polygon: ``count`` uint32s with the points of each ring, filled up to a multiple of eight bytes, and the points;
* all others: ``count`` geometries.

EWKB (``liblwgeom/lwout_wkb.c``) has the same order: a byte of endianness, the type with flags, for the outermost
geometry the SRID if it has any, then what is in it. A point that is empty has NaNs for coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.decode.columns import BAD_VALUE, DONE, NO_ROOM, CodecMaker, ascii_maker
from walshadow_core.decode.deform import KIND_VALUE
from walshadow_core.pgformat.heap import load32
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.words import SLACK

HEADER: Final = 4
HAS_Z, HAS_M, HAS_BOX, GEODETIC, EXTENDED, VERSION_2 = 0x01, 0x02, 0x04, 0x08, 0x10, 0x40
"""Flags. EXTENDED is of version 2 alone, where eight bytes of flags follow."""
EXTENDED_SIZE: Final = 8
NODE: Final = 8

POINT, TRIANGLE, LAST_TYPE = 1, 14, 15
POINTS, RINGS, TREE = range(3)
"""What is in a geometry."""
_SORTS = np.array([TREE, POINTS, POINTS, RINGS, *[TREE] * 4, POINTS, *[TREE] * 5, POINTS, TREE], np.uint8)
_WKB_TYPES = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15, 17, 16], np.int64)
WKB_Z, WKB_M, WKB_SRID = 0x80000000, 0x40000000, 0x20000000

NODE_TEXT: Final = 2 * (1 + 4 + 4 + 8)
"""Characters of a geometry without its points: endianness, type, SRID, and one or two counts."""

_NAN = np.array([0, 0x7FF80000], np.int64)
"""The halves of the one that is written."""
_DIGITS = np.frombuffer(b"0123456789ABCDEF", np.uint8)
_ZERO, _ONE = b"01"


@kernel
def _put_bytes(buf: Bytes, at: int, count: int, out: Bytes, to: int) -> int:
    target = np.uint64(to)
    for k in range(np.uint64(at), np.uint64(at + count)):
        byte = buf[k]
        out[target] = _DIGITS[byte >> 4]
        out[target + np.uint64(1)] = _DIGITS[byte & 15]
        target += np.uint64(2)
    return to + 2 * count


@kernel
def _put32(value: int, out: Bytes, to: int) -> int:
    """A uint32, little-endian."""
    for k in range(4):
        byte = (value >> (8 * k)) & 255
        out[to + 2 * k] = _DIGITS[byte >> 4]
        out[to + 2 * k + 1] = _DIGITS[byte & 15]
    return to + 8


@kernel
def _tree_at(buf: Bytes, at: int) -> int:
    """Where the tree starts, which may be behind the value if this is damaged."""
    flags = int(np.int64(buf[np.uint64(at + 3)]))
    ordinates = 2 + (flags & HAS_Z) + ((flags & HAS_M) >> 1)
    at += HEADER
    if flags & VERSION_2 and flags & EXTENDED:
        at += EXTENDED_SIZE
    if flags & HAS_BOX:
        at += 8 * (3 if flags & GEODETIC else ordinates)
    return at


@kernel
def _content(buf: Bytes, at: int, end: int, sort: int, count: int, stride: int) -> tuple[int, int]:
    """(bytes of ring counts, bytes of points) of a geometry's content at ``at``; (0, -1) if it has no room."""
    if sort == TREE:
        return 0, 0
    rings = 0
    points = count
    if sort == RINGS:
        rings = (4 * count + 7) & ~7
        if at + rings > end:
            return 0, -1
        points = 0
        for k in range(count):
            points += load32(buf, at + 4 * k)
    if at + rings + points * stride > end:
        return 0, -1
    return rings, points * stride


@kernel
def _put_content(
    buf: Bytes, at: int, rings: int, size: int, type_: int, count: int, stride: int, out: Bytes, to: int
) -> int:
    """What follows a node's type and SRID."""
    if type_ == POINT:
        if count > 0:
            return _put_bytes(buf, at, size, out, to)
        for k in range(stride // 4):
            to = _put32(int(_NAN[k & 1]), out, to)
        return to
    if type_ == TRIANGLE and count > 0:
        # It has one ring, if it has any.
        to = _put32(min(count, 1), out, to)
    to = _put32(count, out, to)
    if rings == 0:
        return _put_bytes(buf, at, size, out, to)
    points = at + rings
    for k in range(count):
        ring = load32(buf, at + 4 * k)
        to = _put32(ring, out, to)
        to = _put_bytes(buf, points, ring * stride, out, to)
        points += ring * stride
    return to


@kernel
def geometry_to_ewkb(
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
    """A columns.VarFill for geometry and geography."""
    room = data.size - SLACK
    for i in range(first, kind.size):
        if kind[i] == KIND_VALUE:
            at = int(np.int64(offset[i]))
            many = int(np.int64(length[i]))
            if many < HEADER:
                return BAD_VALUE, i, used
            end = at + many
            srid = (int(np.int64(buf[np.uint64(at)])) & 31) << 16
            srid |= int(np.int64(buf[np.uint64(at + 1)])) << 8 | int(np.int64(buf[np.uint64(at + 2)]))
            flags = int(np.int64(buf[np.uint64(at + 3)]))
            stride = 16 + 8 * (flags & HAS_Z) + 4 * (flags & HAS_M)
            bits = (WKB_Z if flags & HAS_Z else 0) | (WKB_M if flags & HAS_M else 0)
            at = _tree_at(buf, at)
            to = used
            pending = 1
            outermost = True
            while pending > 0:
                if at + NODE > end:
                    return BAD_VALUE, i, used
                type_ = load32(buf, at)
                count = load32(buf, at + 4)
                at += NODE
                if type_ == 0 or type_ > LAST_TYPE or (type_ == POINT and count > 1):
                    return BAD_VALUE, i, used
                sort = _SORTS[type_]
                rings, size = _content(buf, at, end, sort, count, stride)
                if size < 0:
                    return BAD_VALUE, i, used
                if to + NODE_TEXT + 2 * (rings + max(size, stride)) > room:
                    return NO_ROOM, i, used
                data[to] = _ZERO
                data[to + 1] = _ONE
                tagged = outermost and srid != 0
                to = _put32(_WKB_TYPES[type_] | bits | (WKB_SRID if tagged else 0), data, to + 2)
                if tagged:
                    to = _put32(srid, data, to)
                to = _put_content(buf, at, rings, size, type_, count, stride, data, to)
                outermost = False
                at += rings + size
                pending += count - 1 if sort == TREE else -1
            used = to
        offsets[row + i + 1] = used
    return DONE, kind.size, used


EXTENSION_CODECS: Mapping[str, CodecMaker] = {
    "geometry": ascii_maker(geometry_to_ewkb),
    "geography": ascii_maker(geometry_to_ewkb),
}
"""This family's types, by name."""
