"""Arrays of any element type, as lists and as text (``utils/array.h``, ``utils/adt/arrayfuncs.c``).

After its varlena header an array has ndim, dataoffset (0: no nulls), the element type's oid, ndim dimensions and ndim
lower bounds, int32 each; then a null bitmap if there are nulls; then, aligned, the elements that are not NULL, each
aligned as its type wants it. Offsets and alignment count from the varlena header, four bytes before what we have.

One pass over the headers finds what each array looks like, a second one hands its elements to the builder of the
element type, a bounded number at a time. Texts are put together when the elements' texts are there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from walshadow_core.api import Bytes, FormatError, PgType
from walshadow_core.decode.columns import (
    MAX_VAR_BYTES,
    BadValue,
    Codec,
    Codecs,
    ColumnBuilder,
    ContainerMaker,
    Gathered,
    TypeUse,
    Validity,
)
from walshadow_core.decode.deform import ALIGNMENTS, KIND_NULL, KIND_VALUE, datum_at
from walshadow_core.decode.text_array import array_text
from walshadow_core.pgformat.heap import load32
from walshadow_core.pgformat.jit import kernel
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

CHUNK: Final = 1 << 14
"""Elements that are handed on at a time."""

_OK, _BAD_HEADER, _BAD_TYPE, _BAD_ELEMENT, _TOO_MANY = range(5)
_REASONS: Final = {
    _BAD_HEADER: "an array's dimensions or null bitmap make no sense",
    _BAD_TYPE: "an array has elements of another type than its column",
    _BAD_ELEMENT: "an element runs past the end of its array, or has an impossible length",
    _TOO_MANY: "a block's arrays have more than 2^31 elements",
}
_OTHER_DIMENSIONS, _OTHER_BOUNDS = 1, 2


@kernel
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
            return _BAD_HEADER, i, used, element
        ndim = _signed32(buf, start + NDIM_AT)
        dataoffset = _signed32(buf, start + DATAOFFSET_AT)
        head = DIMENSIONS_AT + 8 * ndim
        if ndim < 0 or ndim > MAX_DIMENSIONS or size < head:
            return _BAD_HEADER, i, used, element
        if load32(buf, start + ELEMTYPE_AT) != element_oid:
            return _BAD_TYPE, i, used, element
        elements = 1 if ndim > 0 else 0
        for d in range(ndim):
            dimension = _signed32(buf, start + DIMENSIONS_AT + 4 * d)
            lower = _signed32(buf, start + DIMENSIONS_AT + 4 * (ndim + d))
            elements *= dimension
            if dimension < 0 or elements > MAX_ELEMENTS or lower + dimension > 2**31 - 1:
                return _BAD_HEADER, i, used, element
            shapes[shape + 2 * d] = dimension
            shapes[shape + 2 * d + 1] = lower
        if elements == 0:
            continue
        bitmap_at[i] = -1
        if dataoffset != 0:
            data = dataoffset - HEADER_SIZE
            if data < head + ((elements + 7) >> 3) or data > size:
                return _BAD_HEADER, i, used, element
            bitmap_at[i] = start + head
        else:
            data = ((HEADER_SIZE + head + 7) & ~7) - HEADER_SIZE
            if data > size or elements > size - data:
                return _BAD_HEADER, i, used, element
        if element + elements > 2**31 - 1:
            return _TOO_MANY, i, used, element
        data_at[i] = start + data
        count[i] = elements
        element += elements
        shapes[shape - SHAPE_DIMENSIONS + SHAPE_NDIM] = ndim
        used += 2 * ndim
    return _OK, kind.size, used, element


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
        stop = int(offset[i] + length[i])
        many = min(int(count[i]) - done, room - filled)
        if done == 0:
            at = int(data_at[i])
        bitmap = int(bitmap_at[i]) if many > 0 else -1
        if many > 0 and bitmap < 0 and attlen > 0:
            step = (attlen + align - 1) & -align
            first = base + ((at - base + align - 1) & -align)
            if first + (many - 1) * step + attlen > stop:
                return _BAD_ELEMENT, i, done, at, filled
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
                    return _BAD_ELEMENT, i, k, at, filled
                out_offset[filled] = first
                out_length[filled] = width
                out_kind[filled] = found
                filled += 1
        done += many
        if done < count[i]:
            break
        i += 1
        done = 0
    return _OK, i, done, at, filled


@kernel
def check_shapes(shapes: NDArray[np.int32], shape_at: NDArray[np.int32], ndim: int) -> tuple[int, int]:
    """Whether all arrays that have elements have ``ndim`` dimensions and lower bounds 1: (what not, row)."""
    for i in range(shape_at.size):
        at = shape_at[i]
        if shapes[at] == 0:
            continue
        if shapes[at] != ndim:
            return _OTHER_DIMENSIONS, i
        for d in range(ndim):
            if shapes[at + SHAPE_DIMENSIONS + 2 * d + 1] != 1:
                return _OTHER_BOUNDS, i
    return _OK, shape_at.size


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


class _Scratch:
    """Room for what the two passes find, used again and again."""

    def __init__(self) -> None:
        self.offset: NDArray[np.int32] = np.empty(CHUNK, np.int32)
        self.length: NDArray[np.int32] = np.empty(CHUNK, np.int32)
        self.kind: NDArray[np.uint8] = np.empty(CHUNK, np.uint8)
        self._rows: NDArray[np.int32] = np.empty((3, 0), np.int32)

    def rows(self, n: int) -> NDArray[np.int32]:
        """int32[3, n or more]"""
        if self._rows.shape[1] < n:
            self._rows = np.empty((3, n), np.int32)
        return self._rows[:, :n]


@dataclass(frozen=True)
class _Element:
    """An array's element type, and the codec of the elements."""

    type: PgType
    codec: Codec


class Arrays:
    """The arrays of a block: their shapes, and the builder that has their elements."""

    def __init__(self, element: _Element) -> None:
        self._type = element.type
        self._align = ALIGNMENTS[element.type.alignment]
        self._scratch = _Scratch()
        self.elements: ColumnBuilder = element.codec.builder()
        self.shapes = Gathered(np.int32)
        self.count = 0

    @property
    def nbytes(self) -> int:
        """Bytes of elements and shapes held."""
        return self.elements.nbytes + 4 * self.shapes.used

    def append(
        self,
        buf: Bytes,
        offset: NDArray[np.int32],
        length: NDArray[np.int32],
        kind: NDArray[np.uint8],
        shape_at: NDArray[np.int32],
    ) -> None:
        """Take n arrays, whose shapes are then at ``shape_at`` in ``shapes``. Raises BadValue."""
        n = kind.size
        shapes = self.shapes.room(n * LONGEST_SHAPE)
        count, data_at, bitmap_at = self._scratch.rows(n)
        status, at, self.shapes.used, self.count = read_shapes(
            buf, offset, length, kind, self._type.oid, self.count, shapes, self.shapes.used, shape_at, count, data_at,
            bitmap_at,
        )  # fmt: skip
        if status != _OK:
            raise BadValue(at, _REASONS[status])
        self._take_elements(buf, offset, length, count, data_at, bitmap_at)

    def _take_elements(
        self,
        buf: Bytes,
        offset: NDArray[np.int32],
        length: NDArray[np.int32],
        count: NDArray[np.int32],
        data_at: NDArray[np.int32],
        bitmap_at: NDArray[np.int32],
    ) -> None:
        i = done = at = taken = 0
        s = self._scratch
        while i < count.size:
            status, i, done, at, filled = take_elements(
                buf, offset, length, count, data_at, bitmap_at, self._type.length, self._align, i, done, at, s.offset,
                s.length, s.kind,
            )  # fmt: skip
            if status != _OK:
                raise BadValue(i, _REASONS[status])
            try:
                self.elements.append(buf, s.offset[:filled], s.length[:filled], s.kind[:filled])
            except BadValue as error:
                row = int(np.searchsorted(np.cumsum(count), taken + error.row, "right"))
                raise BadValue(row, f"an element of an array: {error.reason}") from None
            taken += filled

    def take(self) -> tuple[pa.Array, NDArray[np.int32]]:
        """(elements, shapes), and start anew."""
        self.count = 0
        return self.elements.finish(), self.shapes.take()


class ListColumn:
    """Builder of lists, nested as often as the column has dimensions."""

    def __init__(self, element: _Element, dimensions: int) -> None:
        self._arrays = Arrays(element)
        self._shape_at: NDArray[np.int32] = np.empty(0, np.int32)
        self._dimensions = dimensions
        self._ends = [self._no_lists() for _ in range(dimensions)]
        self._validity = Validity()

    @staticmethod
    def _no_lists() -> Gathered:
        ends = Gathered(np.int32)
        ends.more(1)[0] = 0
        return ends

    @property
    def nbytes(self) -> int:
        """Bytes of values and offsets held."""
        return self._arrays.elements.nbytes + sum([4 * ends.used for ends in self._ends])

    def append(self, buf: Bytes, offset: NDArray[np.int32], length: NDArray[np.int32], kind: NDArray[np.uint8]) -> None:
        """See ColumnBuilder."""
        if kind.size > self._shape_at.size:
            self._shape_at = np.empty(kind.size, np.int32)
        shape_at = self._shape_at[: kind.size]
        # Once a stretch of arrays is taken, nothing needs its shapes any more.
        self._arrays.shapes.used = 0
        self._arrays.append(buf, offset, length, kind, shape_at)
        shapes = self._arrays.shapes.array
        what, at = check_shapes(shapes, shape_at, self._dimensions)
        if what != _OK:
            raise BadValue(at, self._mismatch(what, int(shapes[shape_at[at]])))
        self._validity.append(kind, self._ends[0].used - 1)
        for level, ends in enumerate(self._ends):
            lists = count_lists(shapes, shape_at, level)
            if ends.used + lists > MAX_VAR_BYTES:
                raise BadValue(0, _REASONS[_TOO_MANY])
            append_lists(shapes, shape_at, level, ends.room(lists), ends.used)
            ends.used += lists

    def _mismatch(self, what: int, ndim: int) -> str:
        had = (
            f"an array of {ndim} dimensions where the column declares {self._dimensions}"
            if what == _OTHER_DIMENSIONS
            else "an array with a lower bound other than 1"
        )
        return f"{had}, which a list can't hold: choose a text type for the column (--type …=String)"

    def finish(self) -> pa.Array:
        """See ColumnBuilder."""
        made, _ = self._arrays.take()
        bitmap, nulls = self._validity.take(self._ends[0].used - 1)
        for level in reversed(range(self._dimensions)):
            ends = self._ends[level].take()
            self._ends[level] = self._no_lists()
            whose = [bitmap, nulls] if level == 0 else [None, 0]
            buffers = [whose[0], pa.py_buffer(ends)]
            made = pa.Array.from_buffers(pa.list_(made.type), ends.size - 1, buffers, whose[1], children=[made])
        return made


class ArrayTextColumn:
    """Builder of texts of arrays, as array_out prints them."""

    def __init__(self, element: _Element, column: str) -> None:
        self._arrays = Arrays(element)
        self._shape_at = Gathered(np.int32)
        self._kind = Gathered(np.uint8)
        self._arrow = element.codec.arrow
        self._column = column
        self._delimiter = element.type.delimiter

    @property
    def nbytes(self) -> int:
        """Bytes of elements and shapes held."""
        return self._arrays.nbytes + 5 * self._kind.used

    def append(self, buf: Bytes, offset: NDArray[np.int32], length: NDArray[np.int32], kind: NDArray[np.uint8]) -> None:
        """See ColumnBuilder."""
        self._kind.more(kind.size)[:] = kind
        self._arrays.append(buf, offset, length, kind, self._shape_at.more(kind.size))

    def finish(self) -> pa.Array:
        """See ColumnBuilder."""
        elements, shapes = self._arrays.take()
        kind, shape_at = self._kind.take(), self._shape_at.take()
        return array_text(self._arrow, self._column, elements, kind, shape_at, shapes, self._delimiter)


def _element(use: TypeUse, codec: Callable[[TypeUse], Codec]) -> _Element:
    element = use.type.element
    if element is None:
        raise FormatError(f'column "{use.column}": type {use.type_name} has no elements')
    return _Element(element, codec(replace(use, type=element, type_name=element.name, dimensions=0)))


def native(use: TypeUse, codecs: Codecs) -> Codec:
    """Lists of the element's own form, nested by the declared dimensions."""
    element = _element(use, codecs.native)
    dimensions = max(1, use.dimensions)
    arrow = element.codec.arrow
    for _ in range(dimensions):
        arrow = pa.list_(arrow)
    return Codec(arrow, lambda: ListColumn(element, dimensions))


def text(use: TypeUse, codecs: Codecs) -> Codec:
    """What array_out prints."""
    element = _element(use, codecs.text)
    return Codec(element.codec.arrow, lambda: ArrayTextColumn(element, use.column))


CONTAINERS: dict[str, ContainerMaker] = {"array": native}
CONTAINER_TEXTS: dict[str, ContainerMaker] = {"array": text}
