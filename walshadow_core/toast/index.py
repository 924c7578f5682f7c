"""Where the chunks of a value are: extents in the order of value id and chunk_seq, in memory or in a file.

What is too much to sort in memory is sorted in runs, and the runs are merged range of keys by range of keys: memory
holds one run, a few entries per run, and every SAMPLEth key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.toast.chunks import EXTENT_BYTES, EXTENT_WORDS, KEY, LOW
from walshadow_core.visibility.spoolfile import MemoryBudget, SpoolFile

Extents = NDArray[np.uint64]
"""uint64[n, EXTENT_WORDS], see toast.chunks."""

RUN: Final = 1 << 18
"""Extents that are sorted at a time: 8 MiB of them."""
SAMPLE: Final = 256
"""Of so many keys in a file, one is kept in memory."""
PART: Final = 1 << 15
"""Extents of a file that are looked through at a time."""


def _sorted(extents: Extents) -> Extents:
    found: Extents = extents[np.argsort(extents[:, KEY], kind="stable")]
    return found


def _runs(pieces: Iterable[Extents]) -> Iterator[Extents]:
    """All of ``pieces`` in sorted runs of about RUN."""
    held: list[Extents] = []
    count = 0
    for piece in pieces:
        if count and count + len(piece) > RUN:
            yield _sorted(np.concatenate(held))
            held, count = [], 0
        held.append(piece)
        count += len(piece)
    if count:
        yield _sorted(np.concatenate(held))


def _ids(extents: Extents) -> NDArray[np.uint64]:
    return extents[:, KEY] >> np.uint64(32)


class _Stored:
    """Sorted extents ``[first, last)`` of a file; ``samples`` holds the key of every SAMPLEth of them."""

    def __init__(self, file: SpoolFile, first: int, last: int, samples: NDArray[np.uint64]) -> None:
        self._file = file
        self.first = first
        self.last = last
        self.samples = samples

    def read(self, first: int, last: int) -> Extents:
        """Extents ``[first, last)`` of these, as far as there are so many."""
        first, last = self.first + first, min(self.first + last, self.last)
        data: Bytes = self._file.read(first * EXTENT_BYTES, max(0, last - first) * EXTENT_BYTES)
        return data.view(np.uint64).reshape(-1, EXTENT_WORDS)


class _Run:
    """A cursor over sorted extents."""

    def __init__(self, stored: _Stored) -> None:
        self._stored = stored
        self._next = 0
        self._left: Extents = np.empty((0, EXTENT_WORDS), np.uint64)

    def below(self, key: int) -> Extents:
        """What is left with a smaller key."""
        stop = int(np.searchsorted(self._stored.samples, np.uint64(key))) * SAMPLE
        if stop > self._next:
            self._left = np.concatenate((self._left, self._stored.read(self._next, stop)))
            self._next = stop
        cut = int(np.searchsorted(self._left[:, KEY], np.uint64(key)))
        found, self._left = self._left[:cut], self._left[cut:].copy()
        return found


class _Appended:
    """Sorted extents that come in order, on their way to a file."""

    def __init__(self, file: SpoolFile) -> None:
        self._file = file
        self._first = file.size // EXTENT_BYTES
        self._count = 0
        self._samples: list[NDArray[np.uint64]] = []

    def add(self, extents: Extents) -> None:
        """Write them behind what came before."""
        self._samples.append(extents[-self._count % SAMPLE :: SAMPLE, KEY].copy())
        self._count += len(extents)
        self._file.append(np.ascontiguousarray(extents).reshape(-1).view(np.uint8).data)

    def stored(self) -> _Stored:
        """All that came."""
        samples = np.concatenate(self._samples) if self._samples else np.empty(0, np.uint64)
        return _Stored(self._file, self._first, self._first + self._count, samples)


class ChunkIndex:
    """Looks up the extents of values. Threads may share it."""

    def __init__(self, pieces: Iterable[Extents], budget: MemoryBudget, folder: Path) -> None:
        """``pieces`` are extents in any order, not more than RUN at a time; not all are held at once. What fits in one
        run and in the budget stays in memory. Raises WalshadowError where the disk is full."""
        self._budget = budget
        self._taken = 0
        self._memory: Extents | None = None
        self._file = SpoolFile(folder, "the index of TOAST chunks")
        runs = _runs(pieces)
        first = next(runs, np.empty((0, EXTENT_WORDS), np.uint64))
        second = next(runs, None)
        if second is None and budget.take(first.nbytes):
            self._taken = first.nbytes
            self._memory = first
            return
        scratch = SpoolFile(folder, "the index of TOAST chunks")
        try:
            stored = [_written(scratch, first)]
            del first
            if second is not None:
                stored.append(_written(scratch, second))
                del second
            stored += [_written(scratch, run) for run in runs]
            self._stored = _merged(stored, self._file)
        finally:
            scratch.close()

    def find(self, ids: NDArray[np.uint32]) -> tuple[Extents, NDArray[np.int64]]:
        """(extents of the values ``ids``, which are ascending and no two alike, in order of key; where those of each
        begin, int64[n + 1])."""
        low = ids.astype(np.uint64) << np.uint64(32)
        high = low | np.uint64(LOW)
        if self._memory is not None:
            return _between(self._memory, low, high)
        found = [self._read(a, b, ids) for a, b in self._stretches(low, high)]
        extents = np.concatenate(found) if found else np.empty((0, EXTENT_WORDS), np.uint64)
        return _between(extents, low, high)

    def _stretches(self, low: NDArray[np.uint64], high: NDArray[np.uint64]) -> Iterator[tuple[int, int]]:
        """Where extents with keys in [low, high) may be: ascending ranges of the file that don't overlap."""
        if not len(low):
            return
        samples = self._stored.samples
        first = np.maximum(np.searchsorted(samples, low) - 1, 0) * SAMPLE
        last = np.searchsorted(samples, high) * SAMPLE
        begins = np.flatnonzero(np.concatenate(([True], first[1:] > last[:-1])))
        ends = np.concatenate((begins[1:], [len(first)])) - 1
        for a, b in zip(first[begins].tolist(), last[ends].tolist(), strict=True):
            yield from ((at, min(at + PART, b)) for at in range(a, b, PART))

    def _read(self, first: int, last: int, ids: NDArray[np.uint32]) -> Extents:
        extents = self._stored.read(first, last)
        found: Extents = extents[np.isin(_ids(extents), ids.astype(np.uint64))]
        return found

    def close(self) -> None:
        """Free memory and file. May be called more than once."""
        self._memory = np.empty((0, EXTENT_WORDS), np.uint64)
        self._budget.give(self._taken)
        self._taken = 0
        self._file.close()


def _between(extents: Extents, low: NDArray[np.uint64], high: NDArray[np.uint64]) -> tuple[Extents, NDArray[np.int64]]:
    """See ChunkIndex.find, for extents in order."""
    keys = extents[:, KEY]
    first, last = np.searchsorted(keys, low), np.searchsorted(keys, high)
    counts = last - first
    bounds = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    at = np.arange(bounds[-1]) + np.repeat(first - bounds[:-1], counts)
    return extents[at], bounds


def _written(file: SpoolFile, run: Extents) -> _Stored:
    out = _Appended(file)
    out.add(run)
    return out.stored()


def _merged(stored: list[_Stored], file: SpoolFile) -> _Stored:
    """The runs as one, in ``file``."""
    out = _Appended(file)
    samples = np.sort(np.concatenate([s.samples for s in stored]))
    # Between two splitters lie about RUN / 2 extents, and fewer than SAMPLE more of each run.
    splitters = [int(key) for key in samples[:: RUN // SAMPLE // 2][1:]]
    runs = [_Run(s) for s in stored]
    for key in [*splitters, (1 << 64) - 1]:
        part = np.concatenate([run.below(key) for run in runs])
        if len(part):
            out.add(_sorted(part))
    return out.stored()
