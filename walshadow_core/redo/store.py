"""The page store: pages that the WAL of a window changed, each at its present state."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import IO, Final

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Bytes, WalshadowError
from walshadow_core.pgformat.heap import PAGE_SIZE

SLAB: Final = 256
"""Pages that memory is taken for at a time: 2 MiB."""


class PageStore:
    """Pages by key (relation index << 32 | block): in memory up to ``memory`` bytes, past that in an unlinked sparse
    file in ``folder``."""

    def __init__(self, memory: int, folder: Path) -> None:
        self._in_memory = max(1, memory // (SLAB * PAGE_SIZE)) * SLAB
        self._folder = folder
        self._slots: dict[int, int] = {}
        self._free: list[int] = []
        self._slabs: list[NDArray[np.uint8]] = []
        self._file: IO[bytes] | None = None

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, key: int) -> bool:
        return key in self._slots

    def keys(self) -> NDArray[np.int64]:
        """The keys of all pages, ascending."""
        return np.sort(np.fromiter(self._slots, np.int64, len(self._slots)))

    def take(self, keys: NDArray[np.int64], pages: NDArray[np.uint8], present: NDArray[np.uint8]) -> None:
        """Copy the pages of ``keys`` to ``pages`` (uint8[n, PAGE_SIZE]); ``present`` tells which there are. Raises
        WalshadowError."""
        for k, key in enumerate(keys.tolist()):
            slot = self._slots.get(key, -1)
            present[k] = slot >= 0
            if slot >= self._in_memory:
                self._read(slot, pages[k])
            elif slot >= 0:
                pages[k] = self._slabs[slot // SLAB][slot % SLAB]

    def put(self, keys: NDArray[np.int64], pages: NDArray[np.uint8], present: NDArray[np.uint8]) -> None:
        """Keep the pages that are ``present``. Raises WalshadowError where the disk is full."""
        for k, key in enumerate(keys.tolist()):
            if not present[k]:
                continue
            slot = self._slots.get(key, -1)
            if slot < 0:
                slot = self._slots[key] = self._free.pop() if self._free else len(self._slots)
            if slot >= self._in_memory:
                self._write(slot, pages[k])
                continue
            while slot // SLAB >= len(self._slabs):
                self._slabs.append(np.empty((SLAB, PAGE_SIZE), np.uint8))
            self._slabs[slot // SLAB][slot % SLAB] = pages[k]

    def page(self, key: int) -> Bytes:
        """One page, copied. Raises KeyError."""
        if key not in self._slots:
            raise KeyError(key)
        page: Bytes = np.empty(PAGE_SIZE, np.uint8)
        self.take(np.array([key]), page.reshape(1, -1), np.empty(1, np.uint8))
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
        self._slabs.clear()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read(self, slot: int, page: Bytes) -> None:
        assert self._file is not None
        page[:] = np.frombuffer(
            os.pread(self._file.fileno(), PAGE_SIZE, (slot - self._in_memory) * PAGE_SIZE), np.uint8
        )

    def _write(self, slot: int, page: Bytes) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115
            view, at = memoryview(page.tobytes()), (slot - self._in_memory) * PAGE_SIZE
            while view:
                written = os.pwrite(self._file.fileno(), view, at)
                view, at = view[written:], at + written
        except OSError as error:
            raise WalshadowError(
                f"changed pages can't be kept in {self._folder}: {error.strerror}",
                "make room there, or set TMPDIR to a folder that has it",
            ) from None
