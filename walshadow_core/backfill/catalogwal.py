"""The WAL beside a backup that is read for its catalog alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from walshadow_core.api import BackupSource, BackupStart, Lsn, WalStreamSource
from walshadow_core.backfill.finalcatalog import FinalCatalog, Redone
from walshadow_core.backfill.options import LoadOptions
from walshadow_core.backfill.window import Window, wal_stream, window_status
from walshadow_core.catalog.files.collect import CatalogFiles
from walshadow_core.catalog.files.database import at_databases
from walshadow_core.pgformat.control import ControlFile
from walshadow_core.redo.store import PageStore
from walshadow_core.visibility.spoolfile import MemoryBudget
from walshadow_core.visibility.status import WindowStatus


class CatalogWal:
    """See catalog.files.read.WalBeside."""

    def __init__(self, window: Window, store: PageStore) -> None:
        self._window = window
        self._store = store
        self._b_redo = Lsn(0)

    def begin(self, start: BackupStart) -> None:
        """See WalBeside."""
        self._window.begin(start)
        self._b_redo = start.b_redo

    def finish(self, files: CatalogFiles, control: ControlFile, b_end: Lsn) -> tuple[FinalCatalog, WindowStatus]:
        """See WalBeside. Which files are the database's catalogs shows when its row of pg_database is read: they are
        brought forward then."""
        self._window.finish(b_end)
        places = {at_databases(files): 0}
        redo = self._window.replay(places, self._store)
        redone = Redone(redo, self._store, places, lambda more: self._window.replay(more, self._store), self._b_redo)
        catalog = FinalCatalog(files, redone, frozenset(), checksums=control.data_checksum_version != 0)
        return catalog, window_status(redo)


@contextmanager
def wal_beside(source: BackupSource, options: LoadOptions) -> Iterator[CatalogWal | None]:
    """The WAL of ``source`` from now on; None if it has none to stream, or none is wanted. Raises SourceError."""
    if not options.window or not isinstance(source, WalStreamSource):
        yield None
        return
    with ExitStack() as held:
        stream = held.enter_context(wal_stream(source))
        store = PageStore(options.memory // 8, options.folder)
        held.callback(store.close)
        window = Window(stream, MemoryBudget(options.memory // 4), options.folder, lambda error: None)
        held.callback(window.close)
        yield CatalogWal(window, store)
