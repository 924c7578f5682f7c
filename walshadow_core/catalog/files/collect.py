"""What is kept of a backup's files so that its catalog can be read when the backup has ended.

A backup comes once, in any order. Which files are the catalog's is only known for certain when pg_database, the
maps and pg_class have been read; and those can be decoded only with all of pg_xact. So the files that may be
wanted are kept as they pass by: those under the numbers that initdb gives, of every database as long as it is not
known which one matters; and since VACUUM FULL gives a catalog another number, small files under other numbers,
as far as there is room. A file that turns out to be wanted and was not kept takes another backup, which then knows
its number.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from walshadow_core.api import BackupFile, Bytes, FormatError, RelFileLocator, SourceError
from walshadow_core.catalog.files.columns import CATALOGS
from walshadow_core.catalog.refusals import FIRST_NORMAL_OID
from walshadow_core.pgformat.heap import PAGE_SIZE
from walshadow_core.pgformat.relmap import RELMAP_NAME, parse_relmap
from walshadow_core.pgformat.relpath import MAIN_FORK, parse_relation_path
from walshadow_core.visibility.spoolfile import SpoolFile
from walshadow_core.visibility.whole import whole

_FIRST_NUMBERS: Final = frozenset(catalog.oid for catalog in CATALOGS)

GUESS_FILE_BYTES: Final = 64 << 20
GUESS_BYTES: Final = 512 << 20
"""How large a file may be that is kept in case it is a rewritten catalog, and how much all of them may take."""

CHUNK_PAGES: Final = 128
"""Pages that are read at a time."""


@dataclass(frozen=True, slots=True)
class _Segment:
    """Where a file's content is in the spool."""

    path: str
    start: int
    size: int


class KeptFiles(Protocol):
    """What a catalog is read from: the copies as they are, or what redo has made of them."""

    @property
    def verified(self) -> bool:
        """Whether the checksums of pages were looked at, and need not fit any more."""
        ...

    def map_of(self, tablespace: int, database: int) -> Mapping[int, int]:
        """The numbers of mapped relations. Raises SourceError if there is no such map."""
        ...

    def want(self, locators: Collection[RelFileLocator]) -> None:
        """These will be asked for next. Raises FormatError."""
        ...

    def saw(self, locator: RelFileLocator) -> bool:
        """Whether there is such a relation."""
        ...

    def has(self, locator: RelFileLocator) -> bool:
        """Whether all of its pages are there."""
        ...

    def size(self, locator: RelFileLocator) -> int:
        """Bytes of its main fork, 0 if there is none."""
        ...

    def path(self, locator: RelFileLocator) -> str:
        """A path of it, for messages."""
        ...

    def pages(self, locator: RelFileLocator, segment_blocks: int) -> Iterator[tuple[str, int, Bytes]]:
        """(path, first block, pages), about 1 MiB at a time; the array is the caller's until the next one. Raises
        FormatError."""
        ...


class CatalogFiles:
    """The files of one backup that its catalog is read from, on disk in ``folder``. Not thread safe.

    ``database`` is the oid of the one that matters, None if that is not known yet; ``known`` are relations that are
    kept whatever their size.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        database: int | None = None,
        known: frozenset[RelFileLocator] = frozenset(),
    ) -> None:
        self.verified = False
        self._database = database
        self._known = known
        self._guess_left = GUESS_BYTES
        self._maps: dict[tuple[int, int], Mapping[int, int]] = {}
        self._sizes: defaultdict[tuple[int, int], dict[int, int]] = defaultdict(dict)
        self._segments: defaultdict[RelFileLocator, dict[int, _Segment]] = defaultdict(dict)
        self._spool = SpoolFile(folder or Path(tempfile.gettempdir()), "the backup's catalog")

    # -- collecting

    def offer(self, file: BackupFile) -> None:
        """Look at a file as it passes, and keep its content if it may be wanted. Raises FormatError."""
        folder, _, name = file.path.rpartition("/")
        if name == RELMAP_NAME:
            self._take_map(file, folder)
        elif self.note(file.path, file.size):
            self._keep(file)

    def note(self, path: str, size: int) -> bool:
        """Take note of a file's size; whether its content may be wanted."""
        relation = parse_relation_path(path)
        if relation is None or relation.fork != MAIN_FORK:
            return False
        at = relation.locator
        if self._database is not None and at.database not in (0, self._database):
            return False
        sizes = self._sizes[at.tablespace, at.database]
        sizes[at.number] = sizes.get(at.number, 0) + size
        if at in self._known or at.number in _FIRST_NUMBERS or at in self._segments:
            return True
        if at.number in self._maps.get((at.tablespace, at.database), {}).values():
            return True
        if at.number < FIRST_NORMAL_OID or size > min(GUESS_FILE_BYTES, self._guess_left):
            return False
        self._guess_left -= size
        return True

    def _take_map(self, file: BackupFile, folder: str) -> None:
        relation = parse_relation_path(f"{folder}/1")
        if relation is None:
            return
        where = relation.locator
        self._maps[where.tablespace, where.database] = parse_relmap(whole(file), file.path)

    def _keep(self, file: BackupFile) -> None:
        relation = parse_relation_path(file.path)
        assert relation is not None
        segments = self._segments[relation.locator]
        if relation.segment in segments:
            raise FormatError(f"{file.path} is in the backup twice")
        start = self._spool.size
        for chunk in file.chunks():
            self._spool.append(chunk)
        segments[relation.segment] = _Segment(file.path, start, self._spool.size - start)

    # -- looking at what was kept

    def map_of(self, tablespace: int, database: int) -> Mapping[int, int]:
        """The numbers of mapped relations. Raises SourceError if the backup had no such map."""
        found = self._maps.get((tablespace, database))
        if found is None:
            of = f"database {database}" if database else "the shared catalogs"
            raise SourceError(f"the backup has no {RELMAP_NAME} of {of}", "it is not complete: take another one")
        return found

    def saw(self, locator: RelFileLocator) -> bool:
        """Whether the backup had a main fork of it."""
        return locator.number in self._sizes.get((locator.tablespace, locator.database), {})

    def has(self, locator: RelFileLocator) -> bool:
        """Whether all that the backup had of it was kept."""
        kept = self._segments.get(locator, {}).values()
        return self.saw(locator) and sum(segment.size for segment in kept) == self.size(locator)

    def likely(self, tablespace: int, database: int) -> set[RelFileLocator]:
        """Where that database's catalogs are if none was rewritten ever."""
        numbers = _FIRST_NUMBERS & self._sizes.get((tablespace, database), {}).keys()
        return {RelFileLocator(tablespace, database, number) for number in numbers}

    def size(self, locator: RelFileLocator) -> int:
        """Bytes of the relation's main fork in the backup, 0 if it has none."""
        return self._sizes.get((locator.tablespace, locator.database), {}).get(locator.number, 0)

    def path(self, locator: RelFileLocator) -> str:
        """The path of the relation's first file that was kept, for messages."""
        segments = self._segments.get(locator)
        return segments[min(segments)].path if segments else f"relation {locator.number}"

    def want(self, locators: Collection[RelFileLocator]) -> None:
        """These will be read."""

    def pages(self, locator: RelFileLocator, segment_blocks: int) -> Iterator[tuple[str, int, Bytes]]:
        """(path, first block, pages) of what was kept of a relation, about 1 MiB at a time; the array is the caller's
        until the next one. Raises FormatError for a file that does not end with a page's end, or is missing."""
        buffer = np.empty(CHUNK_PAGES * PAGE_SIZE, np.uint8)
        full = 0
        for first_block, count, path in self.runs(locator, segment_blocks):
            if full != first_block:
                short = self._segments[locator][full // segment_blocks]
                raise FormatError(f"{short.path} has {short.size} bytes, and there is a segment after it")
            part = buffer[: count * PAGE_SIZE]
            self.read(locator, segment_blocks, first_block, part)
            yield path, first_block, part
            full += count

    def runs(self, locator: RelFileLocator, segment_blocks: int) -> Iterator[tuple[int, int, str]]:
        """(first block, number of pages, at most CHUNK_PAGES; path) of what was kept of a relation, in order. One file
        may have been copied before it was full, and before the next was begun. Raises FormatError."""
        segments = self._segments.get(locator, {})
        for number in range(max(segments, default=-1) + 1):
            segment = segments.get(number)
            if segment is None:
                raise FormatError(f"{segments[max(segments)].path} is in the backup, and segment {number} is not")
            if segment.size % PAGE_SIZE or segment.size > segment_blocks * PAGE_SIZE:
                raise FormatError(f"{segment.path} has {segment.size} bytes, not a whole number of pages of a segment")
            count = segment.size // PAGE_SIZE
            for block in range(0, count, CHUNK_PAGES):
                yield number * segment_blocks + block, min(CHUNK_PAGES, count - block), segment.path

    def read(self, locator: RelFileLocator, segment_blocks: int, first_block: int, out: Bytes) -> None:
        """Fill ``out`` with the run that begins at ``first_block``. Raises WalshadowError."""
        number, block = divmod(first_block, segment_blocks)
        self._spool.read_into(self._segments[locator][number].start + block * PAGE_SIZE, out)

    def close(self) -> None:
        """Free the file. May be called more than once."""
        self._segments.clear()
        self._spool.close()
