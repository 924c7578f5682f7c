"""The decoding end of a pass: buffers of pages through walk, gate and decoder to row batches."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from walshadow_core.api import (
    DEFER,
    EMIT,
    Bytes,
    Form,
    FormatError,
    Lsn,
    RelationDescriptor,
    TableRefused,
    TransactionStatus,
    TupleHeaders,
    VisibilityResolver,
)
from walshadow_core.backfill.channel import Channel
from walshadow_core.backfill.pagespool import page_lsns, untold
from walshadow_core.backfill.reader import CHUNK_PAGES, BufferPool, PageChunk
from walshadow_core.backfill.stats import TableStats
from walshadow_core.decode.table import TableDecoder
from walshadow_core.decode.toasted import OutsideValues
from walshadow_core.decode.types import DecodeOptions
from walshadow_core.pgformat.checksum import bad_checksums
from walshadow_core.pgformat.heap import HEAP_HASEXTERNAL, PAGE_SIZE, PageWalk, PageWalker, TupleData
from walshadow_core.toast.chunks import ChunkWriter
from walshadow_core.toast.store import ToastStore
from walshadow_core.visibility.recent import RecentXids
from walshadow_core.visibility.spool import DeferredSpool
from walshadow_core.visibility.spoolfile import MemoryBudget

Part = tuple[int, int]
"""A relation with rows of a table: the table's index, and that in its ``stored``."""


@dataclass(slots=True)
class TableBatch:
    """Decoded rows of one table."""

    table: int
    batch: pa.RecordBatch


@dataclass(frozen=True)
class WorkerSettings:
    """What all workers of a pass share. ``block_rows`` and ``block_bytes`` bound one batch of one table. ``told_from``
    is B_redo where the WAL of the window tells of every page that was changed after it, None where there is no such
    WAL."""

    decode: DecodeOptions
    verify_checksums: bool
    block_rows: int
    block_bytes: int
    spool_folder: Path
    oldest_running_xid: int
    told_from: Lsn | None = None


_NONE: NDArray[np.intp] = np.empty(0, np.intp)


@contextmanager
def _placed(
    where: str, index: NDArray[np.intp], block: NDArray[np.uint32], offnum: NDArray[np.uint16]
) -> Iterator[None]:
    """A FormatError about one of the tuples ``index`` comes out with its place in ``where``."""
    try:
        yield
    except FormatError as error:
        at = getattr(error, "tuple_index", None)
        if at is None:
            raise
        tuple_at = int(index[at])
        place = f"block {int(block[tuple_at])}, line pointer {int(offnum[tuple_at])}"
        raise FormatError(f"{where}: {place}: {error}") from error


class DecodeWorker:
    """One thread's share of a pass: a walker, a decoder per table, and per relation whose files hold its rows two
    spools (tuples that are undecided, rows that point to TOAST) and a writer of TOAST chunks. Not thread safe.

    ``stores``, which all workers share, has the TOAST relations by (table, index in its ``stored``).
    ``forms`` says, per table, in which form a column comes (see TableDecoder). Errors of one table go to
    ``fail_table`` and the others go on.
    """

    def __init__(
        self,
        relations: Sequence[RelationDescriptor],
        forms: Sequence[Mapping[str, Form]],
        stats: Sequence[TableStats],
        stores: Mapping[Part, ToastStore],
        status: TransactionStatus,
        resolver: VisibilityResolver,
        budget: MemoryBudget,
        settings: WorkerSettings,
        out: Channel[TableBatch],
        fail_table: Callable[[int, str], None],
    ) -> None:
        self._relations = relations
        self._forms = forms
        self._stats = stats
        self._stores = stores
        self._status = status
        self._resolver = resolver
        self._budget = budget
        self._settings = settings
        self._out = out
        self._fail_table = fail_table
        self._walker = PageWalker(CHUNK_PAGES)
        self._decoders: dict[int, TableDecoder] = {}
        self._spools: dict[Part, DeferredSpool] = {}
        self._outside: dict[Part, DeferredSpool] = {}
        self._chunk_writers: dict[Part, ChunkWriter] = {}
        self._recent: dict[int, RecentXids] = {}
        self._numbers = _NONE
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def run(self, chunks: Channel[PageChunk], pool: BufferPool) -> None:
        """Decode what comes until the channel closes. Raises ChannelBroken."""
        for chunk in chunks:
            try:
                if not self._stats[chunk.table].out:
                    self._guarded(chunk.table, lambda c=chunk: self._chunk(c))  # type: ignore[misc]
            finally:
                pool.give(chunk.buffer)

    def _guarded(self, table: int, work: Callable[[], None]) -> None:
        try:
            work()
        except (FormatError, TableRefused) as error:
            self._fail_table(table, str(error))

    def _decoder(self, table: int) -> TableDecoder:
        decoder = self._decoders.get(table)
        if decoder is None:
            s = self._settings
            decoder = TableDecoder(self._relations[table], s.decode, s.block_rows, s.block_bytes, self._forms[table])
            self._decoders[table] = decoder
        return decoder

    def _chunk(self, chunk: PageChunk) -> None:
        clock = time.perf_counter()
        pages = chunk.buffer[: chunk.length]
        if self._settings.verify_checksums and not chunk.final:
            bad = bad_checksums(pages, chunk.first_block)
            if len(bad):
                raise FormatError(
                    f"{chunk.path}: block {int(bad[0])} fails its checksum",
                    "the page was torn by a write during the copy, or is damaged on disk: load again when the table is "
                    "quiet, and check the source with pg_checksums or amcheck",
                )
            clock = self._clock("checksum", clock)
        walk = self._walker.walk(pages, chunk.first_block)
        if walk.damage:
            first = walk.damage[0]
            raise FormatError(
                f"{chunk.path}: block {first.block} is damaged: {first.reason}",
                "check the source with amcheck",
            )
        clock = self._clock("walk", clock)
        stats = self._stats[chunk.table]
        with stats.lock:
            stats.pages += walk.pages
            stats.empty_pages += walk.empty_pages
            stats.max_lsn = max(stats.max_lsn, walk.max_lsn)
        told_from = self._settings.told_from
        if told_from is not None and walk.max_lsn > told_from and not chunk.final:
            late = np.argmax(page_lsns(pages.reshape(-1, PAGE_SIZE)))
            raise untold(chunk.path, chunk.first_block + int(late), told_from)
        if chunk.toast:
            self._take_chunks(chunk, walk, pages)
            self._clock("TOAST chunks", clock)
            return
        if told_from is None:
            self._recent.setdefault(chunk.table, RecentXids(self._settings.oldest_running_xid)).add(walk.headers)
        decision = self._decide(walk.headers)
        emit = self._emitted(decision)
        defer = np.flatnonzero(decision == DEFER) if len(emit) < len(decision) else _NONE
        clock = self._clock("gate", clock)
        with stats.lock:
            stats.rows_walked += len(decision)
            stats.rows_deferred += len(defer)
            stats.rows_gated += len(decision) - len(emit) - len(defer)
        part = chunk.table, chunk.leaf
        if len(defer):
            self._spool(self._spools, part, walk, pages, defer)
        emit = self._put_off_outside(part, walk, pages, emit)
        self._clock("spool", clock)
        data = walk.data if len(emit) == len(decision) else walk.data.take(emit)
        with _placed(chunk.path, emit, walk.block, walk.offnum):
            self._emit(part, pages, data)

    def _decide(self, headers: TupleHeaders) -> NDArray[np.uint8]:
        """What the resolver says, which may be someone's plugin: a decision that is none would lose rows."""
        decision = self._resolver.decide(headers)
        last = EMIT if self._status.complete else DEFER
        if len(decision) != len(headers.xmin) or (len(decision) and decision.max() > last):
            raise FormatError(
                f"the visibility resolver gave {len(decision)} decisions for {len(headers.xmin)} tuples, or one that "
                "does not exist at this point",
                "mend the resolver's plugin, or leave --resolver out",
            )
        return decision

    def _emitted(self, decision: NDArray[np.uint8]) -> NDArray[np.intp]:
        """The tuples to emit: nearly always all of them, and then a stretch of the same numbers every time."""
        count = len(decision)
        emitted = decision == EMIT
        if np.count_nonzero(emitted) < count:
            return np.flatnonzero(emitted)
        if count > len(self._numbers):
            self._numbers = np.arange(2 * count)
        return self._numbers[:count]

    def _clock(self, stage: str, since: float) -> float:
        now = time.perf_counter()
        self.seconds[stage] += now - since
        return now

    def _take_chunks(self, chunk: PageChunk, walk: PageWalk, pages: Bytes) -> None:
        part = chunk.table, chunk.leaf
        writer = self._chunk_writers.get(part)
        if writer is None:
            writer = self._chunk_writers[part] = self._stores[part].writer()
        try:
            writer.add(walk, pages)
        except FormatError as error:
            raise FormatError(f"{chunk.path}: {error}") from error

    def _put_off_outside(self, part: Part, walk: PageWalk, pages: Bytes, emit: NDArray[np.intp]) -> NDArray[np.intp]:
        """Rows that point to TOAST wait until all of its chunks have come; the others are given back."""
        infomask = walk.headers.infomask
        if not (infomask & HEAP_HASEXTERNAL).any():
            return emit
        flagged = np.flatnonzero(infomask[emit] & HEAP_HASEXTERNAL)
        if not len(flagged):
            return emit
        outside = np.zeros(len(emit), np.bool_)
        table, leaf = part
        outside[flagged] = self._decoder(table).outside(pages, walk.data.take(emit[flagged]), leaf)
        self._spool(self._outside, part, walk, pages, emit[outside])
        return emit[~outside]

    def _spool(
        self, spools: dict[Part, DeferredSpool], part: Part, walk: PageWalk, pages: Bytes, index: NDArray[np.intp]
    ) -> None:
        spool = spools.get(part)
        if spool is None:
            spool = spools[part] = DeferredSpool(self._budget, self._settings.spool_folder)
        spool.add(walk, pages, index)

    def _emit(self, part: Part, buffer: Bytes, data: TupleData, outside: OutsideValues | None = None) -> None:
        clock = time.perf_counter()
        table, leaf = part
        for batch in self._decoder(table).batches(buffer, data, outside, leaf):
            clock = self._clock("decode", clock)
            self._out.put(TableBatch(table, batch))
            clock = self._clock("wait for the writer", clock)
        self._clock("decode", clock)
        with self._stats[table].lock:
            self._stats[table].rows_emitted += len(data.natts)

    def finish(self) -> None:
        """After the walk has ended well, and transaction status is complete: decide what was deferred, and
        hand over the last batches. Raises ChannelBroken."""
        spooled = {table for table, _ in self._spools.keys() | self._outside.keys()}
        for table in sorted(self._decoders.keys() | spooled):
            if not self._stats[table].out:
                self._guarded(table, lambda t=table: self._finish_table(t))  # type: ignore[misc]

    def _finish_table(self, table: int) -> None:
        stats = self._stats[table]
        recent = self._recent.get(table)
        stats.mixed |= recent is not None and recent.committed(self._status)
        for part in sorted(p for p in self._spools.keys() | self._outside.keys() if p[0] == table):
            stats.phase = "resolving"
            self._finish_part(part)
        last = self._decoder(table).finish()
        if last is not None:
            self._out.put(TableBatch(table, last))

    def _finish_part(self, part: Part) -> None:
        table, leaf = part
        stats = self._stats[table]
        name = self._relations[table].stored[leaf].qualified_name
        store = self._stores.get(part)
        spool = self._spools.get(part)
        if spool is not None:
            for spooled in spool.batches():
                decision = self._decide(spooled.headers)
                emit = np.flatnonzero(decision == EMIT)
                with stats.lock:
                    stats.rows_gated += len(decision) - len(emit)
                with _placed(name, emit, spooled.block, spooled.offnum):
                    self._emit(part, spooled.buf, spooled.data.take(emit), store)
            spool.close()
        spool = self._outside.get(part)
        if spool is not None:
            for spooled in spool.batches():
                with _placed(name, np.arange(len(spooled)), spooled.block, spooled.offnum):
                    self._emit(part, spooled.buf, spooled.data, store)
            spool.close()

    def close(self) -> None:
        """Free the spools."""
        for spool in (*self._spools.values(), *self._outside.values()):
            spool.close()
