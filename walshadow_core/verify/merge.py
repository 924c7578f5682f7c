"""Comparing two sorted streams of digests in bounded memory, arrays at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import RowDigests

SHOWN = 20
"""How many differing keys are kept, of each kind."""

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


class _Side:
    """One stream, as a window of rows that are not compared yet."""

    def __init__(self, rows: Iterator[RowDigests]) -> None:
        self._rows = rows
        self.key: Digests = np.zeros(0, "S32")
        self.row: Digests = np.zeros(0, "S32")
        self.label: NDArray[np.object_] = np.zeros(0, object)
        self.ended = False

    def fill(self) -> None:
        """Have at least one row, unless the stream has ended."""
        while not len(self.key) and not self.ended:
            self._more()

    def _more(self) -> None:
        batch = next(self._rows, None)
        if batch is None:
            self.ended = True
            return
        self.key = np.concatenate([self.key, batch.key.to_numpy(zero_copy_only=False).astype("S32")])
        self.row = np.concatenate([self.row, batch.row.to_numpy(zero_copy_only=False).astype("S32")])
        self.label = np.concatenate([self.label, batch.label.to_numpy(zero_copy_only=False).astype(object)])

    def complete_to(self, key: bytes) -> None:
        """Have every row up to and with this key."""
        while not self.ended and (not len(self.key) or self.key[-1] <= key):
            self._more()

    def cut(self, key: bytes) -> tuple[Digests, Digests, NDArray[np.object_]]:
        """Take the rows up to and with this key out of the window."""
        at = int(np.searchsorted(self.key, np.array([key], "S32"), side="right")[0])
        taken = self.key[:at], self.row[:at], self.label[:at]
        self.key, self.row, self.label = self.key[at:], self.row[at:], self.label[at:]
        return taken


def compare(source: Iterator[RowDigests], destination: Iterator[RowDigests]) -> Differences:
    """Walk both streams, each sorted by (key, row), and tell where they differ."""
    left, right = _Side(source), _Side(destination)
    found = Differences()
    while True:
        left.fill()
        right.fill()
        if not len(left.key) and not len(right.key):
            return found
        ends = [side.key[-1] for side in (left, right) if len(side.key)]
        boundary = bytes(min(ends))
        left.complete_to(boundary)
        right.complete_to(boundary)
        _compare_window(left.cut(boundary), right.cut(boundary), found)


def _unmatched(own: Digests, other: Digests) -> NDArray[np.intp]:
    """Indexes of ``own`` left over after pairing equal values off, duplicates counted."""
    values, first, inverse = np.unique(own, return_index=True, return_inverse=True)
    have, have_counts = np.unique(other, return_counts=True)
    at = np.minimum(np.searchsorted(have, values), max(len(have) - 1, 0))
    paired = np.where(have[at] == values, have_counts[at], 0) if len(have) else np.zeros(len(values), np.intp)
    occurrence = np.arange(len(own)) - first[inverse]
    return np.flatnonzero(occurrence >= paired[inverse])


def _compare_window(
    left: tuple[Digests, Digests, NDArray[np.object_]],
    right: tuple[Digests, Digests, NDArray[np.object_]],
    found: Differences,
) -> None:
    whole_left, whole_right = np.char.add(left[0], left[1]), np.char.add(right[0], right[1])
    lone_left, lone_right = _unmatched(whole_left, whole_right), _unmatched(whole_right, whole_left)
    keys_left, keys_right = left[0][lone_left], right[0][lone_right]
    missing = lone_left[_unmatched(keys_left, keys_right)]
    extra = lone_right[_unmatched(keys_right, keys_left)]
    changed = np.setdiff1d(lone_left, missing, assume_unique=True)
    found.missing += len(missing)
    found.extra += len(extra)
    found.changed += len(changed)
    for kind, labels in (("missing", left[2][missing]), ("extra", right[2][extra]), ("changed", left[2][changed])):
        room = SHOWN - len(found.keys)
        found.keys.extend((kind, str(label)) for label in labels[: max(room, 0)])
