"""Arrays as array_out prints them (``utils/adt/arrayfuncs.c``), once their elements are strings."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.decode.columns import DONE, NO_ROOM, SLACK
from walshadow_core.decode.deform import KIND_VALUE
from walshadow_core.decode.text_parts import QUOTED_ROOM, Strings, assemble, special_bytes
from walshadow_core.decode.text_put import put_signed
from walshadow_core.decode.text_quote import BACKSLASH, DOUBLE_QUOTE, put_quoted
from walshadow_core.pgformat.jit import kernel, leaf

PREFIX_ROOM: Final = 6 * 25 + 1
"""``[-2147483648:2147483647]`` per dimension, and ``=``."""

_OPEN, _CLOSE, _LEFT, _RIGHT, _COLON, _EQUALS = b"{}[]:="
_NULL = np.frombuffer(b"NULL", np.uint8)
_CASE = 32
"""Of a letter, the bit that is set if it is a small one."""


@leaf
def is_null_word(buf: Bytes, at: int) -> bool:
    """Whether the four bytes there are NULL in any case (pg_strcasecmp)."""
    same = True
    for k in range(_NULL.size):
        same &= buf[at + k] | _CASE == _NULL[k] | _CASE
    return same


@leaf
def _put_bounds(shapes: NDArray[np.int32], dimensions: int, ndim: int, out: Bytes, to: int) -> int:
    """``[0:2][1:3]=`` where a lower bound is not 1."""
    needed = False
    for d in range(ndim):
        needed |= shapes[dimensions + 2 * d + 1] != 1
    if not needed:
        return to
    for d in range(ndim):
        lower = int(shapes[dimensions + 2 * d + 1])
        out[to] = _LEFT
        to = put_signed(lower, out, to + 1)
        out[to] = _COLON
        to = put_signed(lower + int(shapes[dimensions + 2 * d]) - 1, out, to + 1)
        out[to] = _RIGHT
        to += 1
    out[to] = _EQUALS
    return to + 1


@leaf
def _put_edges(shapes: NDArray[np.int32], dimensions: int, ndim: int, k: int, brace: int, out: Bytes, to: int) -> int:
    """A brace for each dimension of which element k is the first, or the one after the last."""
    size = 1
    for d in range(ndim - 1, -1, -1):
        size *= int(shapes[dimensions + 2 * d])
        if k % size != 0:
            break
        out[to] = brace
        to += 1
    return to


@kernel
def put_arrays(
    buf: Bytes,
    shape_at: NDArray[np.int32],
    kind: NDArray[np.uint8],
    first: int,
    offsets: NDArray[np.int32],
    data: Bytes,
    row: int,
    used: int,
    shapes: NDArray[np.int32],
    ends: NDArray[np.int32],
    valid: NDArray[np.uint8],
    special: NDArray[np.uint8],
    delimiter: int,
    braces: bool,
) -> tuple[int, int, int]:
    """A columns.VarFill, but for the order of arguments: ``buf``, ``ends`` and ``valid`` are the elements, ``shapes``
    and ``shape_at`` as type_array.read_shapes leaves them."""
    room = data.size - SLACK
    for i in range(first, kind.size):
        if kind[i] != KIND_VALUE:
            offsets[row + i + 1] = used
            continue
        at = int(shape_at[i])
        ndim, first_element = int(shapes[at]), int(shapes[at + 1])
        dimensions = at + 2
        count = 1 if ndim > 0 else 0
        for d in range(ndim):
            count *= int(shapes[dimensions + 2 * d])
        most = (
            2 * int(ends[first_element + count] - ends[first_element])
            + count * (QUOTED_ROOM + 2 * ndim + 1)
            + PREFIX_ROOM
            + 2
        )
        if used + most > room:
            return NO_ROOM, i, used
        to = _put_bounds(shapes, dimensions, ndim, data, used) if braces else used
        if braces and ndim <= 1:
            data[to] = _OPEN
            to += 1
        for k in range(count):
            if k > 0:
                data[to] = delimiter
                to += 1
            if ndim > 1:
                to = _put_edges(shapes, dimensions, ndim, k, _OPEN, data, to)
            # An element is written here, and by a call only if it needs quotes: the call takes longer than most.
            e = first_element + k
            if valid[e]:
                begin, stop = np.uint64(ends[e]), np.uint64(ends[e + 1])
                found = np.uint8(1) if begin == stop else np.uint8(0)
                place = np.uint64(to)
                for j in range(begin, stop):
                    byte = buf[j]
                    data[place] = byte
                    found |= special[byte]
                    place += np.uint64(1)
                if stop - begin == _NULL.size:
                    found |= np.uint8(is_null_word(data, to))
                if found:
                    to = put_quoted(buf, int(ends[e]), int(ends[e + 1]), DOUBLE_QUOTE, BACKSLASH, data, to)
                else:
                    to += int(np.int64(stop - begin))
            else:
                for j in range(_NULL.size):
                    data[to + j] = _NULL[j]
                to += _NULL.size
            if ndim > 1:
                to = _put_edges(shapes, dimensions, ndim, k + 1, _CLOSE, data, to)
        if braces and ndim <= 1:
            data[to] = _CLOSE
            to += 1
        used = to
        offsets[row + i + 1] = used
    return DONE, kind.size, used


@cache
def _special(delimiter: str) -> NDArray[np.uint8]:
    return special_bytes(b"{}" + delimiter.encode())


def array_text(
    arrow: pa.DataType,
    column: str,
    elements: pa.Array,
    kind: NDArray[np.uint8],
    shape_at: NDArray[np.int32],
    shapes: NDArray[np.int32],
    delimiter: str,
    braces: bool,
) -> pa.Array:
    """The texts of arrays, of type ``arrow``: see put_arrays. Raises FormatError naming the column."""
    strings = Strings.of(elements)
    special, mark = _special(delimiter), ord(delimiter)

    def fill(
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
        return put_arrays(
            buf,
            offset,
            kind,
            first,
            offsets,
            data,
            row,
            used,
            shapes,
            strings.offsets,
            strings.valid,
            special,
            mark,
            braces,
        )

    return assemble(arrow, column, fill, strings.data, shape_at, shape_at, kind)
