"""Pages of a TOAST relation to chunk data and extents (``access/heaptoast.h``, ``access/toast_internals.h``).

A tuple of a TOAST relation is (chunk_id oid, chunk_seq int4, chunk_data bytea), none of them NULL, the data plain.
The chunks of one value count from 0; all but the last have MAX_CHUNK bytes. They are mostly written one after the
other: an extent is a run of them that was met in order, so that an index need not have an entry per chunk.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Bytes, FormatError
from walshadow_core.pgformat.heap import HEAP_MOVED, HEAP_XMIN_COMMITTED, HEAP_XMIN_INVALID, PageWalk, load32
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.varlena import HEADER_SIZE, SHORT_BIT, SHORT_HEADER_SIZE
from walshadow_core.pgformat.xact import FIRST_NORMAL_XID
from walshadow_core.visibility.spoolfile import ByteSpool, MemoryBudget

MAX_CHUNK: Final = 1996
"""TOAST_MAX_CHUNK_SIZE of 8 KiB pages."""
MAX_CHUNKS: Final = (1 << 30) // MAX_CHUNK + 1
"""Chunks of the largest value."""
CHUNK_ATTRIBUTES: Final = 3
SEQ_AT, DATA_AT = 4, 8
"""Where chunk_seq and chunk_data are in a tuple's data."""

KEY, AT, SIZE, XMIN = 0, 1, 2, 3
"""Columns of an extent (uint64[4]): value id << 32 | first chunk_seq; place of its bytes; chunks << 32 | bytes; the
xid that tells whether it counts, 0 where it does."""
EXTENT_WORDS: Final = 4
EXTENT_BYTES: Final = 8 * EXTENT_WORDS
LOW: Final = (1 << 32) - 1

_TAKEN, _NO_ROOM, _BAD_CHUNK, _MOVED = 0, 1, 2, 3

FIRST_BYTES: Final = 1 << 15
BLOCK_BYTES: Final = 1 << 20
"""Room for chunk data at first, and of a full block."""
_BYTES_PER_EXTENT: Final = 512
"""Room for one extent per so many bytes of chunk data."""


@kernel
def take_chunks(
    pages: Bytes,
    data_start: NDArray[np.int32],
    end: NDArray[np.int32],
    natts: NDArray[np.int32],
    has_nulls: NDArray[np.uint8],
    xmin: NDArray[np.uint32],
    infomask: NDArray[np.uint16],
    first: int,
    out: Bytes,
    used: int,
    base: int,
    extents: NDArray[np.uint64],
    count: int,
) -> tuple[int, int, int, int]:
    """Copy the data of chunks ``first…`` to ``out[used:]``, and note them in ``extents`` (uint64[any, 4]), of which
    ``count`` are taken; ``base`` is the place of ``out[0]``. Gives (status, next chunk, used, count).

    What counts is what ``HeapTupleSatisfiesToast`` says: a chunk whose inserter is not known to have aborted. Who
    deleted it does not matter, as its row tells.
    """
    shift = np.uint64(32)
    for i in range(first, data_start.size):
        mask = int(infomask[i])
        xid = np.uint64(0)
        if mask & HEAP_XMIN_COMMITTED == 0:
            if mask & HEAP_XMIN_INVALID or xmin[i] == 0:
                continue
            if mask & HEAP_MOVED:
                return _MOVED, i, used, count
            if xmin[i] >= FIRST_NORMAL_XID:
                xid = np.uint64(xmin[i])
        at, stop = int(data_start[i]), int(end[i])
        data = at + DATA_AT
        if natts[i] != CHUNK_ATTRIBUTES or has_nulls[i] or at < 0 or data >= stop or stop > pages.size:
            return _BAD_CHUNK, i, used, count
        value = np.uint64(load32(pages, at))
        seq = load32(pages, at + SEQ_AT)
        header = int(np.int64(pages[data]))
        size = 0
        if header & SHORT_BIT:
            size = (header >> 1) - SHORT_HEADER_SIZE
            data += SHORT_HEADER_SIZE
        elif data + HEADER_SIZE <= stop and header & 3 == 0:
            size = (load32(pages, data) >> 2) - HEADER_SIZE
            data += HEADER_SIZE
        if size <= 0 or size > MAX_CHUNK or data + size > stop or seq >= MAX_CHUNKS:
            return _BAD_CHUNK, i, used, count
        if used + size > out.size:
            return _NO_ROOM, i, used, count
        key = value << shift | np.uint64(seq)
        place = np.uint64(base + used)
        follows = False
        if count > 0:
            before = extents[count - 1]
            chunks, filled = before[SIZE] >> shift, before[SIZE] & np.uint64(LOW)
            follows = (
                before[KEY] + chunks == key and before[AT] + filled == place and before[XMIN] == xid
                and filled == chunks * np.uint64(MAX_CHUNK) and chunks < np.uint64(MAX_CHUNKS)
            )  # fmt: skip
        if follows:
            extents[count - 1, SIZE] += np.uint64(1) << shift | np.uint64(size)
        elif count < extents.shape[0]:
            extents[count, KEY] = key
            extents[count, AT] = place
            extents[count, SIZE] = np.uint64(1) << shift | np.uint64(size)
            extents[count, XMIN] = xid
            count += 1
        else:
            return _NO_ROOM, i, used, count
        for k in range(np.uint64(size)):
            out[np.uint64(used) + k] = pages[np.uint64(data) + k]
        used += size
    return _TAKEN, data_start.size, used, count


class ChunkWriter:
    """Takes one worker's pages of one TOAST relation. Not thread safe.

    Past the budget all goes to files; one small block is held outside of the budget. When the walk has ended,
    ``flush`` and read ``data`` (the chunks' bytes) and ``extents`` (in the order they came, places in ``data``).
    """

    def __init__(self, budget: MemoryBudget, folder: Path) -> None:
        self._budget = budget
        self.data = ByteSpool(budget, folder, "TOAST chunks")
        self.extents = ByteSpool(budget, folder, "the index of TOAST chunks")
        self._taken = 0
        self._room(FIRST_BYTES)

    def _room(self, size: int) -> None:
        self._out: Bytes = np.empty(size, np.uint8)
        self._extents: NDArray[np.uint64] = np.empty((size // _BYTES_PER_EXTENT, EXTENT_WORDS), np.uint64)
        self._used = self._count = 0

    def add(self, walk: PageWalk, pages: Bytes) -> None:
        """Take the chunks of walked pages. Raises FormatError for a tuple that is none, WalshadowError where the disk
        is full."""
        first = 0
        while True:
            status, first, self._used, self._count = take_chunks(
                pages, walk.data.data_start, walk.data.end, walk.data.natts, walk.data.has_nulls, walk.headers.xmin,
                walk.headers.infomask, first, self._out, self._used, self.data.size, self._extents, self._count,
            )  # fmt: skip
            if status == _TAKEN:
                return
            if status == _NO_ROOM:
                self._make_room()
                continue
            place = f"block {int(walk.block[first])}, line pointer {int(walk.offnum[first])}"
            if status == _MOVED:
                raise FormatError(
                    f"{place}: a TOAST chunk was moved by a VACUUM FULL before Postgres 9.0 and has no hint bits",
                    "run VACUUM (FREEZE) on the table and load again",
                )
            raise FormatError(f"{place}: not a TOAST chunk", "check the table with amcheck")

    def _make_room(self) -> None:
        """Put away what is there, and take a larger block for the next where that is allowed."""
        self.flush()
        size = min(2 * len(self._out), BLOCK_BYTES)
        more = size - len(self._out)
        if more and self._budget.take(more):
            self._taken += more
            self._room(size)

    def flush(self) -> None:
        """Put away what is there."""
        self.data.append(self._out[: self._used])
        self.extents.append(self._extents[: self._count].reshape(-1).view(np.uint8))
        self._used = self._count = 0

    def close(self) -> None:
        """Free memory and files. May be called more than once."""
        self._budget.give(self._taken)
        self._taken = 0
        self._room(0)
        self.data.close()
        self.extents.close()
