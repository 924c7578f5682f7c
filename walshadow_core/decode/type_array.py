"""Arrays of any element type, as lists and as text (``utils/adt/arrayfuncs.c``); int2vector and oidvector.

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

from walshadow_core.api import Bytes, PgType, TableRefused
from walshadow_core.decode.array_kernels import (
    LONGEST_SHAPE,
    OK,
    OTHER_DIMENSIONS,
    REASONS,
    TOO_MANY,
    append_lists,
    check_shapes,
    count_lists,
    read_shapes,
    take_elements,
)
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
from walshadow_core.decode.deform import ALIGNMENTS
from walshadow_core.decode.text_array import array_text

CHUNK: Final = 1 << 14
"""Elements that are handed on at a time."""


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
class ElementCodec:
    """An array's element type, and the codec of the elements. ``vector``: it is an int2vector or oidvector, which has
    one dimension from 0 on, and is printed without punctuation."""

    type: PgType
    codec: Codec
    vector: bool = False


class Arrays:
    """The arrays of a block: their shapes, and the builder that has their elements."""

    def __init__(self, element: ElementCodec) -> None:
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
        if status != OK:
            raise BadValue(at, REASONS[status])
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
            if status != OK:
                raise BadValue(i, REASONS[status])
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

    def __init__(self, element: ElementCodec, dimensions: int) -> None:
        self._arrays = Arrays(element)
        self._shape_at: NDArray[np.int32] = np.empty(0, np.int32)
        self._dimensions = dimensions
        self._any_lower = element.vector
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
        what, at = check_shapes(shapes, shape_at, self._dimensions, self._any_lower)
        if what != OK:
            raise BadValue(at, self._mismatch(what, int(shapes[shape_at[at]])))
        self._validity.append(kind, self._ends[0].used - 1)
        for level, ends in enumerate(self._ends):
            lists = count_lists(shapes, shape_at, level)
            if ends.used + lists > MAX_VAR_BYTES:
                raise BadValue(0, REASONS[TOO_MANY])
            append_lists(shapes, shape_at, level, ends.room(lists), ends.used)
            ends.used += lists

    def _mismatch(self, what: int, ndim: int) -> str:
        had = (
            f"an array of {ndim} dimensions where the column declares {self._dimensions}"
            if what == OTHER_DIMENSIONS
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

    def __init__(self, element: ElementCodec, column: str) -> None:
        self._arrays = Arrays(element)
        self._shape_at = Gathered(np.int32)
        self._kind = Gathered(np.uint8)
        self._arrow = element.codec.arrow
        self._column = column
        self._delimiter = " " if element.vector else element.type.delimiter
        self._braces = not element.vector

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
        return array_text(self._arrow, self._column, elements, kind, shape_at, shapes, self._delimiter, self._braces)


def _element(use: TypeUse, codec: Callable[[TypeUse], Codec]) -> ElementCodec:
    element = use.type.element
    if element is None:
        raise TableRefused(f'column "{use.column}": type {use.type_name} has no elements')
    return ElementCodec(element, codec(replace(use, type=element, type_name=element.name, dimensions=0)))


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
