"""Bytes that wait: in memory while a budget allows it, then in an unlinked file (rule 12)."""

from __future__ import annotations

import contextlib
import os
import resource
import tempfile
import threading
from bisect import bisect_right
from functools import cache
from pathlib import Path
from typing import IO

import numpy as np

from walshadow_core.api import Bytes, WalshadowError


class MemoryBudget:
    """So many bytes for all the spools of a pass together. Threads may share it."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._lock = threading.Lock()

    def take(self, n: int) -> bool:
        """Take ``n`` bytes if there are so many left; whether it did."""
        with self._lock:
            if self.used + n > self.limit:
                return False
            self.used += n
            return True

    def give(self, n: int) -> None:
        """Give back ``n`` bytes that were taken."""
        with self._lock:
            self.used -= n


@cache
def allow_many_files() -> None:
    """Raise this process's limit of open files as far as it may: a pass over many relations has files for each, and the
    usual soft limit is for programs that use select()."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class SpoolFile:
    """An unlinked file in ``folder`` that grows at its end; made when the first bytes come. ``what`` is what it holds,
    for errors. Threads may read while none appends."""

    def __init__(self, folder: Path, what: str) -> None:
        self._folder = folder
        self._what = what
        self._file: IO[bytes] | None = None
        self.size = 0

    def append(self, data: bytes | memoryview) -> None:
        """Write ``data`` behind what is there. Raises WalshadowError where the disk is full."""
        try:
            if self._file is None:
                allow_many_files()
                self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115
            view = memoryview(data)
            while view:
                written = os.pwrite(self._file.fileno(), view, self.size)
                self.size += written
                view = view[written:]
        except OSError as error:
            raise WalshadowError(
                f"can't spool {self._what} to {self._folder}: {error.strerror}",
                "free space there, or choose another folder with TMPDIR",
            ) from error

    def read_into(self, at: int, out: Bytes) -> None:
        """Fill ``out`` with the bytes from ``at`` on. Raises WalshadowError where the file can't be read."""
        view = out.data
        try:
            while view:
                got = os.preadv(self._file.fileno(), [view], at) if self._file is not None else 0
                if got == 0:
                    raise OSError(0, "it is shorter than what was written")
                view, at = view[got:], at + got
        except OSError as error:
            raise WalshadowError(
                f"can't read the spool file in {self._folder}: {error.strerror}",
                "look after that disk, or choose another folder with TMPDIR",
            ) from error

    def read(self, at: int, size: int) -> Bytes:
        """``size`` bytes from ``at`` on, the caller's to keep."""
        block: Bytes = np.empty(size, np.uint8)
        self.read_into(at, block)
        return block

    def close(self) -> None:
        """Free the file. May be called more than once."""
        if self._file is not None:
            self._file.close()
            self._file = None


class ByteSpool:
    """Bytes one after the other, to be read at any place: blocks in memory, and from the first one on that the budget
    does not allow, a file. One thread appends; then any may read."""

    def __init__(self, budget: MemoryBudget, folder: Path, what: str) -> None:
        self._budget = budget
        self._file = SpoolFile(folder, what)
        self._blocks: list[Bytes] = []
        self._starts: list[int] = []
        self._kept = 0

    @property
    def size(self) -> int:
        """Bytes that were appended."""
        return self._kept + self._file.size

    @property
    def spilled(self) -> int:
        """Those of them that are in the file."""
        return self._file.size

    def append(self, data: Bytes) -> None:
        """Copy ``data`` behind what is there. Raises WalshadowError where the disk is full."""
        if self._file.size == 0 and self._budget.take(len(data)):
            self._starts.append(self._kept)
            self._blocks.append(data.copy())
            self._kept += len(data)
        else:
            self._file.append(data.data)

    def read_into(self, at: int, out: Bytes) -> None:
        """Fill ``out`` with the bytes from ``at`` on. Raises WalshadowError where the file can't be read."""
        done = 0
        number = bisect_right(self._starts, at) - 1
        while done < len(out) and at + done < self._kept:
            part = self._blocks[number][at + done - self._starts[number] :][: len(out) - done]
            out[done : done + len(part)] = part
            done += len(part)
            number += 1
        if done < len(out):
            self._file.read_into(at + done - self._kept, out[done:])

    def close(self) -> None:
        """Free memory and file. May be called more than once."""
        self._budget.give(self._kept)
        self._blocks.clear()
        self._starts.clear()
        self._kept = 0
        self._file.close()
