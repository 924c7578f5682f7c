"""What ``walshadow inspect`` reads of a heap file: pages, and the stored tuples of a page as rows of text.

Imported when a command runs, as it brings the decoder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from walshadow_core.api import FormatError, RelationDescriptor, SourceError, TableRefused, UsageError
from walshadow_core.decode.table import TableDecoder
from walshadow_core.decode.types import DecodeOptions
from walshadow_core.pgformat.heap import PAGE_SIZE, PageWalker
from walshadow_core.pgformat.pageview import PageView, view_page

_SEGMENT_BLOCKS = 131072
"""RELSEG_SIZE of servers as they are packaged everywhere: 1 GiB."""
_SEGMENT = re.compile(r"[0-9]+\.([1-9][0-9]{0,4})")


def read_pages(file: Path, first: int, count: int | None) -> Iterator[tuple[bytes, PageView]]:
    """The pages ``first`` and up, at most ``count``; a page's ``block`` is its number in the relation, as far as the
    file's name tells the segment. Raises SourceError, FormatError for a file that ends inside a page or before
    ``first``."""
    segment = _SEGMENT.fullmatch(file.name)
    base = int(segment[1]) * _SEGMENT_BLOCKS if segment else 0
    try:
        with file.open("rb") as opened:
            opened.seek(first * PAGE_SIZE)
            number = first
            while count is None or number < first + count:
                content = opened.read(PAGE_SIZE)
                if not content and number > first:
                    return
                if not content:
                    raise FormatError(f"{file} has {file.stat().st_size // PAGE_SIZE} pages, and no block {first}")
                if len(content) < PAGE_SIZE:
                    raise FormatError(f"{file}: block {number} is truncated: {len(content)} of {PAGE_SIZE} bytes")
                yield content, view_page(content, base + number)
                number += 1
    except OSError as error:
        raise SourceError(f"{file} can't be read: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class RowView:
    """One stored tuple: where it is, who wrote and who deleted it, and its values as the types' output functions print
    them; ``values`` None and ``error`` where it can't be decoded."""

    block: int
    line: int
    xmin: int
    xmax: int
    values: dict[str, str | None] | None
    error: str | None = None


class RowReader:
    """Decodes the tuples of a table's pages, dead ones too."""

    def __init__(self, relation: RelationDescriptor) -> None:
        self._relation = relation
        self._names = [a.name for a in relation.columns]
        self._walker = PageWalker(max_pages=1)
        self._decoder = self._new_decoder()

    @classmethod
    def of(cls, source: str | None, table: str) -> RowReader:
        """For a table that a Postgres knows. Raises UsageError, SourceError, TableRefused."""
        from walshadow_core.catalog.sql import read_catalog

        if source is None:
            raise UsageError("--table needs --source", "name the Postgres that knows the table, or leave --table out")
        catalog = read_catalog(source, [table])
        for name, reason in catalog.refused:
            raise TableRefused(f"{name}: {reason}")
        (relation,) = catalog.relations
        if relation.stored != (relation,):
            raise UsageError(f"{table} has no file of its own", "name the partition that the file is of")
        return cls(relation)

    def rows(self, page: bytes, block: int) -> Iterator[RowView]:
        """The stored tuples of one undamaged page, in line pointer order."""
        array = np.frombuffer(bytearray(page), np.uint8)
        walk = self._walker.walk(array, block)
        xmin, xmax = walk.headers.xmin.tolist(), walk.headers.xmax.tolist()
        for number, line in enumerate(walk.offnum.tolist()):
            values, error = None, None
            try:
                # One at a time: a tuple of an aborted ALTER TABLE does not fit, and says nothing about its neighbours.
                self._decoder.append(array, walk.data.take(np.array([number])))
                batch = self._decoder.finish()
                assert batch is not None
                values = {name: batch.column(c)[0].as_py() for c, name in enumerate(self._names)}
            except FormatError as bad:
                error = bad.message
                self._decoder = self._new_decoder()
            yield RowView(block, line, xmin[number], xmax[number], values, error)

    def _new_decoder(self) -> TableDecoder:
        return TableDecoder(self._relation, DecodeOptions("replace"), forms=dict.fromkeys(self._names, "text"))
