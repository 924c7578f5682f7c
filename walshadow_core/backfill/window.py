"""The WAL of a window: taken beside the backup, and applied when it is known where the backup ended.

What recovery needs of a backup lies between B_redo and B_end. While the backup runs, nobody knows which of the WAL
that comes is past B_end: the server writes the stop record when it has sent its last file, while we may still be
reading what it sent before. So the WAL is kept as it comes, past a budget in an unlinked file, and applied when B_end
is known.

A standby's B_end is where its files are consistent, which may be behind what it has replayed, and its catalog shows:
there the window goes on to what had been replayed when the stream was opened, after the catalog was read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import numpy as np

from walshadow_core.api import BackupStart, Bytes, Lsn, RelFileLocator, SourceError, WalStream, WalStreamSource
from walshadow_core.backfill.watch import Watch
from walshadow_core.pgformat.heap import PAGE_SIZE
from walshadow_core.redo.store import PageStore
from walshadow_core.redo.window import Redo
from walshadow_core.stream.reader import PIECE, WalReader
from walshadow_core.visibility.spoolfile import ByteSpool, MemoryBudget
from walshadow_core.visibility.status import WindowStatus

_LOOK_AGAIN_SECONDS: Final = 0.25
_PATIENCE_SECONDS: Final = 60.0
"""Without any WAL, once the backup has ended: the server has flushed all of it by then."""


class Window:
    """Keeps the WAL of a stream from B_redo on, in a thread of its own; one that fails calls ``failed``."""

    def __init__(
        self, stream: WalStream, budget: MemoryBudget, folder: Path, failed: Callable[[BaseException], None]
    ) -> None:
        self._stream = stream
        self._failed = failed
        self._wal = ByteSpool(budget, folder, "the WAL of the backup")
        self._watch: Watch | None = None
        self._first: int | None = None
        self._start: BackupStart | None = None
        self._moment = Lsn(0)
        self._received = int(stream.start)
        self._failure: BaseException | None = None
        self._stopped = False
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="walshadow-window", daemon=True)
        self._thread.start()

    @property
    def size(self) -> int:
        """Bytes of WAL that were kept."""
        return self._wal.size

    def begin(self, start: BackupStart, tables: Mapping[RelFileLocator, int] | None = None) -> None:
        """The backup has begun: until now, what the stream brought has waited in its queue. ``tables`` are the files to
        look after, if any, and whose they are. Raises SourceError."""
        if self._stream.system_identifier != start.system_identifier:
            raise SourceError(
                f"the WAL is of cluster {self._stream.system_identifier}, the backup of {start.system_identifier}",
                "have both come from one server",
            )
        first = start.b_redo - start.b_redo % PAGE_SIZE
        if first < self._stream.start:
            raise SourceError(
                f"the backup begins at {start.b_redo}, the WAL at {self._stream.start} only", "load again"
            )
        self._start = start
        with self._change:
            if tables is not None:
                self._watch = Watch(self._stream, start.server_version // 10000, tables)
            self._first = first
            self._change.notify_all()

    def changes(self, table: int) -> bool:
        """Whether the WAL is seen to change a table: that up to B_redo at least is looked at. Waits for that, but not
        for long: who asks can do without an answer."""
        with self._change:
            begun = self._start.b_redo if self._start is not None else 0
            self._change.wait_for(lambda: self._received >= begun or self._failure is not None, _LOOK_AGAIN_SECONDS)
        return self.has_changed(table)

    def has_changed(self, table: int) -> bool:
        """Whether it was seen so far."""
        watch = self._watch
        return watch is not None and table in watch.changed

    def look_no_more(self) -> None:
        """Nobody will ask any more."""
        self._watch = None

    def _work(self) -> None:
        try:
            with self._change:
                self._change.wait_for(lambda: self._first is not None or self._stopped)
            while not self._stopped:
                piece = self._stream.take(_LOOK_AGAIN_SECONDS)
                if piece is not None:
                    self._keep(piece.start, np.frombuffer(piece.data, np.uint8))
        except BaseException as error:
            with self._change:
                self._failure = error
                self._change.notify_all()
                stopped = self._stopped
            if not stopped:
                self._failed(error)

    def _keep(self, start: int, data: Bytes) -> None:
        assert self._first is not None
        end = start + len(data)
        watch = self._watch
        if watch is not None:
            watch.feed(data.data)
        if end > self._first:
            self._wal.append(data[max(0, self._first - start) :])
        with self._change:
            self._received = end
            self._change.notify_all()
        self._stream.confirm(Lsn(end))

    def finish(self, b_end: Lsn) -> Lsn:
        """Wait for the WAL up to B_end. Gives the moment that pages are of after redo: B_end, or later at a standby.
        Raises SourceError, and what the stream raised."""
        self._moment = max(b_end, self._stream.opened_at)
        self._wait_for(self._moment)
        self.stop()
        return self._moment

    def replay(self, filter_set: Mapping[RelFileLocator, int], store: PageStore) -> Redo:
        """Apply, of the window that was finished, what begins at B_redo or later and ends at its moment or before, to
        the pages of ``filter_set`` (see Redo), in ``store``. May be called more than once, each time for other files.
        Raises FormatError."""
        start = self._start
        assert start is not None and self._first is not None
        major = start.server_version // 10000
        redo = Redo(major, filter_set, store)
        reader = WalReader(Lsn(self._first), major, self._stream.segment_size, start.system_identifier)
        for at in range(0, self._wal.size, PIECE):
            size = min(PIECE, self._wal.size - at)
            self._wal.read_into(at, reader.room(size))
            for records in reader.take(size):
                redo.apply(records.between(start.b_redo, self._moment))
            if reader.position >= self._moment:
                break
        if reader.end is not None and reader.end.lsn < self._moment:
            reader.require_no_end()
        return redo

    def _wait_for(self, position: Lsn) -> None:
        deadline, seen = time.monotonic() + _PATIENCE_SECONDS, -1
        with self._change:
            while self._received < position:
                if self._failure is not None:
                    raise self._failure
                if self._received != seen:
                    deadline, seen = time.monotonic() + _PATIENCE_SECONDS, self._received
                if time.monotonic() > deadline:
                    raise SourceError(
                        f"the WAL up to {position}, where the backup ended, does not come: the stream stands at "
                        f"{Lsn(self._received)}",
                        "see the source's log, and load again",
                    )
                self._change.wait(_LOOK_AGAIN_SECONDS)

    def stop(self) -> None:
        """Take no more. May be called more than once."""
        with self._change:
            self._stopped = True
            self._change.notify_all()
        self._thread.join()

    def close(self) -> None:
        """Stop, and free what was kept. May be called more than once."""
        self.stop()
        self._wal.close()


def window_status(redo: Redo) -> WindowStatus:
    """How the transactions of a window that was applied ended."""
    xids, states = redo.transactions()
    multis, updaters = redo.multixacts()
    return WindowStatus(xids, states, multis, updaters, redo.first_multi)


@contextmanager
def wal_stream(source: WalStreamSource) -> Iterator[WalStream]:
    """The source's WAL from now on. Raises SourceError; where it can't be streamed, that says that there is a way
    without."""
    with ExitStack() as held:
        try:
            stream = held.enter_context(source.stream())
        except SourceError as error:
            remedy = f"{error.remedy}, or load with --no-wal" if error.remedy else "load with --no-wal"
            raise SourceError(
                f"{error.message} (beside the backup, a load streams the WAL, to be exact)", remedy
            ) from error
        yield stream
