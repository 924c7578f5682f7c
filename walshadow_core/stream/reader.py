"""WAL in pieces of any size to whole, checked records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Bytes, FormatError, Lsn
from walshadow_core.pgformat import walpage
from walshadow_core.pgformat.crc32c import FUNCTION, first_bad
from walshadow_core.pgformat.heap import PAGE_SIZE
from walshadow_core.pgformat.walrecord import WalRecords, parse_records

_BATCH_RECORDS = 16384
_BATCH_BYTES = (1 << 20) + (1 << 16)


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
        self._rest = b""
        self._first = int(first)
        self._at = 0
        self._out: Bytes = np.empty(_BATCH_BYTES, np.uint8)
        self._places: NDArray[np.int64] = np.empty((4, _BATCH_RECORDS), np.int64)
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
        """Take the next bytes; gives the records that are whole now, in batches. What a batch points into is
        its own. Raises FormatError, naming the LSN, for a record whose parts don't fit together."""
        if self.end is not None:
            return
        # Records are copied out of it, so that what the caller gave is not kept.
        joined = self._rest + bytes(data) if self._rest else data
        buf: Bytes = np.frombuffer(joined, np.uint8)
        # What can't be written to is of another type for the compiler: let there be one.
        buf.flags.writeable = False
        used = count = 0
        places = self._places
        while True:
            status, self._at, used, count = walpage.scan_records(
                buf, self._first, self._at, len(buf), self._magic, self._segment_size, self._system, self._state,
                self._out, used, places[0], places[1], places[2], places[3], count, FUNCTION,
            )  # fmt: skip
            if status == walpage.NO_ROOM and count == 0:
                self._out = np.empty(int(self._state[walpage.TOTAL]) + walpage.ROOM_BESIDE, np.uint8)
                continue
            if count:
                records = self._take(count)
                used = count = 0
                if len(records):
                    yield records
                if self.end is not None:
                    return
            if status in (walpage.FULL, walpage.NO_ROOM):
                continue
            if status != walpage.MORE:
                self.end = WalEnd(Lsn(self._first + self._at), walpage.REASONS[status])
                return
            break
        keep = min(self._at, len(buf))
        self._rest = bytes(joined[keep:])
        self._first += keep
        self._at -= keep

    def require_no_end(self) -> None:
        """Raises FormatError if the WAL ended before what was fed did."""
        if self.end is not None:
            raise FormatError(
                f"the WAL can't be read on at {self.end.lsn}: {self.end.reason}",
                "the segment is damaged or incomplete: fetch it again, or begin anew after it",
            )

    def _take(self, count: int) -> WalRecords:
        """The first ``count`` records, up to the first whose checksum fails: the WAL ends there."""
        start, end, offset, length = self._places[:, :count].copy()
        # A record that is still being put together stays; it is always the last one in the buffer.
        out = self._out
        self._carry_on(out, int(offset[-1] + length[-1]))
        if not FUNCTION:
            good = first_bad(out, offset, length, walpage.RECORD_HEADER, walpage.RECORD_CRC_AT)
            if good < count:
                self.end = WalEnd(Lsn(start[good]), walpage.REASONS[walpage.BAD_CHECKSUM])
                start, end, offset, length = start[:good], end[:good], offset[:good], length[:good]
        if len(end):
            self.position = Lsn(end[-1])
        return parse_records(out, start, end, offset, length)

    def _carry_on(self, out: Bytes, used: int) -> None:
        """A fresh buffer, with what there is of the record that is being put together at its start."""
        state = self._state
        total = int(state[walpage.TOTAL]) if state[walpage.START] >= 0 else 0
        self._out = np.empty(max(_BATCH_BYTES, total + walpage.ROOM_BESIDE), np.uint8)
        if total:
            first = (used + 7) & ~7
            got = int(state[walpage.COLLECTED])
            self._out[:got] = out[first : first + got]
