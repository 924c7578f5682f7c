"""The catalog files of a backup as they are at the end of its window.

Which files are the catalog's is known for certain only while it is read: VACUUM FULL gives one a new file, and the
relation map and pg_class, as they are at the end, say which. Those that an earlier look has found are brought forward
together with the tables; where others turn out to be wanted, the WAL of the window is gone through once more. A file
that was made in the window needs no copy: the WAL has all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from walshadow_core.api import Bytes, Lsn, RelFileLocator, SourceError
from walshadow_core.backfill.pagespool import FinalPages
from walshadow_core.catalog.files.collect import CHUNK_PAGES, CatalogFiles
from walshadow_core.pgformat.heap import PAGE_SIZE
from walshadow_core.redo.store import PageStore
from walshadow_core.redo.window import Redo


@dataclass(frozen=True)
class Redone:
    """A window that was applied: ``places`` has the relation index of each file that it was applied to, ``replay``
    applies it to others, in the same ``store``, under the relation indexes that are given."""

    redo: Redo
    store: PageStore
    places: Mapping[RelFileLocator, int]
    replay: Callable[[Mapping[RelFileLocator, int]], Redo]
    b_redo: Lsn


@dataclass(frozen=True)
class _Copies:
    """See pagespool.Copies."""

    files: CatalogFiles
    locator: RelFileLocator
    segment_blocks: int

    def runs(self) -> Iterator[tuple[int, int, str]]:
        return self.files.runs(self.locator, self.segment_blocks)

    def read(self, first_block: int, out: Bytes) -> None:
        self.files.read(self.locator, self.segment_blocks, first_block, out)


class FinalCatalog:
    """``KeptFiles`` of the end of a window. ``known`` is where the catalogs were at an earlier look, if any."""

    verified = True

    def __init__(
        self, files: CatalogFiles, redone: Redone, known: frozenset[RelFileLocator], *, checksums: bool
    ) -> None:
        """``checksums`` says whether the cluster has them."""
        self._files = files
        self._redone = redone
        self._checksums = checksums
        self._homes = {(at.tablespace, at.database) for at in known}
        self._final: dict[RelFileLocator, FinalPages] = {}
        self._found = {locator: (redone.redo, index) for locator, index in redone.places.items()}

    def map_of(self, tablespace: int, database: int) -> Mapping[int, int]:
        """The map that was written last. Raises SourceError."""
        if self._homes and (tablespace, database) not in self._homes:
            raise SourceError("the source's database was moved to another tablespace meanwhile", "load again")
        return self._redone.redo.maps.get((tablespace, database)) or self._files.map_of(tablespace, database)

    def want(self, locators: Collection[RelFileLocator]) -> None:
        """Bring them forward, if they were not yet, and with them what is likely to come next. Raises FormatError."""
        if self._found.keys() >= set(locators):
            return
        likely = (self._files.likely(at.tablespace, at.database) for at in locators)
        new = set(locators).union(*likely) - self._found.keys()
        places = {at: len(self._found) + n for n, at in enumerate(new)}
        redo = self._redone.replay(places)
        self._found |= {at: (redo, index) for at, index in places.items()}

    def _made(self, locator: RelFileLocator) -> bool:
        redo, index = self._found.get(locator, (self._redone.redo, -1))
        return index in redo.made

    def saw(self, locator: RelFileLocator) -> bool:
        """See KeptFiles."""
        return self._made(locator) or self._files.saw(locator)

    def has(self, locator: RelFileLocator) -> bool:
        """See KeptFiles."""
        return self._made(locator) or self._files.has(locator)

    def size(self, locator: RelFileLocator) -> int:
        """In the backup: only what was wanted is known of better."""
        return self._files.size(locator)

    def path(self, locator: RelFileLocator) -> str:
        """See KeptFiles."""
        return self._files.path(locator)

    def pages(self, locator: RelFileLocator, segment_blocks: int) -> Iterator[tuple[str, int, Bytes]]:
        """See KeptFiles; of a relation that was wanted."""
        final = self._final.get(locator) or self._final.setdefault(locator, self._open(locator, segment_blocks))
        buffer: Bytes = np.empty(CHUNK_PAGES * PAGE_SIZE, np.uint8)
        for first_block, count, path in final.runs(CHUNK_PAGES):
            part = buffer[: count * PAGE_SIZE]
            final.read(first_block, count, path, part)
            yield path or self.path(locator), first_block, part

    def _open(self, locator: RelFileLocator, segment_blocks: int) -> FinalPages:
        redo, index = self._found[locator]
        copies = _Copies(self._files, locator, segment_blocks)
        return FinalPages(copies, self._redone.store, redo, index, self._redone.b_redo, checksums=self._checksums)
