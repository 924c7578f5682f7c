"""One pass over one backup: its pages through the workers to staging, and what is complete is published."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from walshadow_core.api import (
    Backup,
    BackupRequest,
    BackupSource,
    BackupStart,
    Destination,
    DestinationError,
    FormatError,
    Lsn,
    RelationDescriptor,
    RelFileLocator,
    SourceError,
    StagingWriter,
    TableRefused,
    WalStreamSource,
)
from walshadow_core.backfill.channel import Channel, ChannelBroken
from walshadow_core.backfill.exactness import doubt, rewritten, void
from walshadow_core.backfill.finalcatalog import Redone
from walshadow_core.backfill.keeping import Keeping, Place
from walshadow_core.backfill.options import LoadOptions, Planned, ResolverFactory
from walshadow_core.backfill.pagespool import FinalPages, PageSpool
from walshadow_core.backfill.publish import publish
from walshadow_core.backfill.reader import CHUNK_PAGES, BackupReader, BufferPool, PageChunk
from walshadow_core.backfill.recheck import Ended, Recheck
from walshadow_core.backfill.routing import Router
from walshadow_core.backfill.stats import LoadStats, TableStats
from walshadow_core.backfill.window import Window, wal_stream, window_status
from walshadow_core.backfill.worker import DecodeWorker, Part, TableBatch, WorkerSettings
from walshadow_core.backfill.writer import MetaColumns, WriterLoop
from walshadow_core.catalog.sql import ClusterFacts
from walshadow_core.pgformat.control import ControlFile
from walshadow_core.pgformat.heap import PAGE_SIZE
from walshadow_core.redo.store import PageStore
from walshadow_core.redo.window import Redo
from walshadow_core.toast.store import ToastStore, check_chunk_size
from walshadow_core.visibility.spoolfile import MemoryBudget
from walshadow_core.visibility.status import CopiedStatus

_MIB = 1 << 20
_MAX_BATCH = 8 * _MIB


class Pass:
    def __init__(
        self,
        source: BackupSource,
        destination: Destination,
        cluster: ClusterFacts,
        tables: Sequence[Planned],
        stats: LoadStats,
        make_resolver: ResolverFactory,
        recheck: Recheck,
        options: LoadOptions,
        *,
        again: bool,
    ) -> None:
        """``stats.passing`` belongs to ``tables``; ``again`` says that this is not their first pass."""
        self._source = source
        self._destination = destination
        self._cluster = cluster
        self._tables = tables
        self._relations = [t.relation for t in tables]
        self._stats = stats
        self._make_resolver = make_resolver
        self._recheck = recheck
        self._options = options
        self._table_stats = stats.passing
        self._writers: list[StagingWriter | None] = [None] * len(tables)
        self._storage: list[str | None] = [None] * len(tables)
        self._staging = threading.Event()
        """Set when no staging table is being made."""
        self._staging.set()
        self._chunks: Channel[PageChunk] = Channel(16)
        self._batches: Channel[TableBatch] = Channel(1)
        self._stores: dict[Part, ToastStore] = {}
        self._again: dict[int, RelationDescriptor] = {}
        self._window: Window | None = None
        self._moment: Lsn | None = None
        self._settled = False
        self._streamed = source if options.window and isinstance(source, WalStreamSource) else None
        small = sum(r.size_bytes for r in self._relations) <= options.spool_below
        self._keep_all = again or small
        self._keeping: Keeping | None = None
        self._failure: BaseException | None = None
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self.seconds: defaultdict[str, float] = defaultdict(float)

    # -- failing

    def _fail_table(self, table: int, reason: str) -> None:
        """While pages are decoded as they come, what is wrong with a table may be that it was changed meanwhile: the
        window tells, at its end."""
        stats = self._table_stats[table]
        if self._keeping is None or self._window is None or self._keeping.kept(table) or self._settled:
            if stats.put_off is None:
                stats.fail(reason)
        elif stats.put_off is None:
            stats.put_off = reason

    def _fail_pass(self, error: BaseException) -> None:
        """The first reason counts; every thread is woken and ends."""
        with self._lock:
            if self._failure is None and not isinstance(error, ChannelBroken):
                self._failure = error
        self._chunks.break_off()
        self._batches.break_off()
        self._pool.break_off()

    def _thread(self, name: str, work: Callable[[], None]) -> None:
        def body() -> None:
            try:
                work()
            except BaseException as error:
                self._fail_pass(error)

        thread = threading.Thread(target=body, name=f"walshadow-{name}", daemon=True)
        thread.start()
        self._threads.append(thread)

    def _join(self, threads: Sequence[threading.Thread]) -> None:
        for thread in threads:
            while thread.is_alive():
                thread.join(0.2)
        if self._failure is not None:
            raise self._failure

    # -- the pass

    def go(self) -> dict[int, RelationDescriptor]:
        """Take the backup and publish what is complete. Gives the tables, by index, that need one more pass, and what
        they are by now."""
        # Few: what the reader has written is then still in the CPU's last cache when a worker comes to it.
        buffers = max(4, min(2 + 4 * self._options.workers, self._options.memory // (8 * _MIB)))
        self._pool = BufferPool(buffers)
        try:
            self._walk_and_write(buffers)
            self._publish()
        except BaseException:
            self._abort_all()
            raise
        return self._again

    def _walk_and_write(self, buffers: int) -> None:
        folder = self._options.folder
        # A quarter of what is free for what waits; beside redo less, as files hold the rest of it just as well, and as
        # much for its pages. The rest is for batches.
        free = self._options.memory - buffers * _MIB
        budget = MemoryBudget(free // (4 if self._streamed is None else 16))
        status = CopiedStatus(folder=self._options.spool_folder)
        places = self._filter_set()
        keeping = self._keeping = Keeping(self._table_stats, lambda: PageSpool(budget, folder), all_=self._keep_all)
        reader = BackupReader(
            Router(self._relations, status), status, self._pool, self._chunks, self._stats,
            self._cluster.segment_blocks, self._fail_table, self._recheck, keeping,
        )  # fmt: skip
        workers: list[DecodeWorker] = []
        store = PageStore(free // 16, folder)
        writer_loop: WriterLoop | None = None
        try:
            with contextlib.ExitStack() as connections:
                self._window = self._open_window(connections, budget, folder)
                self._stats.phase = "waiting for the backup to start"
                clock = time.perf_counter()
                backup = connections.enter_context(self._source.open(self._request()))
                self.seconds["start of the backup"] += time.perf_counter() - clock
                start = backup.start
                self._check_same_cluster(start.system_identifier)
                self._stats.start = start
                self._stats.bytes_total = start.size_estimate
                if self._window is not None:
                    self._window.begin(start, {locator: place[0] for locator, place in places.items()})
                keeping.begin(self._window)
                workers = self._workers(status, budget, free * 5 // 8, folder, start)
                writer_loop = WriterLoop(
                    self._writers, self._table_stats,
                    MetaColumns(Lsn(start.b_redo), time.time_ns() // 1000), self._fail_table,
                )  # fmt: skip
                self._staging.clear()
                self._thread("write", lambda: self._write(writer_loop))  # type: ignore[arg-type]
                writer = self._threads[-1:]
                decoders = self._decode(workers)
                self._stats.phase = "reading"
                if not self._read(reader, backup):
                    self._end_early(decoders, writer)
                    return
                self._chunks.close()
                self._join(decoders)
                redone = self._finish_window(start, store)
            if reader.control is None:
                raise SourceError("the backup has no global/pg_control", "it is not complete: take another one")
            check_chunk_size(reader.control)
            status.complete_with(reader.control, window_status(redone.redo) if redone is not None else None)
            self._judge(start, reader.control, status, redone, keeping)
            if self._window is not None:
                self._window.close()
            self._stats.phase = "resolving"
            if redone is not None and keeping.any_kept:
                self._decode_final_pages(workers, keeping, redone)
            # Nobody reads pages any more: their memory is for rows that waited.
            self._pool.break_off()
            for number, worker in enumerate(workers):
                self._thread(f"resolve-{number}", worker.finish)
            self._join(self._threads[-len(workers) :])
            self._stats.phase = "writing"
            self._batches.close()
            self._join(writer)
            self._finish_writers(writer_loop)
        except BaseException as error:
            self._fail_pass(error)
            # Before the threads are waited for: one may wait for an insert that only this ends.
            self._abort_all()
            raise
        finally:
            for thread in self._threads:
                thread.join()
            for worker in workers:
                worker.close()
                for stage, seconds in worker.seconds.items():
                    self.seconds[stage] += seconds
            for chunks in self._stores.values():
                chunks.close()
            keeping.close()
            if self._window is not None:
                self._window.close()
            store.close()
            status.close()
            self._recheck.close()
        self.seconds["write"] += writer_loop.seconds

    def _open_window(self, connections: contextlib.ExitStack, budget: MemoryBudget, folder: Path) -> Window | None:
        if self._streamed is None:
            return None
        self._stats.phase = "connecting for the WAL"
        stream = connections.enter_context(wal_stream(self._streamed))
        window = Window(stream, budget, folder, self._fail_pass)
        connections.callback(window.stop)
        return window

    def _filter_set(self) -> dict[RelFileLocator, Place]:
        """Every file of the pass: the table's index, that in its ``stored``, whether it is of the TOAST relation."""
        found = {}
        for table, relation in enumerate(self._relations):
            for leaf, stored in enumerate(relation.stored):
                found[stored.locator] = table, leaf, False
                if stored.toast_locator is not None:
                    found[stored.toast_locator] = table, leaf, True
        return found

    def _decode(self, workers: Sequence[DecodeWorker]) -> list[threading.Thread]:
        chunks = self._chunks
        for number, worker in enumerate(workers):
            self._thread(f"decode-{number}", lambda w=worker: w.run(chunks, self._pool))  # type: ignore[misc]
        return self._threads[-len(workers) :]

    def _read(self, reader: BackupReader, backup: Backup) -> bool:
        """Read the backup to its end; whether there was a reason to."""
        clock = time.perf_counter()
        try:
            whole = reader.read(backup)
            if whole:
                self._stats.end = backup.end()
        except ChannelBroken:
            raise self._failure or SourceError("the pass was broken off") from None
        self.seconds["read"] += time.perf_counter() - clock - reader.seconds_waiting
        self.seconds["read: wait for a free buffer"] += reader.seconds_waiting
        return whole

    def _end_early(self, decoders: Sequence[threading.Thread], writer: Sequence[threading.Thread]) -> None:
        """Nothing of the pass is left: what was put off comes again."""
        self._chunks.close()
        self._join(decoders)
        self._batches.close()
        self._join(writer)
        for index, relation in enumerate(self._relations):
            if not self._table_stats[index].failed:
                self._again[index] = relation

    def _finish_window(self, start: BackupStart, store: PageStore) -> Redone | None:
        if self._window is None:
            return None
        assert self._stats.end is not None
        self._stats.phase = "applying the WAL"
        clock = time.perf_counter()
        # The tables' files first: `_changed` goes by that.
        places = {locator: index for index, locator in enumerate([*self._filter_set(), *self._recheck.locators])}
        self._moment = self._window.finish(self._stats.end.b_end)
        self._stats.wal_bytes += self._window.size
        redo = self._window.replay(places, store)
        store.settle()
        self.seconds["redo"] += time.perf_counter() - clock
        return Redone(redo, store, places, lambda more: self._replay(more, store), start.b_redo)

    def _replay(self, places: Mapping[RelFileLocator, int], store: PageStore) -> Redo:
        assert self._window is not None
        return self._window.replay(places, store)

    def _judge(
        self,
        start: BackupStart,
        control: ControlFile,
        status: CopiedStatus,
        redone: Redone | None,
        keeping: Keeping,
    ) -> None:
        """Which tables stand, which need one more pass, which can't be published: what a commit between the catalog
        snapshot and the backup's end made of a table may not be."""
        assert self._stats.end is not None
        ended = Ended(start, control, status, self._moment or self._stats.end.b_end, redone)
        now = {r.oid: r for r in self._recheck.relations(ended)}
        touched, dropped = self._changed(redone)
        for index, relation in enumerate(self._relations):
            stats = self._table_stats[index]
            if stats.failed:
                continue
            after = now.get(relation.oid)
            reason = void(relation, after)
            if reason is None and after is not None and redone is None:
                reason = self._recheck.void(relation, after)
            moved = index in dropped or reason is not None
            busy = index in keeping.restless or (index in touched and not keeping.kept(index))
            if redone is not None and after is not None and rewritten(relation, after) and (moved or busy):
                stats.put_off = reason or f"{relation.qualified_name} was written to during the backup"
                self._again[index] = after
            elif reason is not None:
                stats.fail(reason)
            elif stats.put_off is not None:
                stats.fail(stats.put_off)
        self._settled = True

    def _changed(self, redone: Redone | None) -> tuple[set[int], set[int]]:
        """The tables that the WAL of the window changed, and those of them whose files a commit took away."""
        if redone is None:
            return set(), set()
        redo = redone.redo
        table = {relation: place[0] for relation, place in enumerate(self._filter_set().values())}
        stored = np.unique(redone.store.keys() >> 32).tolist()
        dropped = {table[relation] for relation in redo.dropped if relation in table}
        touched = {table[relation] for relation in (*stored, *redo.cut_to, *redo.made) if relation in table}
        return touched | dropped, dropped

    def _decode_final_pages(
        self,
        workers: Sequence[DecodeWorker],
        keeping: Keeping,
        redone: Redone,
    ) -> None:
        """What was kept of the copies goes through the workers, brought forward to the end of the window."""
        self._chunks = Channel(16)
        decoders = self._decode(workers)
        clock = time.perf_counter()
        for number, (table, leaf, toast) in enumerate(self._filter_set().values()):
            if not keeping.kept(table):
                continue
            spool = keeping.spool_of((table, leaf, toast))
            pages = FinalPages(
                spool, redone.store, redone.redo, number, redone.b_redo, checksums=self._cluster.data_checksums
            )
            try:
                self._hand_over(pages, table, leaf, toast)
            except FormatError as error:
                self._fail_table(table, str(error))
            except ChannelBroken:
                raise self._failure or SourceError("the pass was broken off") from None
            spool.close()
        self.seconds["read spooled pages"] += time.perf_counter() - clock
        self._chunks.close()
        self._join(decoders)

    def _hand_over(self, pages: FinalPages, table: int, leaf: int, toast: bool) -> None:
        name = self._relations[table].stored[leaf].qualified_name
        for first_block, count, path in pages.runs(CHUNK_PAGES):
            if self._table_stats[table].out:
                return
            buffer = self._pool.take()
            length = count * PAGE_SIZE
            try:
                pages.read(first_block, count, path, buffer[:length])
            except BaseException:
                self._pool.give(buffer)
                raise
            self._chunks.put(PageChunk(table, leaf, toast, path or name, first_block, buffer, length, final=True))

    def _request(self) -> BackupRequest:
        stored = [s for relation in self._relations for s in relation.stored]
        toast = (s.toast_locator for s in stored if s.toast_locator is not None)
        locators = frozenset(s.locator for s in stored).union(toast)
        return BackupRequest(locators, everything=self._recheck.everything)

    def _check_same_cluster(self, system_identifier: int) -> None:
        known = self._cluster.system_identifier
        if known is not None and known != system_identifier:
            raise SourceError(
                f"the backup is of cluster {system_identifier}, the catalog of cluster {known}",
                "point --source and the backup at the same server",
            )

    def _write(self, loop: WriterLoop) -> None:
        """Staging is made while the backup is already read."""
        try:
            self._create_staging()
        finally:
            self._staging.set()
        loop.run(self._batches)

    def _create_staging(self) -> None:
        refused: list[str] = []
        for index, table in enumerate(self._tables):
            if self._failure is not None:
                raise ChannelBroken
            if self._table_stats[index].out:
                continue
            try:
                self._writers[index] = self._destination.create_staging(table.plan)
            except (DestinationError, TableRefused) as error:
                self._table_stats[index].fail(str(error))
                refused.append(str(error))
        if len(refused) == len(self._tables):
            raise DestinationError("no table is left to load: " + "; ".join(refused))

    def _workers(
        self, status: CopiedStatus, budget: MemoryBudget, room: int, folder: Path, start: BackupStart
    ) -> list[DecodeWorker]:
        """``room`` is what batches may take, in bytes."""
        o = self._options
        count = max(1, o.workers)
        # A batch is resident about four times: being filled, handed over, being encoded, not filled again yet. Small
        # ones are encoded while they are in the CPU's cache; what is worth an insert is the destination's business.
        block = max(_MIB, min(_MAX_BATCH, room // (4 * count * len(self._tables))))
        settings = WorkerSettings(
            o.decode, self._cluster.data_checksums, o.block_rows, block, folder, self._cluster.oldest_running_xid,
            None if self._window is None else start.b_redo,
        )  # fmt: skip
        self._stores = {
            (table, leaf): ToastStore(budget, folder, status)
            for table, relation in enumerate(self._relations)
            for leaf, stored in enumerate(relation.stored)
            if stored.toast_locator is not None
        }
        resolver = self._make_resolver(status)
        forms = [table.forms for table in self._tables]
        return [
            DecodeWorker(
                self._relations,
                forms,
                self._table_stats,
                self._stores,
                status,
                resolver,
                budget,
                settings,
                self._batches,
                self._fail_table,
            )
            for _ in range(count)
        ]

    def _finish_writers(self, loop: WriterLoop) -> None:
        clock = time.perf_counter()
        for index, writer in enumerate(self._writers):
            table = self._table_stats[index]
            if writer is None or table.out:
                continue
            table.phase = "writing"
            try:
                writer.finish()
                self._storage[index] = self._destination.storage_id(self._tables[index].plan.staging)
            except DestinationError as error:
                self._fail_table(index, str(error))
            loop.count(index)
        self.seconds["wait for the last inserts"] += time.perf_counter() - clock

    # -- after the pass

    def _publish(self) -> None:
        clock = time.perf_counter()
        self._stats.phase = "publishing"
        assert self._stats.start is not None
        for index, planned in enumerate(self._tables):
            table = self._table_stats[index]
            if not table.out:
                self._note_exactness(table, self._stats.start)
                table.phase = "publishing"
                try:
                    if left := publish(self._destination, planned.plan, self._storage[index]):
                        table.warnings.append(left)
                    table.phase = "done"
                except DestinationError as error:
                    self._fail_table(index, str(error))
            if table.out:
                self._abort(index)
        self.seconds["publish"] += time.perf_counter() - clock
        self._stats.phase = "done"

    def _note_exactness(self, table: TableStats, start: BackupStart) -> None:
        if self._moment is not None:
            table.exact_at = self._moment
            return
        warning = doubt(table, start.b_redo, self._cluster) or self._recheck.doubt(table)
        if warning is not None:
            table.exact = False
            table.warnings.append(warning)

    def _abort(self, index: int) -> None:
        writer = self._writers[index]
        if writer is not None:
            writer.abort()
            self._writers[index] = None

    def _abort_all(self) -> None:
        self._staging.wait()
        for index in range(len(self._writers)):
            self._abort(index)
