"""Tuples of one table to row batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from walshadow_core.api import Bytes, Form, FormatError, RelationDescriptor, TableRefused
from walshadow_core.decode.columns import BadValue, Codec, DecodeOptions
from walshadow_core.decode.deform import KIND_EXTERNAL, KIND_VALUE, REASONS, Deformed, DeformScratch, TuplePlan, deform
from walshadow_core.decode.toasted import BadToasted, Column, OutsideValues, PlainColumns, PlainScratch
from walshadow_core.decode.types import codec_for
from walshadow_core.pgformat.heap import TupleData

BLOCK_ROWS = 500_000
BLOCK_BYTES = 32 << 20
SCRATCH_BYTES = 1 << 20
"""About what the positions of a stretch of tuples may take: they are to stay in the CPU's cache."""
POSITION_BYTES = 9
NO_FORMS: Mapping[str, Form] = MappingProxyType({})
MIN_STRETCH, MAX_STRETCH = 256, 16384


class TupleError(FormatError):
    """A tuple that can't be decoded. ``tuple_index`` is its index in what was appended."""

    def __init__(self, message: str, tuple_index: int) -> None:
        super().__init__(
            message,
            "if the table was altered while the backup ran, load again; else it is damaged: check it with amcheck",
        )
        self.tuple_index = tuple_index


def _codecs(relation: RelationDescriptor, options: DecodeOptions, forms: Mapping[str, Form]) -> list[Codec]:
    codecs, refused = [], []
    # Two keys that are replaced to the same text would be one row at the destination, and the other lost.
    of_key = replace(options, invalid_text="error") if options.invalid_text == "replace" else options
    for attribute in relation.columns:
        try:
            in_key = attribute.number in relation.key
            form = forms.get(attribute.name, "own")
            codecs.append(codec_for(attribute, relation.encoding, of_key if in_key else options, form))
        except TableRefused as error:
            refused.append(str(error))
    if refused:
        raise TableRefused(f"{relation.qualified_name}: {'; '.join(refused)}")
    return codecs


def decodable(relation: RelationDescriptor, options: DecodeOptions, forms: Mapping[str, Form] = NO_FORMS) -> None:
    """Raises TableRefused, naming every column of a type that can't be decoded. ``forms`` as in TableDecoder."""
    _codecs(relation, options, forms)


def _batch(schema: pa.Schema, arrays: Sequence[pa.Array], rows: int) -> pa.RecordBatch:
    """A batch that knows its rows even without columns (a table may have none)."""
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None]))


class TableDecoder:
    """Decodes tuples of one table into batches of about ``block_rows`` rows or ``block_bytes`` bytes, whatever
    comes first. Not thread safe: one per worker."""

    def __init__(
        self,
        relation: RelationDescriptor,
        options: DecodeOptions,
        block_rows: int = BLOCK_ROWS,
        block_bytes: int = BLOCK_BYTES,
        forms: Mapping[str, Form] = NO_FORMS,
    ) -> None:
        """``forms`` says by column name what comes otherwise than in its own form (a leaf has its root's names, and
        not its numbers). Raises TableRefused as ``decodable`` does."""
        codecs = _codecs(relation, options, forms)
        columns = relation.columns
        self.schema = pa.schema(
            [pa.field(a.name, codec.arrow, nullable=not a.not_null) for a, codec in zip(columns, codecs, strict=True)]
        )
        self._names = [a.name for a in columns]
        self._block_rows = block_rows
        self._block_bytes = block_bytes
        self._plan = TuplePlan.of(relation)
        self._scratch = DeformScratch(self._plan, self._stretch())
        self._plain_scratch: PlainScratch | None = None
        self._toast_oid = relation.toast_oid
        self._builders = [codec.builder() for codec in codecs]
        self._rows = 0

    def _stretch(self) -> int:
        """How many tuples to deform at a time. Long missing values are repeated per row, so they count."""
        fit = SCRATCH_BYTES // (POSITION_BYTES * max(1, self._plan.columns))
        stretch = min(max(fit, MIN_STRETCH), MAX_STRETCH, self._block_rows)
        return max(1, min(stretch, self._block_bytes // max(1, self._plan.missing_bytes.size)))

    def outside(self, buf: Bytes, data: TupleData) -> NDArray[np.bool_]:
        """Which of n tuples of ``buf`` point out of line in a column that is loaded; False for those that don't fit
        the table, which ``append`` will say."""
        found = np.zeros(len(data), np.bool_)
        buf = self._plan.with_missing(buf, data)
        for first in range(0, len(data), self._scratch.rows):
            count = min(len(data) - first, self._scratch.rows)
            kind = deform(buf, data, self._plan, self._scratch, first, count).kind
            found[first : first + count] = (kind == KIND_EXTERNAL).any(axis=0) if self._builders else False
        return found

    def append(self, buf: Bytes, data: TupleData, outside: OutsideValues | None = None) -> list[pa.RecordBatch]:
        """Take n tuples of ``buf``; gives the batches that got full (none, mostly). ``outside`` has the values of the
        table's TOAST relation; without it, no tuple may point there.

        Raises FormatError (a TupleError where one tuple is to blame); the decoder is of no further use then.
        """
        batches = []
        buf = self._plan.with_missing(buf, data)
        done, n = 0, len(data)
        while done < n:
            count = min(n - done, self._scratch.rows, self._block_rows - self._rows)
            deformed = deform(buf, data, self._plan, self._scratch, done, count)
            for first, last, columns in self._parts(deformed, done, outside):
                self._add(columns, done + first)
                self._rows += last - first
                if self._rows >= self._block_rows or self._nbytes() >= self._block_bytes:
                    batches.append(self._take())
            done += count
        return batches

    def finish(self) -> pa.RecordBatch | None:
        """What is left, or None. Raises FormatError."""
        return self._take() if self._rows else None

    def _nbytes(self) -> int:
        return sum([builder.nbytes for builder in self._builders])

    def _parts(
        self, deformed: Deformed, done: int, outside: OutsideValues | None
    ) -> Iterator[tuple[int, int, Iterable[tuple[int, Column]]]]:
        """(first row, row after the last, columns) of a stretch, in parts that are small enough to be made plain."""
        if deformed.bad.size:
            raise TupleError(REASONS[int(deformed.reason[0])], done + int(deformed.bad[0]))
        buf, offset, length, kind = deformed.buf, deformed.offset, deformed.length, deformed.kind
        count = kind.shape[1]
        if not self._builders or kind.max() <= KIND_VALUE:
            yield 0, count, ((c, (buf, offset[c], length[c], kind[c])) for c in range(len(self._builders)))
            return
        self._plain_scratch = self._plain_scratch or PlainScratch(self._block_bytes, self._scratch.rows)
        plain = PlainColumns(deformed, self._toast_oid, outside, self._plain_scratch)
        for first, last in plain.parts(self._block_bytes):
            yield first, last, plain.columns(first, last)

    def _add(self, columns: Iterable[tuple[int, Column]], first: int) -> None:
        """Hand columns to their builders; their first row is tuple ``first`` of what was appended."""
        c = 0
        try:
            for c, (buf, offset, length, kind) in columns:
                self._builders[c].append(buf, offset, length, kind)
        except BadValue as error:
            name = self._names[error.column if isinstance(error, BadToasted) else c]
            raise TupleError(f'column "{name}": {error.reason}', first + error.row) from None

    def _take(self) -> pa.RecordBatch:
        rows, self._rows = self._rows, 0
        return _batch(self.schema, [builder.finish() for builder in self._builders], rows)
