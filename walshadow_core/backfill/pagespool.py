"""Copied pages that wait for the end of the window, and what they have become by then."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Protocol

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Bytes, FormatError, Lsn, WalshadowError
from walshadow_core.pgformat.checksum import bad_checksums
from walshadow_core.pgformat.heap import PAGE_SIZE
from walshadow_core.redo.store import PageStore
from walshadow_core.redo.window import Redo
from walshadow_core.visibility.spoolfile import MemoryBudget

TORN_REMEDY = (
    "the page is damaged on disk, or was written to without a trace in the WAL (full_page_writes = off): check the "
    "source with pg_checksums or amcheck"
)


class PageSpool:
    """The copies of one relation's main fork: in memory while a budget allows it, then in an unlinked sparse file,
    each page at its block's place."""

    def __init__(self, budget: MemoryBudget, folder: Path) -> None:
        self._budget = budget
        self._folder = folder
        self._taken = 0
        self._file: IO[bytes] | None = None
        self._runs: dict[int, tuple[str, int, Bytes | None]] = {}

    def add(self, path: str, first_block: int, pages: Bytes) -> None:
        """Copy ``pages``, which came from ``path``. Raises WalshadowError where the disk is full, FormatError for
        blocks that came before."""
        if first_block in self._runs:
            raise FormatError(f"{path}: block {first_block} is in the backup twice", "take another backup")
        kept: Bytes | None = None
        if self._budget.take(len(pages)):
            self._taken += len(pages)
            kept = pages.copy()
        else:
            self._write(pages, first_block * PAGE_SIZE)
        self._runs[first_block] = path, len(pages) // PAGE_SIZE, kept

    def _write(self, pages: Bytes, at: int) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115
            view = pages.data
            while view:
                written = os.pwrite(self._file.fileno(), view, at)
                view, at = view[written:], at + written
        except OSError as error:
            raise WalshadowError(
                f"copied pages can't be kept in {self._folder}: {error.strerror}",
                "make room there, or set TMPDIR to a folder that has it",
            ) from error

    def runs(self) -> Iterator[tuple[int, int, str]]:
        """(first block, number of pages, path) of what came, in order of the blocks."""
        for first_block, (path, count, _) in sorted(self._runs.items(), key=lambda run: run[0]):
            yield first_block, count, path

    def read(self, first_block: int, out: Bytes) -> None:
        """Fill ``out`` with the run that begins at ``first_block``. Raises WalshadowError."""
        kept = self._runs[first_block][2]
        if kept is not None:
            out[:] = kept
            return
        assert self._file is not None
        view, at = out.data, first_block * PAGE_SIZE
        while view:
            got = os.preadv(self._file.fileno(), [view], at)
            if got == 0:
                raise WalshadowError(f"a spool file in {self._folder} is shorter than what was written")
            view, at = view[got:], at + got

    def close(self) -> None:
        """Free memory and file. May be called more than once."""
        self._budget.give(self._taken)
        self._taken = 0
        self._runs.clear()
        if self._file is not None:
            self._file.close()
            self._file = None


class Copies(Protocol):
    """Copied pages of one relation."""

    def runs(self) -> Iterator[tuple[int, int, str]]:
        """(first block, number of pages, path) of what came, in order of the blocks."""
        ...

    def read(self, first_block: int, out: Bytes) -> None:
        """Fill ``out`` with the run that begins at ``first_block``. Raises WalshadowError."""
        ...


class FinalPages:
    """A relation's pages as they are at the end of the window: those of the page store before those of copies, none
    that was cut off, those too that are in the store alone."""

    def __init__(
        self, copies: Copies, store: PageStore, redo: Redo, relation: int, b_redo: Lsn, *, checksums: bool
    ) -> None:
        """``relation`` is its index in the page store, ``checksums`` whether the cluster has them."""
        self._copies = copies
        self._store = store
        self._relation = relation
        self._b_redo = b_redo
        self._checksums = checksums
        # The WAL has every page of a file that was made in the window.
        self._cut = 0 if relation in redo.made else redo.cut_to.get(relation)
        keys = store.keys()
        low, high = np.searchsorted(keys, [relation << 32, (relation + 1) << 32])
        self._stored: NDArray[np.int64] = keys[low:high] & 0xFFFFFFFF

    def runs(self, most: int) -> Iterator[tuple[int, int, str | None]]:
        """(first block, number of pages, at most ``most``; path of the copy): what to ask ``read`` for. In order, but
        for the blocks that no copy has, which come last."""
        covered = np.zeros(len(self._stored), np.bool_)
        for first_block, count, path in self._copies.runs():
            low, high = np.searchsorted(self._stored, [first_block, first_block + count])
            covered[low:high] = True
            yield first_block, count, path
        left = self._stored[~covered].tolist()
        at = 0
        while at < len(left):
            stop = at
            # Pages between that nobody has are given as empty ones.
            while stop + 1 < len(left) and left[stop + 1] - left[at] < most:
                stop += 1
            yield left[at], left[stop] - left[at] + 1, None
            at = stop + 1

    def read(self, first_block: int, count: int, path: str | None, out: Bytes) -> None:
        """Fill ``out`` with one of the runs. A page that was cut off is one of zeros. Raises FormatError for a copy
        that does not hold and that the WAL did not bring."""
        pages = out.reshape(count, PAGE_SIZE)
        low, high = np.searchsorted(self._stored, [first_block, first_block + count])
        blocks = self._stored[low:high]
        copied = np.zeros(count, np.bool_)
        if path is None:
            pages[:] = 0
        else:
            self._copies.read(first_block, out)
            copied[:] = True
            if self._cut is not None:
                copied[max(0, self._cut - first_block) :] = False
            copied[blocks - first_block] = False
            self._check(out, pages, copied, first_block, path)
            pages[~copied] = 0
        if len(blocks):
            found: NDArray[np.uint8] = np.empty((len(blocks), PAGE_SIZE), np.uint8)
            self._store.take(blocks | self._relation << 32, found)
            pages[blocks - first_block] = found

    def _check(
        self, out: Bytes, pages: NDArray[np.uint8], copied: NDArray[np.bool_], first_block: int, path: str
    ) -> None:
        if self._checksums:
            bad = bad_checksums(out, first_block).astype(np.int64)
            bad = bad[copied[bad - first_block]]
            if len(bad):
                raise FormatError(
                    f"{path}: block {bad[0]} fails its checksum, and the WAL did not bring it", TORN_REMEDY
                )
        late = np.flatnonzero((page_lsns(pages) > np.uint64(self._b_redo)) & copied)
        if len(late):
            raise untold(path, first_block + int(late[0]), self._b_redo)


def page_lsns(pages: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """pd_lsn of each page of uint8[n, PAGE_SIZE]."""
    words = np.ascontiguousarray(pages[:, :8]).view(np.uint32).astype(np.uint64)
    lsns: NDArray[np.uint64] = words[:, 0] << np.uint64(32) | words[:, 1]
    return lsns


def untold(path: str, block: int, b_redo: Lsn) -> FormatError:
    """A page was written to after B_redo, and the WAL does not bring it."""
    return FormatError(
        f"{path}: block {block} was written to after {b_redo}, and the WAL did not bring it", TORN_REMEDY
    )
