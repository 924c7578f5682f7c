"""The page store: pages that the WAL of a window changed, each at its present state."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import IO, Final

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Bytes, WalshadowError
from walshadow_core.pgformat.heap import PAGE_SIZE

LEAST_PAGES: Final = 256
"""Pages that are kept in memory in any case: 2 MiB."""
USUAL_COPIES: Final = 512
"""Pages of the file that may be open without memory being taken for them: 4 MiB."""


@dataclass(frozen=True, slots=True)
class OpenPages:
    """Pages at hand, to be changed where they are: arrays of one length, but for the two that hold pages.

    ``place`` is where the page of each key is: a row of ``memory``, or, less the count of those, one of ``copies``.
    ``present`` is 1 for those that there are; what the place of another holds is nothing.
    """

    keys: NDArray[np.int64]
    place: NDArray[np.int64]
    present: NDArray[np.uint8]
    memory: NDArray[np.uint8]
    copies: NDArray[np.uint8]
    slots: NDArray[np.int64]


class PageStore:
    """Pages by key (relation index << 32 | block): in memory up to ``memory`` bytes, past that in an unlinked sparse
    file in ``folder``."""

    def __init__(self, memory: int, folder: Path) -> None:
        self._in_memory = max(LEAST_PAGES, memory // PAGE_SIZE)
        self._folder = folder
        self._slots: dict[int, int] = {}
        self._free: list[int] = []
        # The system gives the memory of a page when it is first written to.
        self._memory: NDArray[np.uint8] = np.empty((self._in_memory, PAGE_SIZE), np.uint8)
        # Memory that is given back and taken again for every batch would stay with the process in pieces.
        self._copies: NDArray[np.uint8] = np.empty((USUAL_COPIES, PAGE_SIZE), np.uint8)
        self._file: IO[bytes] | None = None

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, key: int) -> bool:
        return key in self._slots

    def keys(self) -> NDArray[np.int64]:
        """The keys of all pages, ascending."""
        return np.sort(np.fromiter(self._slots, np.int64, len(self._slots)))

    def open(self, keys: NDArray[np.int64]) -> OpenPages:
        """The pages of ``keys``, each of which is there once; hand them back with ``keep`` before others are opened.
        Raises WalshadowError."""
        slots = self._find(keys)
        present = (slots >= 0).astype(np.uint8)
        missing = np.flatnonzero(slots < 0)
        if len(missing):
            taken = [self._free.pop() for _ in range(min(len(self._free), len(missing)))]
            first = len(self._slots) + len(self._free) + len(taken)
            slots[missing] = [*taken, *range(first, first + len(missing) - len(taken))]
        place = slots.copy()
        outside = np.flatnonzero(slots >= self._in_memory)
        copies = self._copies[: len(outside)]
        if len(outside) > len(self._copies):
            copies = np.empty((len(outside), PAGE_SIZE), np.uint8)
        place[outside] = np.arange(len(outside)) + self._in_memory
        there = present[outside] != 0
        for first, last in _runs(slots[outside], there):
            self._read(int(slots[outside[first]]), copies[first:last])
        return OpenPages(keys, place, present, self._memory, copies, slots)

    def keep(self, pages: OpenPages) -> None:
        """Take back what ``open`` gave, with the pages that are ``present`` now. Raises WalshadowError where the disk
        is full."""
        present = pages.present != 0
        outside = np.flatnonzero(pages.slots >= self._in_memory)
        for first, last in _runs(pages.slots[outside], present[outside]):
            self._write(int(pages.slots[outside[first]]), pages.copies[first:last])
        self._slots.update(zip(pages.keys[present].tolist(), pages.slots[present].tolist(), strict=True))
        self._free.extend(pages.slots[~present].tolist())

    def take(self, keys: NDArray[np.int64], pages: NDArray[np.uint8]) -> None:
        """Copy the pages of ``keys``, all of which are there, to ``pages`` (uint8[n, PAGE_SIZE]). Raises
        WalshadowError."""
        slots = self._find(keys)
        inside = slots < self._in_memory
        pages[inside] = self._memory[slots[inside]]
        for k in np.flatnonzero(~inside).tolist():
            self._read(int(slots[k]), pages[k : k + 1])

    def settle(self) -> None:
        """No page will be opened any more: free what that takes."""
        self._copies = np.empty((0, PAGE_SIZE), np.uint8)

    def _find(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """The slot of each key; -1 for those that are not there."""
        return np.fromiter(map(self._slots.get, keys.tolist(), repeat(-1)), np.int64, len(keys))

    def page(self, key: int) -> Bytes:
        """One page, copied. Raises KeyError."""
        if key not in self._slots:
            raise KeyError(key)
        page: Bytes = np.empty(PAGE_SIZE, np.uint8)
        self.take(np.array([key]), page.reshape(1, -1))
        return page

    def drop_from(self, relation: int, block: int) -> None:
        """Forget the pages of a relation from that block on: it was cut there."""
        low, high = relation << 32 | block, (relation + 1) << 32
        for key in [key for key in self._slots if low <= key < high]:
            self._free.append(self._slots.pop(key))

    def close(self) -> None:
        """Free memory and file."""
        self._slots.clear()
        self._free.clear()
        self._memory = self._copies = np.empty((0, PAGE_SIZE), np.uint8)
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read(self, slot: int, pages: NDArray[np.uint8]) -> None:
        """Fill ``pages`` with those of that slot and the ones behind it."""
        assert self._file is not None
        view, at = pages.reshape(-1).data, (slot - self._in_memory) * PAGE_SIZE
        while view:
            got = os.preadv(self._file.fileno(), [view], at)
            if got == 0:
                raise WalshadowError(f"the file of changed pages in {self._folder} is shorter than what was written")
            view, at = view[got:], at + got

    def _write(self, slot: int, pages: NDArray[np.uint8]) -> None:
        """Write ``pages`` to that slot and the ones behind it."""
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115
            view, at = pages.reshape(-1).data, (slot - self._in_memory) * PAGE_SIZE
            while view:
                written = os.pwrite(self._file.fileno(), view, at)
                view, at = view[written:], at + written
        except OSError as error:
            raise WalshadowError(
                f"changed pages can't be kept in {self._folder}: {error.strerror}",
                "make room there, or set TMPDIR to a folder that has it",
            ) from None


def _runs(slots: NDArray[np.int64], chosen: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """The stretches (first, last) of indexes that are all chosen, and whose slots follow one another."""
    index = np.flatnonzero(chosen)
    if not len(index):
        return
    breaks = np.flatnonzero((np.diff(index) != 1) | (np.diff(slots[index]) != 1)) + 1
    firsts = index[np.append(0, breaks)].tolist()
    lasts = (index[np.append(breaks, len(index)) - 1] + 1).tolist()
    yield from zip(firsts, lasts, strict=True)
