"""Transaction status from a backup's own pg_xact and pg_multixact files (rule 2)."""

from __future__ import annotations

import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import (
    XID_ABORTED,
    XID_COMMITTED,
    XID_IN_PROGRESS,
    XID_SUB_COMMITTED,
    Bytes,
    FormatError,
    WalshadowError,
)
from walshadow_core.pgformat.control import ControlFile
from walshadow_core.pgformat.heap import PAGE_SIZE
from walshadow_core.pgformat.xact import (
    FIRST_NORMAL_XID,
    MULTI_DAMAGED,
    MULTI_FOUND,
    MULTI_MEMBERS,
    MULTI_OFFSETS,
    PAGES_PER_SEGMENT,
    SEGMENT_SIZE,
    XACT,
    XID_NOT_COVERED,
    XIDS_PER_SEGMENT,
    multixact_updaters,
    parse_slru_path,
    precedes,
    slru_path,
    xid_states,
)

XIDS_PER_PAGE = XIDS_PER_SEGMENT // PAGES_PER_SEGMENT


@dataclass(frozen=True)
class WindowStatus:
    """What the WAL of a window says beyond the copied files: the transactions that ended in it (``xids``, ascending,
    and their last ``states``), the multixacts that were made in it (``multis``, ascending, with their updating members
    or 0), and the oldest of those with the number of its first member, None if there is none."""

    xids: NDArray[np.uint32]
    states: NDArray[np.uint8]
    multis: NDArray[np.uint32]
    updaters: NDArray[np.uint32]
    first_multi: tuple[int, int] | None = None


_MULTI_REMEDY = (
    "load again while fewer transactions lock rows of the table, or run VACUUM (FREEZE) on it right before the load"
)


class CopiedStatus:
    """The status that a backup's files give (``api.TransactionStatus``). Threads may share one.

    Files are added as they come, in any order; with the control file it is complete, and with what the WAL of the
    window says it is exact: then nothing but the window and what ended before it counts. Up to ``memory_bytes`` of
    them stay in memory, the others in an unlinked file in ``folder``, mapped into memory when they are complete.
    """

    def __init__(self, memory_bytes: int = 64 << 20, folder: Path | None = None) -> None:
        self._memory_left = memory_bytes
        self._folder = folder
        self._segments: dict[str, dict[int, Bytes]] = {XACT: {}, MULTI_OFFSETS: {}, MULTI_MEMBERS: {}}
        self._spilled: list[tuple[str, int, int, int]] = []
        self._seen: set[str] = set()
        self._file: IO[bytes] | None = None
        self._file_size = 0
        self._control: ControlFile | None = None
        self._window: WindowStatus | None = None
        self._first = self._last = 0
        self._lock = threading.Lock()

    # -- collecting

    @staticmethod
    def wants(path: str) -> bool:
        """Whether a file of the backup is one to `add`."""
        return parse_slru_path(path) is not None

    def add(self, path: str, data: bytes | bytearray | memoryview | Bytes) -> None:
        """Take the whole content of a file that it `wants`; ``data`` is copied.

        Raises FormatError for a size that no segment has and for a file that came before, WalshadowError where the
        disk is full.
        """
        file = parse_slru_path(path)
        if file is None:
            raise ValueError(f"{path} says nothing about transaction status")
        if self._control is not None:
            raise RuntimeError("the status is complete already")
        content = np.frombuffer(data, np.uint8)
        if len(content) % PAGE_SIZE or len(content) > SEGMENT_SIZE:
            raise FormatError(
                f"{path} has {len(content)} bytes, which is not a number of whole pages up to {SEGMENT_SIZE}",
                "the backup is incomplete: take another",
            )
        with self._lock:
            if path in self._seen:
                raise FormatError(f"{path} is in the backup twice")
            self._seen.add(path)
            if len(content) <= self._memory_left:
                self._memory_left -= len(content)
                self._segments[file.kind][file.segment] = content.copy()
            else:
                self._spilled.append((file.kind, file.segment, self._spill(content), len(content)))

    def _spill(self, content: Bytes) -> int:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
            self._file.write(content.data)
            self._file.flush()
        except OSError as error:
            raise WalshadowError(
                f"can't keep transaction status in {self._folder or tempfile.gettempdir()}: {error.strerror}",
                "free space there, or choose another folder with TMPDIR",
            ) from error
        offset = self._file_size
        self._file_size += len(content)
        return offset

    def complete_with(self, control: ControlFile, window: WindowStatus | None = None) -> None:
        """Every file was added and the walk has ended well: look-ups may begin.

        Raises FormatError where pg_xact is missing altogether.
        """
        with self._lock:
            if self._control is not None:
                raise RuntimeError("the status is complete already")
            if self._file is not None and self._file_size:
                mapped = np.memmap(self._file, np.uint8, "r", shape=(self._file_size,))
                for kind, segment, offset, size in self._spilled:
                    self._segments[kind][segment] = mapped[offset : offset + size]
            xact = {number: data for number, data in self._segments[XACT].items() if len(data)}
            if not xact:
                raise FormatError("the backup has no pg_xact", "it is incomplete: take another")
            # Ages relative to the next xid put xids in their order though their numbers wrap around.
            starts = np.array(list(xact), np.int64) * XIDS_PER_SEGMENT
            counts = np.array([len(data) // PAGE_SIZE * XIDS_PER_PAGE for data in xact.values()], np.int64)
            self._first = int(_age(starts, control.next_xid).min())
            self._last = int((_age(starts, control.next_xid) + counts).max())
            self._window = window
            self._control = control

    @property
    def complete(self) -> bool:
        """Whether `complete_with` was called: look-ups are errors before."""
        return self._control is not None

    def _complete_control(self) -> ControlFile:
        if self._control is None:
            raise RuntimeError("transaction status was asked for before it was complete")
        return self._control

    # -- looking up

    def state(self, xids: NDArray[np.uint32]) -> NDArray[np.uint8]:
        """XID_* per xid, uint8[n]. One past the last copied page is in progress; 1 and 2 have committed, 0 has not.

        Raises FormatError for one before the first copied page, or in a part that is missing between others.
        """
        window = self._window
        if window is None:
            return self._copied_state(xids)
        at, told = _find(window.xids, xids)
        if told.all():
            return window.states[at]
        states = np.empty(len(xids), np.uint8)
        states[told] = window.states[at[told]]
        copied = self._copied_state(xids[~told])
        # A subtransaction whose parent's end is not in the window has not ended.
        states[~told] = np.where(copied == XID_SUB_COMMITTED, np.uint8(XID_IN_PROGRESS), copied)
        return states

    def _copied_state(self, xids: NDArray[np.uint32]) -> NDArray[np.uint8]:
        control = self._complete_control()
        states = xid_states(self._segments[XACT], xids)
        states = np.where(
            xids < FIRST_NORMAL_XID, np.where(xids == 0, np.uint8(XID_ABORTED), np.uint8(XID_COMMITTED)), states
        )
        unknown = np.flatnonzero(states == XID_NOT_COVERED)
        if len(unknown):
            age = _age(xids[unknown].astype(np.int64), control.next_xid)
            if np.any(age < self._first):
                raise FormatError(
                    f"the status of transaction {xids[unknown[np.argmin(age)]]} was truncated away from pg_xact",
                    "run VACUUM (FREEZE) on the table and load again",
                )
            if np.any(age < self._last):
                lost = int(xids[unknown[np.argmin(age)]])
                raise FormatError(
                    f"{slru_path(XACT, lost // XIDS_PER_SEGMENT)}, which has the status of transaction {lost}, "
                    "is missing from the backup or too short",
                    "the backup is incomplete: take another",
                )
            states[unknown] = XID_IN_PROGRESS
        return states

    def committed(self, running: NDArray[np.uint32], next_xid: int) -> NDArray[np.uint32]:
        """Those of ``running``, of ``next_xid`` and of the transactions after it that have committed: what a snapshot
        does not see that says this of itself. Raises FormatError, as `state` does."""
        control = self._complete_control()
        copied = self._last - int(_age(np.array([next_xid], np.int64), control.next_xid)[0])
        later = (next_xid + np.arange(max(0, copied), dtype=np.int64)).astype(np.uint32)
        told = np.empty(0, np.uint32) if self._window is None else self._window.xids
        xids = np.unique(np.concatenate([running, later, told[~precedes(told, next_xid)]]))
        xids = xids[xids >= FIRST_NORMAL_XID]
        committed: NDArray[np.uint32] = xids[self.state(xids) == XID_COMMITTED]
        return committed

    def updaters(self, multis: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """The updating member per multixact, uint32[n], 0 where all members are lockers.

        Raises FormatError, with the remedies, for one that was not there yet at the checkpoint or that the files
        do not hold.
        """
        window = self._window
        if window is None:
            return self._copied_updaters(multis)
        at, told = _find(window.multis, multis)
        updaters = np.empty(len(multis), np.uint32)
        updaters[told] = window.updaters[at[told]]
        updaters[~told] = self._copied_updaters(multis[~told])
        return updaters

    def _copied_updaters(self, multis: NDArray[np.uint32]) -> NDArray[np.uint32]:
        control = self._complete_control()
        next_multi, next_offset = control.next_multi, control.next_multi_offset
        if self._window is not None and self._window.first_multi is not None:
            # The one before it ends where it begins, which its copied page may not say yet.
            next_multi, next_offset = self._window.first_multi
        asked = multis != 0
        future = asked & ~precedes(multis, next_multi)
        if np.any(future):
            raise FormatError(
                f"multixact {multis[future][0]} was made after the backup began and its members are in the WAL only "
                f"(as are those of {np.count_nonzero(future) - 1} more)",
                _MULTI_REMEDY,
            )
        past = asked & precedes(multis, control.oldest_multi)
        if np.any(past):
            raise FormatError(
                f"multixact {multis[past][0]} is older than the oldest that the cluster keeps ({control.oldest_multi})",
                "run VACUUM (FREEZE) on the table and load again",
            )
        updaters = np.zeros(len(multis), np.uint32)
        found, outcome = multixact_updaters(
            self._segments[MULTI_OFFSETS],
            self._segments[MULTI_MEMBERS],
            multis[asked],
            next_multi,
            next_offset,
        )
        lost = np.flatnonzero(outcome != MULTI_FOUND)
        if len(lost):
            damaged = np.any(outcome[lost] == MULTI_DAMAGED)
            raise FormatError(
                f"the members of multixact {multis[asked][lost[0]]} are "
                f"{'not what pg_multixact can hold' if damaged else 'not in the copied pg_multixact'} "
                f"(as are those of {len(lost) - 1} more)",
                _MULTI_REMEDY,
            )
        updaters[asked] = found
        return updaters

    def close(self) -> None:
        """Free the memory and the file. May be called more than once; nothing can be looked up after."""
        with self._lock:
            for segments in self._segments.values():
                segments.clear()
            if self._file is not None:
                self._file.close()
                self._file = None


def _find(known: NDArray[np.uint32], asked: NDArray[np.uint32]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """(where each of ``asked`` is in ``known``, which is ascending; whether it is there at all)."""
    if not len(known):
        return np.zeros(len(asked), np.intp), np.zeros(len(asked), np.bool_)
    at = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    return at, known[at] == asked


def _age(xids: NDArray[np.int64], next_xid: int) -> NDArray[np.int64]:
    """How many xids after ``next_xid`` each xid is (negative: before it), by the shorter way around."""
    return (xids - next_xid + 2**31) % 2**32 - 2**31
