"""A one-shot load: plan, one pass over one backup, publish."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from walshadow_core.api import (
    NO_CHOICES,
    BackupRequest,
    BackupSource,
    BackupStart,
    ColumnChoice,
    Destination,
    DestinationError,
    Form,
    Lsn,
    RelationDescriptor,
    SourceError,
    StagingWriter,
    TablePlan,
    TableRefused,
    TransactionStatus,
    VisibilityResolver,
    WalshadowError,
)
from walshadow_core.backfill.channel import Channel, ChannelBroken
from walshadow_core.backfill.exactness import doubt, void
from walshadow_core.backfill.publish import publish
from walshadow_core.backfill.reader import BackupReader, BufferPool, PageChunk
from walshadow_core.backfill.recheck import Recheck
from walshadow_core.backfill.routing import Router
from walshadow_core.backfill.stats import LoadStats
from walshadow_core.backfill.worker import DecodeWorker, Part, TableBatch, WorkerSettings
from walshadow_core.backfill.writer import MetaColumns, WriterLoop
from walshadow_core.catalog.sql import ClusterFacts
from walshadow_core.decode.table import decodable
from walshadow_core.decode.types import DecodeOptions
from walshadow_core.pgformat.control import ControlFile
from walshadow_core.toast.store import ToastStore, check_chunk_size
from walshadow_core.visibility.spoolfile import MemoryBudget
from walshadow_core.visibility.status import CopiedStatus

_MIB = 1 << 20
_MAX_BATCH = 8 * _MIB


@dataclass(frozen=True)
class LoadOptions:
    """How a load goes about it. ``memory`` bounds, in bytes, what a pass holds in page buffers, batches and
    spool together; ``workers`` is the number of decoding threads."""

    decode: DecodeOptions = field(default_factory=DecodeOptions)
    memory: int = 192 * _MIB
    workers: int = 1
    block_rows: int = 500_000
    spool_folder: Path | None = None


@dataclass(frozen=True)
class Planned:
    """One table of a load: what it is, and how it lands."""

    relation: RelationDescriptor
    plan: TablePlan

    @property
    def forms(self) -> dict[str, Form]:
        """In which form the destination wants each column, by the column's name at the source."""
        return {column.attribute.name: column.form for column in self.plan.columns}


@dataclass
class LoadResult:
    """What a load came to. ``seconds`` says, per stage, for how long its thread was busy with it."""

    stats: LoadStats
    seconds: dict[str, float]


ResolverFactory = Callable[[TransactionStatus], VisibilityResolver]


def load(
    source: BackupSource,
    destination: Destination,
    cluster: ClusterFacts,
    tables: Sequence[Planned],
    stats: LoadStats,
    make_resolver: ResolverFactory,
    recheck: Recheck,
    options: LoadOptions,
) -> LoadResult:
    """Load ``tables`` in one pass and publish each. ``stats`` is counted up as it goes.

    A table that fails is out, with its reason in ``stats``; the others go on. Raises WalshadowError for what
    ends the pass as a whole, KeyboardInterrupt likewise: the destination is then as it was.
    """
    stats.started = time.monotonic()
    run = _Pass(source, destination, cluster, tables, stats, make_resolver, recheck, options)
    try:
        return run.go()
    finally:
        stats.seconds = time.monotonic() - stats.started


class _Pass:
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
    ) -> None:
        self._source = source
        self._destination = destination
        self._cluster = cluster
        self._tables = tables
        self._relations = [t.relation for t in tables]
        self._stats = stats
        self._make_resolver = make_resolver
        self._recheck = recheck
        self._options = options
        self._writers: list[StagingWriter | None] = [None] * len(tables)
        self._storage: list[str | None] = [None] * len(tables)
        self._half_made: TablePlan | None = None
        self._chunks: Channel[PageChunk] = Channel(16)
        self._batches: Channel[TableBatch] = Channel(1)
        self._stores: dict[Part, ToastStore] = {}
        self._failure: BaseException | None = None
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self.seconds: defaultdict[str, float] = defaultdict(float)

    # -- failing

    def _fail_table(self, table: int, reason: str) -> None:
        self._stats.tables[table].fail(reason)

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

    def go(self) -> LoadResult:
        # Few: what the reader has written is then still in the CPU's last cache when a worker comes to it.
        buffers = max(4, min(2 + 4 * self._options.workers, self._options.memory // (8 * _MIB)))
        self._pool = BufferPool(buffers)
        try:
            self._walk_and_write(buffers)
            self._publish()
        except BaseException:
            self._abort_all()
            raise
        return LoadResult(self._stats, self.seconds)

    def _walk_and_write(self, buffers: int) -> None:
        status = CopiedStatus(folder=self._options.spool_folder)
        reader = BackupReader(
            Router(self._relations, status), status, self._pool, self._chunks, self._stats,
            self._cluster.segment_blocks, self._fail_table, self._recheck,
        )  # fmt: skip
        self._stats.phase = "waiting for the backup to start"
        clock = time.perf_counter()
        workers: list[DecodeWorker] = []
        try:
            with self._source.open(self._request()) as backup:
                self.seconds["start of the backup"] += time.perf_counter() - clock
                start = backup.start
                self._check_same_cluster(start.system_identifier)
                self._stats.start = start
                self._stats.bytes_total = start.size_estimate
                self._create_staging()
                workers = self._workers(status, buffers, self._options.spool_folder or Path(tempfile.gettempdir()))
                writer_loop = WriterLoop(
                    self._writers, self._stats.tables,
                    MetaColumns(Lsn(start.b_redo), time.time_ns() // 1000), self._fail_table,
                )  # fmt: skip
                for number, worker in enumerate(workers):
                    self._thread(f"decode-{number}", lambda w=worker: w.run(self._chunks, self._pool))  # type: ignore[misc]
                self._thread("write", lambda: writer_loop.run(self._batches))
                decoders, writer = self._threads[:-1], self._threads[-1:]
                self._stats.phase = "reading"
                clock = time.perf_counter()
                try:
                    if reader.read(backup):
                        self._stats.end = backup.end()
                except ChannelBroken:
                    raise self._failure or SourceError("the pass was broken off") from None
                self.seconds["read"] += time.perf_counter() - clock - reader.seconds_waiting
                self.seconds["read: wait for a free buffer"] += reader.seconds_waiting
            self._chunks.close()
            self._join(decoders)
            # Nobody reads pages any more: their memory is for rows that waited.
            self._pool.break_off()
            if self._stats.end is None:
                self._batches.close()
                self._join(writer)
                return
            if reader.control is None:
                raise SourceError("the backup has no global/pg_control", "it is not complete: take another one")
            check_chunk_size(reader.control)
            status.complete_with(reader.control)
            self._fail_void(start, reader.control, status)
            self._stats.phase = "resolving"
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
            for store in self._stores.values():
                store.close()
            status.close()
            self._recheck.close()
        self.seconds["write"] += writer_loop.seconds

    def _fail_void(self, start: BackupStart, control: ControlFile, status: CopiedStatus) -> None:
        """What a commit between the catalog snapshot and the backup's end made of a table may not be published."""
        now = {r.oid: r for r in self._recheck.relations(start, control, status)}
        for index, relation in enumerate(self._relations):
            after = now.get(relation.oid)
            reason = void(relation, after)
            if reason is None and after is not None:
                reason = self._recheck.void(relation, after)
            if reason is not None:
                self._fail_table(index, reason)

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

    def _create_staging(self) -> None:
        for index, table in enumerate(self._tables):
            self._half_made = table.plan
            try:
                self._writers[index] = self._destination.create_staging(table.plan)
            except (DestinationError, TableRefused) as error:
                self._fail_table(index, str(error))
            self._half_made = None
        if self._stats.all_failed:
            raise DestinationError("no table is left to load: " + "; ".join(t.error or "" for t in self._stats.tables))

    def _workers(self, status: CopiedStatus, buffers: int, folder: Path) -> list[DecodeWorker]:
        o = self._options
        count = max(1, o.workers)
        free = o.memory - buffers * _MIB
        spool = free // 4
        # A batch is resident about four times: being filled, handed over, being encoded, not filled again yet. Small
        # ones are encoded while they are in the CPU's cache; what is worth an insert is the destination's business.
        block = max(_MIB, min(_MAX_BATCH, (free - spool) // (4 * count * len(self._tables))))
        settings = WorkerSettings(
            o.decode, self._cluster.data_checksums, o.block_rows, block, folder, self._cluster.oldest_running_xid
        )
        budget = MemoryBudget(spool)
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
                self._stats.tables,
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
            table = self._stats.tables[index]
            if writer is None or table.failed:
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
            table = self._stats.tables[index]
            if not table.failed:
                warning = doubt(table, self._stats.start.b_redo, self._cluster) or self._recheck.doubt(table)
                if warning is not None:
                    table.exact = False
                    table.warnings.append(warning)
                table.phase = "publishing"
                try:
                    if left := publish(self._destination, planned.plan, self._storage[index]):
                        table.warnings.append(left)
                    table.phase = "done"
                except DestinationError as error:
                    self._fail_table(index, str(error))
            if table.failed:
                self._abort(index)
        self.seconds["publish"] += time.perf_counter() - clock
        self._stats.phase = "done"

    def _abort(self, index: int) -> None:
        writer = self._writers[index]
        if writer is not None:
            writer.abort()
            self._writers[index] = None

    def _abort_all(self) -> None:
        for index in range(len(self._writers)):
            self._abort(index)
        if self._half_made is not None:
            # Ctrl-C while it was being made: whether it is there is not known, so make it anew and drop that.
            with contextlib.suppress(WalshadowError):
                self._destination.create_staging(self._half_made).abort()


def plan_tables(
    destination: Destination,
    relations: Sequence[RelationDescriptor],
    names: Mapping[int, str],
    decode: DecodeOptions,
    *,
    replace: bool,
    choices: Mapping[int, Mapping[str, ColumnChoice]],
) -> tuple[list[Planned], list[tuple[str, str]]]:
    """How each relation lands, and (name, reason) of those that can't, or can't be decoded in the form that they are
    to land in. ``names`` and ``choices`` are by relation oid. Changes nothing."""
    planned: list[Planned] = []
    refused: list[tuple[str, str]] = []
    for relation in relations:
        chosen = choices.get(relation.oid, NO_CHOICES)
        try:
            item = Planned(relation, destination.plan(relation, names[relation.oid], replace=replace, choices=chosen))
            decodable(relation, decode, item.forms)
            planned.append(item)
        except WalshadowError as error:
            refused.append((relation.qualified_name, str(error)))
    return planned, refused
