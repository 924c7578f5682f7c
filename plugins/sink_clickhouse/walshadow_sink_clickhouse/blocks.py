"""Memory that blocks are encoded in: reused, bounded in number, and for an embedded engine a file without a
name that the engine reads straight from memory."""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
from typing import IO

import numpy as np

from walshadow_core.api import Bytes

FULL_IN_FILE, FULL = 24 << 20, 16 << 20
"""Bytes that make a block worth an insert: each makes a part. Less for an engine elsewhere, so that a load with its
blocks on their way takes little memory."""

_STEP = 4 << 20
_FIRST = 40 << 20
"""Address space of a block from the beginning: memory is only used as it is written to, and growing costs."""


def unnamed_file(label: str) -> IO[bytes]:
    """A file that goes when it is closed: in memory where the system can, else in the temporary folder."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create(label), "w+b", buffering=0)
    return tempfile.NamedTemporaryFile(prefix=label, buffering=0)


def path_of(file: IO[bytes]) -> str:
    """What this process can open such a file by."""
    return file.name if isinstance(file.name, str) else f"/proc/self/fd/{file.fileno()}"


class Block:
    """A growing buffer. ``array`` is all of it; ``used`` bytes of it hold encoded rows.

    With ``in_file`` its memory is a file's, and ``path`` names that file for the engine in this process.
    """

    def __init__(self, in_file: bool) -> None:
        self.array: Bytes = np.empty(0, np.uint8)
        self.used = 0
        self.rows = 0
        self._file = unnamed_file("walshadow-block") if in_file else None
        self.path = path_of(self._file) if self._file is not None else None

    @property
    def full(self) -> bool:
        """Whether it is worth an insert."""
        return self.used >= (FULL if self._file is None else FULL_IN_FILE)

    def reserve(self, extra: int) -> None:
        """Make room for ``extra`` bytes after those in use."""
        needed = self.used + extra
        if needed <= len(self.array):
            return
        size = max(_FIRST, -(-needed // _STEP) * _STEP)
        if self._file is None:
            grown = np.empty(size, np.uint8)
            grown[: self.used] = self.array[: self.used]
        else:
            os.ftruncate(self._file.fileno(), size)
            grown = np.frombuffer(mmap.mmap(self._file.fileno(), size), np.uint8)
        self.array = grown

    def seal(self) -> None:
        """Cut the file to the bytes in use, so that a reader finds its end. Call clear() before writing again."""
        if self._file is not None:
            os.ftruncate(self._file.fileno(), self.used)

    def clear(self) -> None:
        """Forget what is in it."""
        self.used = self.rows = 0
        if self._file is not None and len(self.array):
            os.ftruncate(self._file.fileno(), len(self.array))

    def content(self) -> memoryview:
        """The bytes in use."""
        return self.array[: self.used].data

    def close(self) -> None:
        """Give the memory back."""
        self.array = np.empty(0, np.uint8)
        if self._file is not None:
            self._file.close()


class BlockPool:
    """At most ``limit`` blocks exist; who wants one more waits (rule 12: bounded memory)."""

    def __init__(self, limit: int, in_files: bool) -> None:
        self._in_files = in_files
        self._free: list[Block] = []
        self._may_make = limit
        self._may_keep = limit - 2
        self._kept: set[Block] = set()
        self._changed = threading.Condition()

    def take(self, unless: threading.Event) -> Block | None:
        """An empty block; None once ``unless`` is set (call wake() after setting it)."""
        with self._changed:
            while not self._free and not self._may_make and not unless.is_set():
                self._changed.wait()
            if unless.is_set():
                return None
            if self._free:
                return self._free.pop()
            self._may_make -= 1
        return Block(self._in_files)

    def may_keep(self, block: Block) -> bool:
        """Whether the block may wait for more to come into it: two that do not are left for whoever needs one."""
        with self._changed:
            if len(self._kept) >= self._may_keep and block not in self._kept:
                return False
            self._kept.add(block)
            return True

    def give(self, block: Block) -> None:
        """Bring one back."""
        block.clear()
        with self._changed:
            self._kept.discard(block)
            self._free.append(block)
            self._changed.notify()

    def wake(self) -> None:
        """Let those who wait look whether they still want a block."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """Free the blocks that are not in use."""
        with self._changed:
            for block in self._free:
                block.close()
            self._may_make += len(self._free)
            self._free.clear()
