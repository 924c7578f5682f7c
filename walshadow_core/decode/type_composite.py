"""Composite types, as structs and as text (``access/htup_details.h``, ``utils/adt/rowtypes.c``).

A value is a whole tuple: in its header, the varlena header stands where xmin does, then typmod and type oid; null
bitmap, natts and data are those of any tuple, so they are deformed as any tuple is. Fields that were added to the type
later are NULL, dropped ones keep their place. A field is never out of line, but may be compressed in line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from walshadow_core.api import Attribute, Bytes
from walshadow_core.decode.columns import (
    BadValue,
    Codec,
    Codecs,
    ColumnBuilder,
    ContainerMaker,
    Gathered,
    TypeUse,
    Validity,
    use_of,
)
from walshadow_core.decode.deform import KIND_VALUE, REASONS, Deformed, DeformScratch, TuplePlan, deform
from walshadow_core.decode.text_record import record_text
from walshadow_core.decode.toasted import BadToasted, Column, PlainColumns, PlainScratch
from walshadow_core.pgformat.heap import (
    BITS_AT,
    HEAP_HASNULL,
    HEAP_NATTS_MASK,
    HOFF_AT,
    INFOMASK2_AT,
    INFOMASK_AT,
    MIN_HOFF,
    TupleData,
    load16,
    load32,
)
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.varlena import HEADER_SIZE

TYPE_OID_AT: Final = 8
"""datum_typeid in a tuple's header."""

STRETCH: Final = 1024
"""Values that are deformed at a time."""
PLAIN_BYTES: Final = 1 << 20
"""About how many bytes of compressed fields are made plain at a time."""

_BAD_HEADER: Final = "the header of a composite value makes no sense, or names another type"


@kernel
def find_tuples(
    buf: Bytes,
    offset: NDArray[np.int32],
    length: NDArray[np.int32],
    kind: NDArray[np.uint8],
    type_oid: int,
    data_start: NDArray[np.int32],
    bitmap_start: NDArray[np.int32],
    natts: NDArray[np.int32],
    has_nulls: NDArray[np.uint8],
    end: NDArray[np.int32],
) -> int:
    """The TupleData of n composite values, a NULL as a tuple without attributes; -1, or the first bad value."""
    for i in range(kind.size):
        data_start[i] = 0
        bitmap_start[i] = 0
        natts[i] = 0
        has_nulls[i] = 0
        end[i] = 0
        if kind[i] != KIND_VALUE:
            continue
        start = int(offset[i]) - HEADER_SIZE
        size = int(length[i]) + HEADER_SIZE
        if size < MIN_HOFF:
            return i
        hoff = int(np.int64(buf[np.uint64(start + HOFF_AT)]))
        mask = load16(buf, start + INFOMASK_AT)
        attributes = load16(buf, start + INFOMASK2_AT) & HEAP_NATTS_MASK
        if hoff < MIN_HOFF or hoff & 7 or hoff > size or load32(buf, start + TYPE_OID_AT) != type_oid:
            return i
        if mask & HEAP_HASNULL and BITS_AT + ((attributes + 7) >> 3) > hoff:
            return i
        data_start[i] = start + hoff
        bitmap_start[i] = start + BITS_AT
        natts[i] = attributes
        has_nulls[i] = mask & HEAP_HASNULL
        end[i] = start + size
    return -1


@dataclass(frozen=True)
class _Fields:
    """A composite type's live fields, their codecs, and how its tuples are deformed."""

    type_oid: int
    fields: tuple[Attribute, ...]
    codecs: tuple[Codec, ...]
    plan: TuplePlan


class Records:
    """The composite values of a block: a builder for each field."""

    def __init__(self, fields: _Fields) -> None:
        self._type_oid = fields.type_oid
        self._names = [field.name for field in fields.fields]
        self._plan = fields.plan
        self.builders: list[ColumnBuilder] = [codec.builder() for codec in fields.codecs]
        self._scratch = DeformScratch(self._plan, STRETCH)
        self._data = TupleData(
            np.empty(STRETCH, np.int32), np.empty(STRETCH, np.int32), np.empty(STRETCH, np.int32),
            np.empty(STRETCH, np.uint8), np.empty(STRETCH, np.int32),
        )  # fmt: skip
        self._plain: PlainScratch | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of values held."""
        return sum([builder.nbytes for builder in self.builders])

    def append(self, buf: Bytes, offset: NDArray[np.int32], length: NDArray[np.int32], kind: NDArray[np.uint8]) -> None:
        """Take n values. Raises BadValue."""
        for first in range(0, kind.size, STRETCH):
            part = slice(first, first + STRETCH)
            try:
                self._stretch(buf, offset[part], length[part], kind[part])
            except BadValue as error:
                raise BadValue(first + error.row, error.reason) from None

    def _stretch(
        self, buf: Bytes, offset: NDArray[np.int32], length: NDArray[np.int32], kind: NDArray[np.uint8]
    ) -> None:
        data = self._data
        bad = find_tuples(
            buf, offset, length, kind, self._type_oid, data.data_start, data.bitmap_start, data.natts, data.has_nulls,
            data.end,
        )  # fmt: skip
        if bad >= 0:
            raise BadValue(bad, _BAD_HEADER)
        deformed = deform(buf, data, self._plan, self._scratch, 0, kind.size)
        if deformed.bad.size:
            raise BadValue(int(deformed.bad[0]), f"a composite value: {REASONS[int(deformed.reason[0])]}")
        for first, columns in self._parts(deformed):
            c = 0
            try:
                for c, (plain, at, size, what) in columns:
                    self.builders[c].append(plain, at, size, what)
            except BadValue as error:
                name = self._names[error.column if isinstance(error, BadToasted) else c]
                raise BadValue(first + error.row, f'field "{name}": {error.reason}') from None

    def _parts(self, deformed: Deformed) -> Iterator[tuple[int, Iterator[tuple[int, Column]]]]:
        """(first row, columns), in parts that are small enough to be made plain."""
        buf, offset, length, kind = deformed.buf, deformed.offset, deformed.length, deformed.kind
        count = len(self.builders)
        if not count or kind.max() <= KIND_VALUE:
            yield 0, ((c, (buf, offset[c], length[c], kind[c])) for c in range(count))
            return
        self._plain = self._plain or PlainScratch(PLAIN_BYTES, STRETCH)
        plain = PlainColumns(deformed, 0, None, self._plain)
        for first, last in plain.parts(PLAIN_BYTES):
            yield first, plain.columns(first, last)


class StructColumn:
    """Builder of structs of the live fields."""

    def __init__(self, fields: _Fields, arrow: pa.DataType) -> None:
        self._records = Records(fields)
        self._arrow = arrow
        self._validity = Validity()
        self._rows = 0

    @property
    def nbytes(self) -> int:
        """Bytes of values held."""
        return self._records.nbytes

    def append(self, buf: Bytes, offset: NDArray[np.int32], length: NDArray[np.int32], kind: NDArray[np.uint8]) -> None:
        """See ColumnBuilder."""
        self._records.append(buf, offset, length, kind)
        self._validity.append(kind, self._rows)
        self._rows += kind.size

    def finish(self) -> pa.Array:
        """See ColumnBuilder."""
        rows, self._rows = self._rows, 0
        bitmap, nulls = self._validity.take(rows)
        children = [builder.finish() for builder in self._records.builders]
        return pa.Array.from_buffers(self._arrow, rows, [bitmap], nulls, children=children)


class RecordTextColumn:
    """Builder of texts of composite values, as record_out prints them."""

    def __init__(self, fields: _Fields, arrow: pa.DataType, column: str) -> None:
        self._records = Records(fields)
        self._arrow = arrow
        self._column = column
        self._kind = Gathered(np.uint8)

    @property
    def nbytes(self) -> int:
        """Bytes of values held."""
        return self._records.nbytes + self._kind.used

    def append(self, buf: Bytes, offset: NDArray[np.int32], length: NDArray[np.int32], kind: NDArray[np.uint8]) -> None:
        """See ColumnBuilder."""
        self._records.append(buf, offset, length, kind)
        self._kind.more(kind.size)[:] = kind

    def finish(self) -> pa.Array:
        """See ColumnBuilder."""
        fields = [builder.finish() for builder in self._records.builders]
        return record_text(self._arrow, self._column, fields, self._kind.take())


def _fields(use: TypeUse, codec: Callable[[TypeUse], Codec]) -> _Fields:
    # In a value of a composite type, a virtual generated column is a field like any other.
    stored = [replace(field, generated="") for field in use.type.fields]
    live = [field for field in stored if not field.dropped]
    made: Sequence[Codec] = [
        codec(replace(use_of(field, use.encoding, use.options), column=use.column)) for field in live
    ]
    plan = TuplePlan.of_attributes(stored, live, use.type.name)
    return _Fields(use.type.oid, tuple(live), tuple(made), plan)


def native(use: TypeUse, codecs: Codecs) -> Codec:
    """Structs of the fields' own forms."""
    fields = _fields(use, codecs.native)
    arrow = pa.struct(
        [pa.field(field.name, codec.arrow) for field, codec in zip(fields.fields, fields.codecs, strict=True)]
    )
    return Codec(arrow, lambda: StructColumn(fields, arrow))


def text(use: TypeUse, codecs: Codecs) -> Codec:
    """What record_out prints."""
    fields = _fields(use, codecs.text)
    arrow = pa.binary() if any(pa.types.is_binary(codec.arrow) for codec in fields.codecs) else pa.string()
    return Codec(arrow, lambda: RecordTextColumn(fields, arrow, use.column))


CONTAINERS: dict[str, ContainerMaker] = {"c": native}
CONTAINER_TEXTS: dict[str, ContainerMaker] = {"c": text}
"""By PgType.kind."""
