"""Kernels over stored arrays (``utils/array.h``): what they look like, where their elements are.

After its varlena header an array has ndim, dataoffset (0: no nulls), the element type's oid, ndim dimensions and ndim
lower bounds, int32 each; then a null bitmap if there are nulls; then, aligned, the elements that are not NULL, each
aligned as its type wants it. Offsets and alignment count from the varlena header, four bytes before what we have.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.decode.deform import KIND_NULL, KIND_VALUE, datum_at
from walshadow_core.pgformat.heap import load32
from walshadow_core.pgformat.jit import kernel, leaf
from walshadow_core.pgformat.varlena import HEADER_SIZE

MAX_DIMENSIONS: Final = 6
"""MAXDIM."""
MAX_ELEMENTS: Final = 0x3FFFFFFF // 8
"""MaxArraySize."""
NDIM_AT, DATAOFFSET_AT, ELEMTYPE_AT, DIMENSIONS_AT = 0, 4, 8, 12
"""Places in the payload; lower bounds follow the dimensions."""

SHAPE_NDIM, SHAPE_FIRST, SHAPE_DIMENSIONS = 0, 1, 2
"""A shape is ndim, the index of the first element, then dimension and lower bound for each dimension."""
LONGEST_SHAPE: Final = SHAPE_DIMENSIONS + 2 * MAX_DIMENSIONS

OK, BAD_HEADER, BAD_TYPE, BAD_ELEMENT, TOO_MANY = range(5)
REASONS: Final = {
    BAD_HEADER: "an array's dimensions or null bitmap make no sense",
    BAD_TYPE: "an array has elements of another type than its column",
    BAD_ELEMENT: "an element runs past the end of its array, or has an impossible length",
    TOO_MANY: "a block's arrays have more than 2^31 elements",
}
"""What the kernels say of an array that they stopped at."""
OTHER_DIMENSIONS, OTHER_BOUNDS = 1, 2
"""What check_shapes says."""


@leaf
def _signed32(buf: Bytes, at: int) -> int:
    value = load32(buf, at)
    return value - ((value & 0x80000000) << 1)


@kernel
def read_shapes(
    buf: Bytes,
    offset: NDArray[np.int32],
    length: NDArray[np.int32],
    kind: NDArray[np.uint8],
    element_oid: int,
    element: int,
    shapes: NDArray[np.int32],
    used: int,
    shape_at: NDArray[np.int32],
    count: NDArray[np.int32],
    data_at: NDArray[np.int32],
    bitmap_at: NDArray[np.int32],
) -> tuple[int, int, int, int]:
    """The headers of n arrays.

    Of array i the shape goes to ``shapes[shape_at[i]:]``, which has room from ``used`` on; its elements' number
    to ``count``, where they begin to ``data_at`` and the null bitmap (-1: none) to ``bitmap_at``. ``element`` is the
    index of the first array's first element. Gives (status, row, used, index after the last element).
    """
    for i in range(kind.size):
        count[i] = 0
        shape_at[i] = used
        shapes[used + SHAPE_NDIM] = 0
        shapes[used + SHAPE_FIRST] = element
        shape = used + SHAPE_DIMENSIONS
        used = shape
        if kind[i] != KIND_VALUE:
            continue
        start = int(offset[i])
        size = int(length[i])
        if size < DIMENSIONS_AT:
            return BAD_HEADER, i, used, element
        ndim = _signed32(buf, start + NDIM_AT)
        dataoffset = _signed32(buf, start + DATAOFFSET_AT)
        head = DIMENSIONS_AT + 8 * ndim
        if ndim < 0 or ndim > MAX_DIMENSIONS or size < head:
            return BAD_HEADER, i, used, element
        if load32(buf, start + ELEMTYPE_AT) != element_oid:
            return BAD_TYPE, i, used, element
        elements = 1 if ndim > 0 else 0
        for d in range(ndim):
            dimension = _signed32(buf, start + DIMENSIONS_AT + 4 * d)
            lower = _signed32(buf, start + DIMENSIONS_AT + 4 * (ndim + d))
            elements *= dimension
            if dimension < 0 or elements > MAX_ELEMENTS or lower + dimension > 2**31 - 1:
                return BAD_HEADER, i, used, element
            shapes[shape + 2 * d] = dimension
            shapes[shape + 2 * d + 1] = lower
        if elements == 0:
            continue
        bitmap_at[i] = -1
        if dataoffset != 0:
            data = dataoffset - HEADER_SIZE
            if data < head + ((elements + 7) >> 3) or data > size:
                return BAD_HEADER, i, used, element
            bitmap_at[i] = start + head
        else:
            data = ((HEADER_SIZE + head + 7) & ~7) - HEADER_SIZE
            if data > size or elements > size - data:
                return BAD_HEADER, i, used, element
        if element + elements > 2**31 - 1:
            return TOO_MANY, i, used, element
        data_at[i] = start + data
        count[i] = elements
        element += elements
        shapes[shape - SHAPE_DIMENSIONS + SHAPE_NDIM] = ndim
        used += 2 * ndim
    return OK, kind.size, used, element


@kernel
def take_elements(
    buf: Bytes,
    offset: NDArray[np.int32],
    length: NDArray[np.int32],
    count: NDArray[np.int32],
    data_at: NDArray[np.int32],
    bitmap_at: NDArray[np.int32],
    attlen: int,
    align: int,
    i: int,
    done: int,
    at: int,
    out_offset: NDArray[np.int32],
    out_length: NDArray[np.int32],
    out_kind: NDArray[np.uint8],
) -> tuple[int, int, int, int, int]:
    """Where the next elements are, as many as the output has room for, from element ``done`` of array i on, which is
    looked for at ``at`` (0: at the array's first). Gives (status, i, done, at, elements found)."""
    filled = 0
    room = out_kind.size
    while i < count.size:
        base = int(offset[i]) - HEADER_SIZE
        stop = int(offset[i]) + int(length[i])
        many = min(int(count[i]) - done, room - filled)
        if done == 0:
            at = int(data_at[i])
        bitmap = int(bitmap_at[i]) if many > 0 else -1
        if many > 0 and bitmap < 0 and attlen > 0:
            step = (attlen + align - 1) & -align
            first = base + ((at - base + align - 1) & -align)
            if first + (many - 1) * step + attlen > stop:
                return BAD_ELEMENT, i, done, at, filled
            for k in range(np.uint64(many)):
                out_offset[np.uint64(filled) + k] = first + int(k) * step
                out_length[np.uint64(filled) + k] = attlen
                out_kind[np.uint64(filled) + k] = KIND_VALUE
            at = first + (many - 1) * step + attlen
            filled += many
        else:
            for k in range(done, done + many):
                if bitmap >= 0 and (buf[np.uint64(bitmap + (k >> 3))] >> np.uint8(k & 7)) & 1 == 0:
                    out_kind[filled] = KIND_NULL
                    out_offset[filled] = 0
                    out_length[filled] = 0
                    filled += 1
                    continue
                first, width, found, at, wrong = datum_at(buf, at, base, stop, attlen, align)
                if wrong != 0 or found != KIND_VALUE:
                    return BAD_ELEMENT, i, k, at, filled
                out_offset[filled] = first
                out_length[filled] = width
                out_kind[filled] = found
                filled += 1
        done += many
        if done < count[i]:
            break
        i += 1
        done = 0
    return OK, i, done, at, filled


@kernel
def check_shapes(shapes: NDArray[np.int32], shape_at: NDArray[np.int32], ndim: int, any_lower: bool) -> tuple[int, int]:
    """Whether all arrays that have elements have ``ndim`` dimensions and (but for
    ``any_lower``) lower bounds 1: (what not, row)."""
    for i in range(shape_at.size):
        at = shape_at[i]
        if shapes[at] == 0:
            continue
        if shapes[at] != ndim:
            return OTHER_DIMENSIONS, i
        for d in range(ndim):
            if shapes[at + SHAPE_DIMENSIONS + 2 * d + 1] != 1 and not any_lower:
                return OTHER_BOUNDS, i
    return OK, shape_at.size


@kernel
def count_lists(shapes: NDArray[np.int32], shape_at: NDArray[np.int32], level: int) -> int:
    """How many lists of a level (0: the arrays themselves) the arrays have."""
    lists = 0
    for i in range(shape_at.size):
        at = shape_at[i]
        many = 1 if level == 0 or shapes[at] > 0 else 0
        for d in range(level):
            if many > 0:
                many *= shapes[at + SHAPE_DIMENSIONS + 2 * d]
        lists += many
    return lists


@kernel
def append_lists(
    shapes: NDArray[np.int32],
    shape_at: NDArray[np.int32],
    level: int,
    ends: NDArray[np.int32],
    used: int,
) -> None:
    """Append the ends of the lists of that level to ``ends``, of whose elements ``used`` are taken."""
    for i in range(shape_at.size):
        at = shape_at[i]
        many = 1 if level == 0 or shapes[at] > 0 else 0
        for d in range(level):
            if many > 0:
                many *= shapes[at + SHAPE_DIMENSIONS + 2 * d]
        inside = shapes[at + SHAPE_DIMENSIONS + 2 * level] if shapes[at] > 0 else 0
        for _ in range(many):
            ends[used] = ends[used - 1] + inside
            used += 1
