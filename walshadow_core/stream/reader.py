"""WAL in pieces of any size to whole, checked records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Bytes, FormatError, Lsn
from walshadow_core.pgformat import walpage
from walshadow_core.pgformat.heap import PAGE_SIZE
from walshadow_core.pgformat.walrecord import WalRecords, parse_records

_BATCH_RECORDS = 16384
PIECE = 1 << 20
"""Bytes to read at a time: with the arrays of their records they stay in the CPU's cache."""


@dataclass(frozen=True)
class WalEnd:
    """Where the WAL ends, and what is there instead of a record (nothing was written yet, a recycled segment…)."""

    lsn: Lsn
    reason: str


class WalReader:
    """Reads one stretch of WAL, fed in order from a page's start on.

    ``end`` is set when a place was met where no record is: for a live WAL that is its end, for an archived segment
    an error (``require_no_end``). ``position`` is the LSN after the last whole record, ``timeline`` that of the last
    page.
    """

    def __init__(self, first: Lsn, major: int, segment_size: int, system_identifier: int = 0) -> None:
        """``first`` is the LSN of the first byte, a page's start; ``system_identifier`` 0: any."""
        if first % PAGE_SIZE:
            raise ValueError(f"{first} is not the start of a WAL page")
        # Kept as the signed number that the kernel reads.
        self._system = int(np.uint64(system_identifier).astype(np.int64))
        self._magic = walpage.PAGE_MAGIC[major]
        self._segment_size = segment_size
        self._state = walpage.new_state()
        # The LSN of the buffer's first byte; how far it was looked at, and how far it is filled.
        self._first = int(first)
        self._at = self._filled = 0
        self._buf: Bytes = np.empty(0, np.uint8)
        self._places: NDArray[np.int64] = np.empty((walpage.PLACES, _BATCH_RECORDS), np.int64)
        self.position = Lsn(first)
        self.end: WalEnd | None = None

    @property
    def timeline(self) -> int:
        """The timeline of the last page that was read; 0 before the first."""
        return int(self._state[walpage.TIMELINE])

    @property
    def overwritten(self) -> int:
        """How many records were half written when the server crashed, and dropped here."""
        return int(self._state[walpage.OVERWRITTEN])

    def feed(self, data: bytes | memoryview) -> Iterator[WalRecords]:
        """Take the next bytes; gives the records that are whole now, in batches. What a batch points into stays as it
        is. Raises FormatError, naming the LSN, for a record whose parts don't fit together."""
        whole = np.frombuffer(data, np.uint8)
        for at in range(0, len(whole), PIECE):
            if self.end is not None:
                return
            part = whole[at : at + PIECE]
            self.room(len(part))[:] = part
            yield from self.take(len(part))

    def room(self, size: int) -> Bytes:
        """Where the next ``size`` bytes may be put, for ``take``: it spares the copy that ``feed`` makes."""
        if self._filled + size > len(self._buf):
            self._make_room(size)
        return self._buf[self._filled : self._filled + size]

    def take(self, size: int) -> Iterator[WalRecords]:
        """As ``feed``, the first ``size`` bytes of the room that was given last."""
        if self.end is not None:
            return
        self._filled += size
        status = walpage.FULL
        while status == walpage.FULL:
            status, self._at, count = walpage.scan_records(
                self._buf, self._first, self._at, self._filled, self._magic, self._segment_size, self._system,
                self._state, self._places,
            )  # fmt: skip
            if count:
                start, end, offset, length = self._places[:, :count].copy()
                self.position = Lsn(end[-1])
                yield parse_records(self._buf, start, end, offset, length)
        if status != walpage.MORE:
            self.end = WalEnd(Lsn(self._first + self._at), walpage.REASONS[status])

    def require_no_end(self) -> None:
        """Raises FormatError if the WAL ended before what was fed did."""
        if self.end is not None:
            raise FormatError(
                f"the WAL can't be read on at {self.end.lsn}: {self.end.reason}",
                "the segment is damaged or incomplete: fetch it again, or begin anew after it",
            )

    def _make_room(self, size: int) -> None:
        """A buffer with room for ``size`` bytes beside all of the record that is being put together. It begins with
        what there is of that record and what was not looked at yet; the one before stays with its batches."""
        state, old = self._state, self._buf
        got = rest = 0
        if state[walpage.START] >= 0:
            got = int(state[walpage.COLLECTED])
            rest = int(state[walpage.TOTAL]) - got
            # The headers of the pages that it is still to come in take less than a page of every MiB.
            rest += (rest // walpage.MIN_SEGMENT + 1) * PAGE_SIZE
        # It may be past what is there: where nothing is to be read until then.
        at = min(self._at, self._filled)
        # What begins at a multiple of 8 in the WAL does so in the buffer.
        to = (got + 7 & ~7) + (self._first + at) % 8
        end = to + self._filled - at
        self._buf = np.empty(end + max(PIECE, rest + size), np.uint8)
        if got:
            place = int(state[walpage.PLACE])
            self._buf[:got] = old[place : place + got]
            state[walpage.PLACE] = 0
        self._buf[to:end] = old[at : self._filled]
        self._first += at - to
        self._at += to - at
        self._filled = end
