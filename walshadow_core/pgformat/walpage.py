"""WAL pages (``access/xlog_internal.h``) to whole records: page headers taken out, halves joined.

A WAL page has a header of 24 bytes, the first of a segment one of 40. Records begin on 8-byte boundaries and run
on over the next pages, each of which says how much of the record is still to come.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.pgformat.crc32c import holds
from walshadow_core.pgformat.heap import PAGE_SIZE, load16, load32
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.words import copy_exactly, load64

PAGE_MAGIC: Final = {15: 0xD110, 16: 0xD113, 17: 0xD116, 18: 0xD118}
"""XLOG_PAGE_MAGIC by major."""

PAGE_HEADER: Final = np.dtype(
    [
        ("magic", "<u2"), ("flags", "<u2"), ("timeline", "<u4"), ("address", "<u8"), ("rest", "<u4"), ("pad", "<u4"),
        ("system_identifier", "<u8"), ("segment_size", "<u4"), ("page_size", "<u4"),
    ]
)  # fmt: skip
"""XLogLongPageHeaderData; XLogPageHeaderData is the part before ``system_identifier``."""

SHORT_HEADER: Final = 24
LONG_HEADER: Final = 40
"""SizeOfXLogShortPHD and SizeOfXLogLongPHD."""

FIRST_IS_CONTRECORD: Final = 1
HAS_LONG_HEADER: Final = 2
FIRST_IS_OVERWRITE_CONTRECORD: Final = 8
ALL_FLAGS: Final = 15

MIN_SEGMENT, MAX_SEGMENT = 1 << 20, 1 << 30
"""Sizes that initdb --wal-segsize takes, in bytes: powers of two between them."""

RECORD_HEADER: Final = 24
MAX_RECORD: Final = 1020 << 20
"""SizeOfXLogRecord and XLogRecordMaxSize (``access/xlogrecord.h``)."""
RECORD_XID_AT, RECORD_PREV_AT, RECORD_INFO_AT, RECORD_RMID_AT, RECORD_CRC_AT = 4, 8, 16, 17, 20
_INFO_AT, _RMID_AT = np.uint64(RECORD_INFO_AT), np.uint64(RECORD_RMID_AT)

XLOG_RMGR: Final = 0
XLOG_SWITCH: Final = 0x40
RMGR_INFO_MASK: Final = 0xF0

MORE: Final = 0
FULL: Final = 1
NO_RECORD: Final = 2
BAD_MAGIC: Final = 3
BAD_FLAGS: Final = 4
BAD_ADDRESS: Final = 5
BAD_SEGMENT: Final = 6
BAD_TIMELINE: Final = 7
BAD_CONTRECORD: Final = 8
BAD_LENGTH: Final = 9
BAD_PREVIOUS: Final = 10
BAD_CHECKSUM: Final = 11
REASONS: Final = {
    NO_RECORD: "there is no record",
    BAD_MAGIC: "the page has the magic number of no or of another version",
    BAD_FLAGS: "the page has impossible flags",
    BAD_ADDRESS: "the page is of another place in the WAL",
    BAD_SEGMENT: "the page is of another cluster, or of another segment or page size",
    BAD_TIMELINE: "the page is of an older timeline than the one before it",
    BAD_CONTRECORD: "the page does not go on with the record before it",
    BAD_LENGTH: "the record has an impossible length",
    BAD_PREVIOUS: "the record does not follow the one before it",
    BAD_CHECKSUM: "the record fails its checksum",
}
"""What ends a scan, by its status; MORE and FULL are no faults."""

START, TOTAL, COLLECTED, PREVIOUS, TIMELINE, SKIP, JUMP, OVERWRITTEN, PLACE = range(9)
STATE: Final = 9
"""Fields of a scan's state, int64[STATE]: where the record being put together begins (-1: none) and how many bytes it
has and are there; where the record before it began (-1: not known); the last page's timeline; bytes of a record
that began before the scan, still to be passed over; the LSN that a segment switch leads to; how many
half-written records were dropped; where in the buffer the record being put together is."""

LSN, END, OFFSET, LENGTH = range(4)
PLACES: Final = 4
"""Rows of what a scan finds, int64[PLACES, n]: a record's LSN and the LSN of what follows, its place in the buffer."""


def new_state() -> NDArray[np.int64]:
    """A scan's state before its first byte."""
    state: NDArray[np.int64] = np.zeros(STATE, np.int64)
    state[START] = state[PREVIOUS] = -1
    return state


@kernel
def load64s(buf: Bytes, at: int) -> int:
    """The little-endian uint64 at ``at`` as an int64: LSNs and addresses stay below 2**63."""
    return int(np.int64(load64(buf, np.uint64(at))))


@kernel
def _page_header(buf: Bytes, at: int, lsn: int, magic: int, segment: int, system: int, state: NDArray[np.int64]) -> int:
    """Check the header at ``at``, which is there whole, and take it into ``state``: 0 or the fault."""
    if load16(buf, at) != magic:
        return BAD_MAGIC
    flags = int(load16(buf, at + 2))
    long = lsn % segment == 0
    if flags & ~ALL_FLAGS != 0 or (flags & HAS_LONG_HEADER != 0) != long:
        return BAD_FLAGS
    if load64s(buf, at + 8) != lsn:
        return BAD_ADDRESS
    if long:
        other = system != 0 and load64s(buf, at + 24) != system
        if other or load32(buf, at + 32) != segment or load32(buf, at + 36) != PAGE_SIZE:
            return BAD_SEGMENT
    timeline = int(load32(buf, at + 4))
    if timeline < state[TIMELINE]:
        return BAD_TIMELINE
    state[TIMELINE] = timeline
    rest = int(load32(buf, at + 16))
    goes_on = flags & FIRST_IS_CONTRECORD != 0
    if goes_on != (rest != 0):
        return BAD_CONTRECORD
    if state[START] >= 0:
        if flags & FIRST_IS_OVERWRITE_CONTRECORD != 0:
            state[START] = -1
            state[OVERWRITTEN] += 1
        elif not goes_on or rest != state[TOTAL] - state[COLLECTED]:
            return BAD_CONTRECORD
    elif goes_on and state[SKIP] == 0:
        if state[PREVIOUS] >= 0:
            return BAD_CONTRECORD
        state[SKIP] = rest
    elif state[SKIP] != rest:
        # The end of a record that began before the scan; it may have been overwritten too.
        if flags & FIRST_IS_OVERWRITE_CONTRECORD == 0:
            return BAD_CONTRECORD
        state[SKIP] = 0
        state[OVERWRITTEN] += 1
    return 0


@kernel
def _whole_records(
    buf: Bytes,
    first_lsn: int,
    at: int,
    stop: int,
    previous: int,
    places: NDArray[np.int64],
    count: int,
) -> tuple[int, int, int]:
    """Take the records that lie whole in ``buf[at:stop]``, which is of one page, up to the first that is not as it
    should be, or is a segment switch: that one is left to scan_records. ``previous`` is the LSN of the record before
    (-1: not known). Gives (at, previous, count)."""
    while stop - at >= RECORD_HEADER and count < places.shape[1]:
        total = int(load32(buf, at))
        if total < RECORD_HEADER or total > stop - at or load64s(buf, at + RECORD_PREV_AT) != previous:
            break
        i = np.uint64(at)
        if not holds(buf, at, total, RECORD_HEADER, RECORD_CRC_AT):
            break
        if buf[i + _RMID_AT] == XLOG_RMGR and buf[i + _INFO_AT] & RMGR_INFO_MASK == XLOG_SWITCH:
            break
        previous = first_lsn + at
        u = np.uint64(count)
        places[LSN, u] = previous
        places[OFFSET, u] = at
        places[LENGTH, u] = total
        at += (total + 7) & ~7
        places[END, u] = first_lsn + at
        count += 1
    return at, previous, count


@kernel
def scan_records(
    buf: Bytes,
    first_lsn: int,
    at: int,
    stop: int,
    magic: int,
    segment: int,
    system: int,
    state: NDArray[np.int64],
    places: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Find the records of ``buf[at:stop]``, and make each contiguous where it is: what a page's header parts moves
    down to what comes before that.

    ``first_lsn`` is the LSN of ``buf[0]``; ``at`` is where the last call stopped (it may lie past ``stop``), or a
    page's start. ``system`` is the system identifier to be met, 0 for any. What is found goes to the columns of
    ``places``. Gives (status, at, count of records): MORE bytes are needed, ``places`` is FULL, or a fault at ``at``,
    see REASONS.
    """
    count = 0
    while True:
        lsn = first_lsn + at
        if lsn < state[JUMP]:
            at += state[JUMP] - lsn
            continue
        if at >= stop:
            return MORE, at, count
        if lsn % PAGE_SIZE == 0:
            size = LONG_HEADER if lsn % segment == 0 else SHORT_HEADER
            if at + size > stop:
                return MORE, at, count
            wrong = _page_header(buf, at, lsn, magic, segment, system, state)
            if wrong != 0:
                return wrong, at, count
            at += size
            continue
        left = min(PAGE_SIZE - lsn % PAGE_SIZE, stop - at)
        if state[SKIP] > 0:
            step = min(state[SKIP], left)
            at += step
            state[SKIP] -= step
            if state[SKIP] == 0:
                at += -(first_lsn + at) & 7
            continue
        if state[START] < 0:
            before = count
            at, state[PREVIOUS], count = _whole_records(buf, first_lsn, at, at + left, state[PREVIOUS], places, count)
            if count > before:
                continue
            if at + 4 > stop:
                return MORE, at, count
            total = int(load32(buf, at))
            if total == 0:
                return NO_RECORD, at, count
            if total < RECORD_HEADER or total > MAX_RECORD:
                return BAD_LENGTH, at, count
            if count == places.shape[1]:
                return FULL, at, count
            state[START] = lsn
            state[TOTAL] = total
            state[COLLECTED] = 0
            state[PLACE] = at
        place = state[PLACE]
        got = state[COLLECTED]
        step = min(state[TOTAL] - got, left)
        to = place + got
        if to != at:
            copy_exactly(buf, np.uint64(at), buf, np.uint64(to), np.uint64(step))
        at += step
        state[COLLECTED] = got + step
        if got < RECORD_HEADER <= got + step:
            previous = load64s(buf, place + RECORD_PREV_AT)
            follows = previous == state[PREVIOUS] if state[PREVIOUS] >= 0 else previous < state[START]
            if not follows:
                at = state[START] - first_lsn
                state[START] = -1
                return BAD_PREVIOUS, at, count
        if got + step == state[TOTAL]:
            if not holds(buf, place, state[TOTAL], RECORD_HEADER, RECORD_CRC_AT):
                at = state[START] - first_lsn
                state[START] = -1
                return BAD_CHECKSUM, at, count
            at += -(first_lsn + at) & 7
            if buf[place + RECORD_RMID_AT] == XLOG_RMGR and buf[place + RECORD_INFO_AT] & RMGR_INFO_MASK == XLOG_SWITCH:
                lsn = first_lsn + at
                state[JUMP] = lsn + -lsn % segment
            places[LSN, count] = state[START]
            places[END, count] = max(first_lsn + at, state[JUMP])
            places[OFFSET, count] = place
            places[LENGTH, count] = state[TOTAL]
            count += 1
            state[PREVIOUS] = state[START]
            state[START] = -1
