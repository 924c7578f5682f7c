"""Rows of one catalog, from the pages that were kept of it: checksum, walk, gate, decode."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from walshadow_core.api import (
    EMIT,
    Bytes,
    FormatError,
    RelationDescriptor,
    RelFileLocator,
    SourceError,
    TableRefused,
)
from walshadow_core.catalog.files.collect import KeptFiles
from walshadow_core.catalog.files.columns import Catalog, descriptor
from walshadow_core.decode.table import TableDecoder
from walshadow_core.decode.types import DecodeOptions
from walshadow_core.pgformat.checksum import bad_checksums
from walshadow_core.pgformat.heap import PageWalker, TupleData
from walshadow_core.visibility.gate import Gate

_OPTIONS = DecodeOptions(invalid_text="bytes")
"""Names come as they are stored: one that is not valid text must not stand in the way of the others."""

_REMEDY = "the page was torn by a write during the copy, or the backup is damaged: take another backup"

CHANGED = "the catalog was changed while the backup was taken"
TAKE_ANOTHER = "take another backup at a time without DDL"


@dataclass(frozen=True)
class Where:
    """Which rows are wanted: those whose ``column`` is one of ``values``."""

    column: str
    values: Collection[Any]


def _without_trees(relation: RelationDescriptor, pages: Bytes, data: TupleData) -> pa.RecordBatch:
    """Rows with values out of line, whose relation is not read: only an expression can be so long (the predicate of
    an index, in 18), and of those it only matters that there is one. Raises FormatError for other columns."""
    trees = [a for a in relation.columns if a.type_name == "pg_node_tree"]
    rest = replace(relation, excluded=relation.excluded | {a.number for a in trees})
    decoder = TableDecoder(rest, _OPTIONS, block_rows=len(data) + 1, block_bytes=pages.size + 1)
    decoder.append(pages, data)
    batch = decoder.finish()
    assert batch is not None
    for tree in trees:
        batch = batch.append_column(tree.name, pa.array([b""] * len(data), pa.binary()))
    return batch


class CatalogScanner:
    """Reads catalogs of one backup. ``gate`` looks at complete transaction status."""

    def __init__(
        self, files: KeptFiles, gate: Gate, *, major: int, segment_blocks: int, verify_checksums: bool
    ) -> None:
        self._files = files
        self._gate = gate
        self._major = major
        self._segment_blocks = segment_blocks
        self._verify = verify_checksums and not files.verified
        self._walker = PageWalker()

    def rows(
        self, catalog: Catalog, at: RelFileLocator, columns: tuple[str, ...], where: Where | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """The rows of a catalog that were committed, as tuples of ``columns``; char columns are numbers, names and
        varlenas bytes. Raises FormatError naming the file, SourceError where a row is there twice."""
        extra = tuple(name for name in (*catalog.key, *([where.column] if where else [])) if name not in columns)
        keys: set[tuple[Any, ...]] = set()
        for batch in self._batches(catalog, at, columns + extra):
            if where is not None:
                wanted = pa.array(list(where.values), batch.schema.field(where.column).type)
                batch = batch.filter(pc.is_in(batch.column(where.column), wanted))
            for key in zip(*(batch.column(name).to_pylist() for name in catalog.key), strict=True):
                if key in keys:
                    raise SourceError(f"{CHANGED}: a row of {catalog.name} is there in two versions", TAKE_ANOTHER)
                keys.add(key)
            yield from zip(*(batch.column(name).to_pylist() for name in columns), strict=True)

    def _batches(self, catalog: Catalog, at: RelFileLocator, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        relation = descriptor(catalog, self._major, columns)
        decoder = TableDecoder(relation, _OPTIONS)
        place = catalog.name
        try:
            for path, block, pages in self._files.pages(at, self._segment_blocks):
                place = f"{path} ({catalog.name})"
                if self._verify and len(bad := bad_checksums(pages, block)):
                    raise FormatError(f"block {int(bad[0])} fails its checksum")
                walk = self._walker.walk(pages, block)
                if walk.damage:
                    raise FormatError(f"block {walk.damage[0].block} is damaged: {walk.damage[0].reason}")
                rows = np.flatnonzero(self._gate.decide(walk.headers) == EMIT)
                data = walk.data.take(rows)
                outside = decoder.outside(pages, data)
                yield from decoder.append(pages, data.take(~outside))
                if outside.any():
                    yield _without_trees(relation, pages, data.take(outside))
            last = decoder.finish()
        except (FormatError, TableRefused) as error:
            raise FormatError(f"{place}: {error.message}", error.remedy or _REMEDY) from error
        if last is not None:
            yield last
