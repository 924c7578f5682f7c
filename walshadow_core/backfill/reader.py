"""The reading end of a pass: files of a backup to buffers of pages."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from walshadow_core.api import Backup, BackupFile, Bytes, FillingFile
from walshadow_core.backfill.channel import Channel
from walshadow_core.backfill.keeping import Keeping
from walshadow_core.backfill.recheck import Recheck
from walshadow_core.backfill.routing import Route, Router, Use
from walshadow_core.backfill.stats import LoadStats
from walshadow_core.pgformat.control import ControlFile, parse_control
from walshadow_core.pgformat.heap import PAGE_SIZE
from walshadow_core.visibility.status import CopiedStatus
from walshadow_core.visibility.whole import whole

_NOTHING = memoryview(b"")
CHUNK_PAGES = 256
"""Pages handed over at a time: a few times 2 MiB stay in the CPU's last cache, and what a worker does once for each
costs little."""


@dataclass(slots=True)
class PageChunk:
    """Some consecutive pages of one table, or of its TOAST relation: ``buffer[:length]``, from block ``first_block``
    on. ``leaf`` is the index of what they are of in the table's ``stored``. ``final`` pages are as they are at the end
    of the window, and were looked at."""

    table: int
    leaf: int
    toast: bool
    path: str
    first_block: int
    buffer: Bytes
    length: int
    final: bool = False


class BufferPool:
    """A fixed number of page buffers that go round between reader and workers: the bound on what is read ahead."""

    def __init__(self, count: int) -> None:
        self._free: Channel[Bytes] = Channel(count)
        for _ in range(count):
            self._free.put(np.empty(CHUNK_PAGES * PAGE_SIZE, np.uint8))

    def take(self) -> Bytes:
        """A free buffer; waits for one."""
        buffer = self._free.take()
        assert buffer is not None
        return buffer

    def give(self, buffer: Bytes) -> None:
        """Hand a buffer back."""
        self._free.put(buffer)

    def break_off(self) -> None:
        """Wake whoever waits for a buffer."""
        self._free.break_off()


class BackupReader:
    """Reads every part of a backup, in the calling thread: pages to ``out``, or to their spool where ``keeping`` has
    one; status files to ``status``, what it has no use for to ``recheck``."""

    def __init__(
        self,
        router: Router,
        status: CopiedStatus,
        pool: BufferPool,
        out: Channel[PageChunk],
        stats: LoadStats,
        segment_blocks: int,
        fail_table: Callable[[int, str], None],
        recheck: Recheck,
        keeping: Keeping,
    ) -> None:
        self._keeping = keeping
        self._router = router
        self._status = status
        self._pool = pool
        self._out = out
        self._stats = stats
        self._segment_blocks = segment_blocks
        self._fail_table = fail_table
        self._recheck = recheck
        self.control: ControlFile | None = None
        self.seconds_waiting = 0.0

    def read(self, backup: Backup) -> bool:
        """Read it to its end; False if every table was out before that, and nothing is left to read for. Raises
        SourceError, FormatError, ChannelBroken."""
        done = 0
        for part in backup.parts():
            for file in part.files():
                self._file(file)
                self._stats.bytes_read = done + part.bytes_read
                if self._stats.nothing_left:
                    return False
            done += part.bytes_read
            self._stats.bytes_read = done
        return True

    def _file(self, file: BackupFile) -> None:
        route = self._router.route(file.path)
        match route.use:
            case Use.WALK | Use.CHUNKS:
                self._recheck.note(file.path, file.size)
                if not self._stats.passing[route.table].out:
                    self._walk(file, route)
            case Use.STATUS:
                self._status.add(file.path, whole(file))
            case Use.CONTROL:
                self.control = parse_control(whole(file))
            case Use.SKIP:
                self._recheck.offer(file)

    def _walk(self, file: BackupFile, route: Route) -> None:
        table = self._stats.passing[route.table]
        table.phase = "walking"
        toast = route.use is Use.CHUNKS
        if toast:
            table.toast_bytes += file.size
        else:
            table.bytes_walked += file.size
        if file.size % PAGE_SIZE or file.size > self._segment_blocks * PAGE_SIZE:
            self._fail_table(
                route.table, f"{file.path} has {file.size} bytes, not a whole number of pages of a segment"
            )
            return
        block = route.segment * self._segment_blocks
        spool = self._keeping.spool((route.table, route.leaf, toast))
        for buffer, length in self._buffers(file):
            if self._keeping.leave(route.table):
                self._pool.give(buffer)
                return
            if spool is not None:
                spool.add(file.path, block, buffer[:length])
                self._pool.give(buffer)
                block += length // PAGE_SIZE
                continue
            self._out.put(PageChunk(route.table, route.leaf, toast, file.path, block, buffer, length))
            block += length // PAGE_SIZE

    def _buffers(self, file: BackupFile) -> Iterator[tuple[Bytes, int]]:
        """The file's content in pooled buffers, each full but for the last."""
        filling = file if isinstance(file, FillingFile) else _Chunks(file)
        read_before, taken = self._stats.bytes_read, 0
        while taken < file.size:
            waited = time.perf_counter()
            buffer = self._pool.take()
            self.seconds_waiting += time.perf_counter() - waited
            filled = filling.fill(buffer.data)
            if not filled:
                self._pool.give(buffer)
                return
            taken += filled
            yield buffer, filled
            self._stats.bytes_read = read_before + taken


class _Chunks:
    """Fills buffers from the chunks of a file."""

    def __init__(self, file: BackupFile) -> None:
        self._chunks = file.chunks()
        self._rest = _NOTHING

    def fill(self, view: memoryview) -> int:
        """See FillingFile."""
        filled = 0
        while filled < len(view):
            rest = self._rest or next(self._chunks, _NOTHING)
            if not rest:
                break
            part = min(len(view) - filled, len(rest))
            view[filled : filled + part] = rest[:part]
            filled += part
            self._rest = rest[part:]
        return filled
