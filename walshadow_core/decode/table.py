"""Tuples of one table to row batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from walshadow_core.api import Attribute, Bytes, Form, FormatError, RelationDescriptor, TableRefused
from walshadow_core.decode.columns import BadValue, Codec, DecodeOptions
from walshadow_core.decode.deform import KIND_EXTERNAL, KIND_VALUE, REASONS, Deformed, DeformScratch, TuplePlan, deform
from walshadow_core.decode.missing_text import TextFilled, check_missing_text
from walshadow_core.decode.toasted import BadToasted, Column, OutsideValues, PlainColumns, PlainScratch
from walshadow_core.decode.types import codec_for
from walshadow_core.pgformat.heap import TupleData

BLOCK_ROWS = 500_000
BLOCK_BYTES = 32 << 20
SCRATCH_BYTES = 1 << 20
"""About what the positions of a stretch of tuples may take: they are to stay in the CPU's cache."""
POSITION_BYTES = 9
PLAIN_BYTES = 4 << 20
"""Values that were compressed or out of line are made plain so many bytes at a time, or one by one."""
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
    stored: dict[str, list[Attribute]] = {}
    for leaf in relation.stored:
        for attribute in leaf.columns:
            stored.setdefault(attribute.name, []).append(attribute)
    # Two keys that are replaced to the same text would be one row at the destination, and the other lost.
    of_key = replace(options, invalid_text="error") if options.invalid_text == "replace" else options
    for attribute in relation.columns:
        try:
            in_key = attribute.number in relation.key
            form = forms.get(attribute.name, "own")
            codec = codec_for(attribute, relation.encoding, of_key if in_key else options, form)
            for of_leaf in stored.get(attribute.name, ()):
                check_missing_text(of_leaf, codec, form)
            codecs.append(codec)
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


@dataclass(frozen=True)
class _Layout:
    """The tuples of one of the relations that have a table's rows. ``texts`` are the missing values that are known as
    text: which column, the attribute's number, and the text's number in the column's builder. ``system`` are
    the values of the system columns."""

    plan: TuplePlan
    toast_oid: int
    texts: tuple[tuple[int, int, int], ...]
    system: tuple[Bytes, ...]


class TableDecoder:
    """Decodes tuples of one table into batches of about ``block_rows`` rows or ``block_bytes`` bytes, whatever
    comes first. The tuples may be of any of ``relation.stored``, whose columns are found by their names. Not thread
    safe: one per worker."""

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
        self._builders = [codec.builder() for codec in codecs]
        self._own = len(columns) - len(relation.system)
        self._layouts = [self._layout(relation, leaf) for leaf in relation.stored]
        plans = [layout.plan for layout in self._layouts] or [TuplePlan.of_attributes((), (), "")]
        self._scratch = DeformScratch(max(plans, key=lambda plan: plan.attlen.size), self._stretch())
        self._full_bytes = block_bytes
        self._plain_bytes = min(PLAIN_BYTES, block_bytes // 8)
        self._plain_scratch: PlainScratch | None = None
        self._rows = 0

    def _layout(self, relation: RelationDescriptor, leaf: RelationDescriptor) -> _Layout:
        there = {a.name: a for a in leaf.columns}
        columns = [there[name] for name in self._names[: self._own]]
        texts = []
        for c, attribute in enumerate(columns):
            if attribute.missing_text is not None:
                builder = self._builders[c]
                if not isinstance(builder, TextFilled):
                    builder = self._builders[c] = TextFilled(builder)
                texts.append((c, attribute.number, builder.code(attribute.missing_text)))
        return _Layout(
            plan=TuplePlan.of_attributes(leaf.attributes, columns, leaf.qualified_name),
            toast_oid=leaf.toast_oid,
            texts=tuple(texts),
            system=tuple(np.frombuffer(bytearray(leaf.oid.to_bytes(4, "little")), np.uint8) for _ in relation.system),
        )

    def _stretch(self) -> int:
        """How many tuples to deform at a time. Long missing values are repeated per row, so they count."""
        fit = SCRATCH_BYTES // (POSITION_BYTES * max(1, self._own))
        stretch = min(max(fit, MIN_STRETCH), MAX_STRETCH, self._block_rows)
        missing = max((layout.plan.missing_bytes.size for layout in self._layouts), default=0)
        return max(1, min(stretch, self._block_bytes // max(1, missing)))

    def outside(self, buf: Bytes, data: TupleData, leaf: int = 0) -> NDArray[np.bool_]:
        """Which of n tuples of ``buf`` point out of line in a column that is loaded; False for those that don't fit
        the table, which ``append`` will say. ``leaf`` is the index in ``relation.stored``."""
        found = np.zeros(len(data), np.bool_)
        plan = self._layouts[leaf].plan
        buf = plan.with_missing(buf, data)
        for first in range(0, len(data), self._scratch.rows):
            count = min(len(data) - first, self._scratch.rows)
            kind = deform(buf, data, plan, self._scratch, first, count).kind
            found[first : first + count] = (kind == KIND_EXTERNAL).any(axis=0) if self._own else False
        return found

    def append(
        self, buf: Bytes, data: TupleData, outside: OutsideValues | None = None, leaf: int = 0
    ) -> list[pa.RecordBatch]:
        """``batches``, all of them."""
        return list(self.batches(buf, data, outside, leaf))

    def batches(
        self, buf: Bytes, data: TupleData, outside: OutsideValues | None = None, leaf: int = 0
    ) -> Iterator[pa.RecordBatch]:
        """Take n tuples of ``buf``; gives the batches that got full (none, mostly), each as soon as it is: one MiB of
        tuples can point to a GiB of values. ``outside`` has the values of the TOAST relation; without it, no tuple may
        point there. ``leaf`` is the index in ``relation.stored``.

        The tuples are taken while one iterates, to the end; then the decoder may be used again. Raises FormatError (a
        TupleError where one tuple is to blame); the decoder is of no further use then.
        """
        layout = self._layouts[leaf]
        buf = layout.plan.with_missing(buf, data)
        done, n = 0, len(data)
        while done < n:
            count = min(n - done, self._scratch.rows, self._block_rows - self._rows)
            deformed = deform(buf, data, layout.plan, self._scratch, done, count)
            for first, last, columns in self._parts(deformed, done, layout, outside):
                self._add(columns, done + first)
                self._add_system(layout, last - first)
                self._note_texts(layout, data.natts[done + first : done + last])
                self._rows += last - first
                if self._rows >= self._block_rows or self._nbytes() >= self._full_bytes:
                    yield self._take()
            done += count

    def finish(self) -> pa.RecordBatch | None:
        """What is left, or None. Raises FormatError."""
        return self._take() if self._rows else None

    def _nbytes(self) -> int:
        return sum([builder.nbytes for builder in self._builders])

    def _parts(
        self, deformed: Deformed, done: int, layout: _Layout, outside: OutsideValues | None
    ) -> Iterator[tuple[int, int, Iterable[tuple[int, Column]]]]:
        """(first row, row after the last, columns) of a stretch, in parts that are small enough to be made plain."""
        if deformed.bad.size:
            raise TupleError(REASONS[int(deformed.reason[0])], done + int(deformed.bad[0]))
        buf, offset, length, kind = deformed.buf, deformed.offset, deformed.length, deformed.kind
        count = kind.shape[1]
        if not self._own or kind.max() <= KIND_VALUE:
            self._full_bytes = self._block_bytes
            yield 0, count, ((c, (buf, offset[c], length[c], kind[c])) for c in range(self._own))
            return
        # A few large rows make a good block too, and memory is needed for where they come from.
        self._full_bytes = self._block_bytes // 4
        self._plain_scratch = self._plain_scratch or PlainScratch(self._plain_bytes, self._scratch.rows)
        plain = PlainColumns(deformed, layout.toast_oid, outside, self._plain_scratch)
        for first, last in plain.parts(self._plain_bytes):
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

    def _add_system(self, layout: _Layout, rows: int) -> None:
        for builder, value in zip(self._builders[self._own :], layout.system, strict=True):
            zeros = np.zeros(rows, np.int32)
            builder.append(value, zeros, np.full(rows, value.size, np.int32), np.full(rows, KIND_VALUE, np.uint8))

    def _note_texts(self, layout: _Layout, natts: NDArray[np.int32]) -> None:
        """Tell each builder that puts in texts where it has to."""
        known = {c: (number, code) for c, number, code in layout.texts}
        for c, builder in enumerate(self._builders):
            if isinstance(builder, TextFilled):
                number, code = known.get(c, (0, -1))
                builder.note(natts < number, code)

    def _take(self) -> pa.RecordBatch:
        rows, self._rows = self._rows, 0
        return _batch(self.schema, [builder.finish() for builder in self._builders], rows)
