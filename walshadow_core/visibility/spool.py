"""Where tuples wait for the end of the walk, undecided ones and those that point to TOAST: in memory, then on disk
(rules 2 and 12).

Tuples are kept in chunks. A chunk is one byte block, the same in memory and in the file: the arrays of
`SpooledTuples` one after the other, widest first so that each is aligned, and the tuples' bytes at the end.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Bytes, FormatError, TupleHeaders
from walshadow_core.pgformat.heap import PAGE_SIZE, PageWalk, TupleData
from walshadow_core.pgformat.jit import kernel
from walshadow_core.visibility.spoolfile import MemoryBudget, SpoolFile

CHUNK_BYTES = 1 << 20
"""Tuple bytes of a full chunk."""
_FIRST_BYTES = 1 << 15
"""Tuple bytes that a chunk has room for at first, more than the largest tuple has: a pass may have many spools,
most of them nearly empty."""
_BYTES_PER_TUPLE = 32
"""Room for one tuple's entries per so many bytes of tuples: the smallest tuple with a column takes this much."""

_CHUNK_HEADER = struct.Struct("<qq")
"""Before each chunk in the file: its tuples, and its bytes."""

_LAYOUT: tuple[tuple[str, np.dtype[Any]], ...] = (
    ("data_start", np.dtype(np.int32)),
    ("bitmap_start", np.dtype(np.int32)),
    ("natts", np.dtype(np.int32)),
    ("end", np.dtype(np.int32)),
    ("xmin", np.dtype(np.uint32)),
    ("xmax", np.dtype(np.uint32)),
    ("block", np.dtype(np.uint32)),
    ("infomask", np.dtype(np.uint16)),
    ("infomask2", np.dtype(np.uint16)),
    ("ctid_offset", np.dtype(np.uint16)),
    ("offnum", np.dtype(np.uint16)),
    ("has_nulls", np.dtype(np.uint8)),
)
_ENTRY_BYTES = sum(dtype.itemsize for _, dtype in _LAYOUT)


@dataclass(frozen=True, slots=True)
class SpooledTuples:
    """n tuples that waited, in the order they came. ``data`` counts from the start of ``buf``, where every tuple
    begins at a multiple of 8; ``block`` uint32[n] and ``offnum`` uint16[n] are where each was in its relation."""

    buf: Bytes
    data: TupleData
    headers: TupleHeaders
    block: NDArray[np.uint32]
    offnum: NDArray[np.uint16]

    def __len__(self) -> int:
        return len(self.block)


@kernel
def spool_tuples(
    pages: Bytes,
    start: NDArray[np.int32],
    end: NDArray[np.int32],
    index: NDArray[np.int64],
    first: int,
    limit: int,
    out: Bytes,
    at: int,
    moved: NDArray[np.int64],
) -> int:
    """Copy tuples ``index[first:limit]`` of ``pages`` to ``out[at:]``, each to a multiple of 8, until one does not
    fit any more.

    Writes to ``moved`` int64[] by how much each was moved. Gives the number of tuples copied, or, where tuple
    ``index[i]`` lies outside of ``pages``, is larger than one, or is not there, -1 - i.
    """
    n = 0
    for i in range(first, limit):
        tuple_ = index[i]
        if tuple_ < 0 or tuple_ >= len(start):
            return -1 - i
        source, stop = np.int64(start[tuple_]), np.int64(end[tuple_])
        if source < 0 or stop < source or stop > len(pages) or stop - source > PAGE_SIZE:
            return -1 - i
        if at + (stop - source) > len(out) or n >= len(moved):
            break
        out[at : at + stop - source] = pages[source:stop]
        moved[n] = at - source
        at = int(at + stop - source + 7) & ~7
        n += 1
    return n


class _Filling:
    """A chunk that is being filled: arrays with room for more, of which ``rows`` entries and ``used`` bytes
    are taken."""

    def __init__(self, room: int) -> None:
        entries = room // _BYTES_PER_TUPLE
        self.room = room
        self.buf = np.zeros(room, np.uint8)
        self.arrays = {name: np.empty(entries, dtype) for name, dtype in _LAYOUT}
        self.moved = np.empty(entries, np.int64)
        self.rows = 0
        self.used = 0

    @property
    def entries(self) -> int:
        return len(self.moved)

    @staticmethod
    def footprint(room: int) -> int:
        """Bytes of memory that one with this room takes."""
        return room + room // _BYTES_PER_TUPLE * (_ENTRY_BYTES + 8)

    def grown(self, room: int) -> _Filling:
        """The same with more room."""
        more = _Filling(room)
        more.buf[: self.used] = self.buf[: self.used]
        for name, array in self.arrays.items():
            more.arrays[name][: self.rows] = array[: self.rows]
        more.rows, more.used = self.rows, self.used
        return more

    def block(self) -> Bytes:
        """What it holds as one block, without the room that is left."""
        block = np.empty(_block_bytes(self.rows, self.used), np.uint8)
        for name, view in _views(block, self.rows).items():
            view[:] = self.arrays[name][: self.rows]
        block[len(block) - self.used :] = self.buf[: self.used]
        return block


def _block_bytes(rows: int, used: int) -> int:
    return (rows * _ENTRY_BYTES + 7 & ~7) + used


def _views(block: Bytes, rows: int) -> dict[str, NDArray[Any]]:
    views, at = {}, 0
    for name, dtype in _LAYOUT:
        size = rows * dtype.itemsize
        views[name] = block[at : at + size].view(dtype)
        at += size
    return views


def _tuples(block: Bytes, rows: int) -> SpooledTuples:
    v = _views(block, rows)
    return SpooledTuples(
        buf=block[rows * _ENTRY_BYTES + 7 & ~7 :],
        data=TupleData(v["data_start"], v["bitmap_start"], v["natts"], v["has_nulls"], v["end"]),
        headers=TupleHeaders(v["xmin"], v["xmax"], v["infomask"], v["infomask2"], v["ctid_offset"]),
        block=v["block"],
        offnum=v["offnum"],
    )


class DeferredSpool:
    """Tuples of one table and worker that wait. One thread at a time uses it.

    ``memory`` is a budget in bytes, of its own or shared with other spools. From the first chunk on that does not
    fit it, all go to an unlinked file in ``folder``, each behind its size, so that nothing in memory grows with the
    file. ``rows`` and ``bytes`` count what was added (tuple bytes, padding excluded), ``spilled`` the bytes written
    to the file. One small chunk per spool is held outside the budget.
    """

    def __init__(self, memory: int | MemoryBudget, folder: Path) -> None:
        self._budget = MemoryBudget(memory) if isinstance(memory, int) else memory
        self._filling: _Filling | None = None
        self._kept: deque[tuple[int, Bytes]] = deque()
        self._taken = 0
        self._file = SpoolFile(folder, "rows that wait")
        self._read = False
        self.rows = 0
        self.bytes = 0

    @property
    def spilled(self) -> int:
        """Bytes in the file."""
        return self._file.size

    def add(self, walk: PageWalk, pages: Bytes, index: NDArray[Any]) -> None:
        """Copy the tuples of ``index`` (integers into ``walk``, or bool per tuple of it) out of ``pages``.

        Raises FormatError for a tuple outside of ``pages``, WalshadowError where the disk is full.
        """
        if self._read:
            raise RuntimeError("the spool is being read")
        chosen = np.flatnonzero(index) if index.dtype == np.bool_ else np.ascontiguousarray(index, np.int64)
        done = 0
        while done < len(chosen):
            fill = self._filling = self._filling or _Filling(_FIRST_BYTES)
            limit = min(len(chosen), done + fill.entries - fill.rows)
            copied = spool_tuples(
                pages, walk.start, walk.data.end, chosen, done, limit, fill.buf, fill.used, fill.moved
            )
            if copied < 0:
                raise FormatError(f"tuple {chosen[-1 - copied]} of a page walk is outside of its pages")
            if copied:
                self._note(fill, walk, chosen[done : done + copied])
                done += copied
            if done < len(chosen):
                self._make_room(fill)

    def _note(self, fill: _Filling, walk: PageWalk, chosen: NDArray[np.int64]) -> None:
        moved = fill.moved[: len(chosen)]
        rows = slice(fill.rows, fill.rows + len(chosen))
        for name in ("data_start", "bitmap_start", "end"):
            fill.arrays[name][rows] = getattr(walk.data, name)[chosen] + moved
        for owner, names in (
            (walk.data, ("natts", "has_nulls")),
            (walk.headers, ("xmin", "xmax", "infomask", "infomask2", "ctid_offset")),
            (walk, ("block", "offnum")),
        ):
            for name in names:
                fill.arrays[name][rows] = getattr(owner, name)[chosen]
        fill.rows += len(chosen)
        fill.used = int(fill.arrays["end"][fill.rows - 1]) + 7 & ~7
        self.rows += len(chosen)
        self.bytes += int((walk.data.end[chosen] - walk.start[chosen]).sum(dtype=np.int64))

    def _make_room(self, fill: _Filling) -> None:
        """Grow the chunk where that is allowed, else put it away."""
        room = min(fill.room * 2, CHUNK_BYTES)
        more = _Filling.footprint(room) - _Filling.footprint(fill.room)
        if more and self._budget.take(more):
            self._taken += more
            self._filling = fill.grown(room)
        else:
            self._store(fill)

    def _store(self, fill: _Filling) -> None:
        block = fill.block()
        if self._file.size == 0 and self._budget.take(len(block)):
            self._taken += len(block)
            self._kept.append((fill.rows, block))
        else:
            self._file.append(_CHUNK_HEADER.pack(fill.rows, len(block)))
            self._file.append(block.data)
        fill.rows = fill.used = 0

    def batches(self) -> Iterator[SpooledTuples]:
        """The tuples in the order they came, once, about 1 MiB of them at a time. A batch is the caller's to keep;
        the spool has given up its memory when the next one is asked for. Raises WalshadowError where the file can't
        be read."""
        if self._read:
            raise RuntimeError("the spool was read already")
        self._read = True
        return self._batches()

    def _batches(self) -> Iterator[SpooledTuples]:
        while self._kept:
            rows, block = self._kept.popleft()
            size = len(block)
            yield _tuples(block, rows)
            del block
            self._give(size)
        at = 0
        while at < self._file.size:
            rows, size = _CHUNK_HEADER.unpack(self._file.read(at, _CHUNK_HEADER.size).data)
            at += _CHUNK_HEADER.size
            yield _tuples(self._file.read(at, size), rows)
            at += size
        if self._filling is not None and self._filling.rows:
            yield _tuples(self._filling.block(), self._filling.rows)
        self.close()

    def _give(self, n: int) -> None:
        self._budget.give(n)
        self._taken -= n

    def close(self) -> None:
        """Free memory and file. May be called more than once."""
        self._read = True
        self._filling = None
        self._kept.clear()
        self._give(self._taken)
        self._file.close()
