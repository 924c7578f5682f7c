"""Comparing two sorted streams of digests in bounded memory, arrays at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import RowDigests

SHOWN = 20
"""How many differing keys are kept."""

Digests = NDArray[np.bytes_]


@dataclass
class Differences:
    """What two sides differ in. Counts are exact; ``keys`` holds the first few (kind, printable key):
    ``missing`` at the destination, ``extra`` there, or ``changed``."""

    missing: int = 0
    extra: int = 0
    changed: int = 0
    keys: list[tuple[str, str]] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Rows that differ."""
        return self.missing + self.extra + self.changed


@dataclass(frozen=True)
class _Rows:
    """Rows in order; equal ones that follow each other are one entry and its count, so that a table of copies of
    one row needs no more memory than one of different rows."""

    key: Digests
    row: Digests
    label: NDArray[np.object_]
    count: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.key)

    def __getitem__(self, at: slice) -> _Rows:
        return _Rows(self.key[at], self.row[at], self.label[at], self.count[at])


_NO_ROWS = _Rows(np.zeros(0, "S32"), np.zeros(0, "S32"), np.zeros(0, object), np.zeros(0, np.int64))


def _rows_of(batch: RowDigests) -> _Rows:
    key = batch.key.to_numpy(zero_copy_only=False).astype("S32")
    row = batch.row.to_numpy(zero_copy_only=False).astype("S32")
    label = batch.label.to_numpy(zero_copy_only=False).astype(object)
    return _folded([_Rows(key, row, label, np.ones(len(key), np.int64))])


def _folded(parts: Sequence[_Rows]) -> _Rows:
    """The parts as one, equal neighbours made one entry."""
    key = np.concatenate([p.key for p in parts])
    row = np.concatenate([p.row for p in parts])
    label = np.concatenate([p.label for p in parts])
    count = np.concatenate([p.count for p in parts])
    if not len(key):
        return _NO_ROWS
    new = np.ones(len(key), np.bool_)
    new[1:] = (key[1:] != key[:-1]) | (row[1:] != row[:-1])
    first = np.flatnonzero(new)
    return _Rows(key[first], row[first], label[first], np.add.reduceat(count, first))


class _Side:
    """One stream, as a window of rows that are not compared yet."""

    def __init__(self, rows: Iterator[RowDigests]) -> None:
        self._batches = rows
        self.rows = _NO_ROWS
        self.ended = False

    def fill(self) -> None:
        """Have at least one row, unless the stream has ended."""
        while not len(self.rows) and not self.ended:
            self._more()

    def _more(self) -> None:
        batch = next(self._batches, None)
        if batch is None:
            self.ended = True
        else:
            self.rows = _folded([self.rows, _rows_of(batch)])

    def complete_to(self, key: bytes) -> None:
        """Have every row up to and with this key."""
        while not self.ended and (not len(self.rows) or self.rows.key[-1] <= key):
            self._more()

    def cut(self, key: bytes) -> _Rows:
        """Take the rows up to and with this key out of the window."""
        at = int(np.searchsorted(self.rows.key, np.array([key], "S32"), side="right")[0])
        taken, self.rows = self.rows[:at], self.rows[at:]
        return taken


def compare(source: Iterator[RowDigests], destination: Iterator[RowDigests]) -> Differences:
    """Walk both streams, each sorted by (key, row), and tell where they differ."""
    left, right = _Side(source), _Side(destination)
    found = Differences()
    while True:
        left.fill()
        right.fill()
        if not len(left.rows) and not len(right.rows):
            return found
        boundary = bytes(min(side.rows.key[-1] for side in (left, right) if len(side.rows)))
        left.complete_to(boundary)
        right.complete_to(boundary)
        _compare_window(left.cut(boundary), right.cut(boundary), found)


def _unpaired(own: Digests, count: NDArray[np.int64], other: Digests, paired: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many of each entry of ``own`` are left after pairing them off, in order, with entries of ``other`` that
    have the same digest. Both are sorted and digests may repeat."""
    values, first, inverse = np.unique(own, return_index=True, return_inverse=True)
    there, other_inverse = np.unique(other, return_inverse=True)
    total = np.zeros(len(there) + 1, np.int64)
    np.add.at(total, other_inverse, paired)
    at = np.searchsorted(there, values)
    known = at < len(there)
    known[known] = there[at[known]] == values[known]
    partners = np.where(known, total[at], 0)
    before = np.concatenate([[0], np.cumsum(count)])[:-1]
    before -= before[first][inverse]
    taken = np.clip(partners[inverse] - before, 0, count)
    left: NDArray[np.int64] = count - taken
    return left


def _compare_window(left: _Rows, right: _Rows, found: Differences) -> None:
    whole_left, whole_right = np.char.add(left.key, left.row), np.char.add(right.key, right.row)
    lone_left = _unpaired(whole_left, left.count, whole_right, right.count)
    lone_right = _unpaired(whole_right, right.count, whole_left, left.count)
    missing = _unpaired(left.key, lone_left, right.key, lone_right)
    extra = _unpaired(right.key, lone_right, left.key, lone_left)
    changed = lone_left - missing
    found.missing += int(missing.sum())
    found.extra += int(extra.sum())
    found.changed += int(changed.sum())
    for kind, rows, counts in (("missing", left, missing), ("extra", right, extra), ("changed", left, changed)):
        room = SHOWN - len(found.keys)
        if room > 0:
            some = np.flatnonzero(counts)[:room]
            labels = np.repeat(rows.label[some], np.minimum(counts[some], room))
            found.keys.extend((kind, str(label)) for label in labels[:room])
