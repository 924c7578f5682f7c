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
from walshadow_core.pgformat.words import SLACK, copy_exactly, copy_words, load64

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
ROOM_BESIDE: Final = 8 + RECORD_HEADER
"""Bytes that a buffer for a record must have beside the record's own."""
RECORD_XID_AT, RECORD_PREV_AT, RECORD_INFO_AT, RECORD_RMID_AT, RECORD_CRC_AT = 4, 8, 16, 17, 20

XLOG_RMGR: Final = 0
XLOG_SWITCH: Final = 0x40
RMGR_INFO_MASK: Final = 0xF0

MORE: Final = 0
FULL: Final = 1
NO_ROOM: Final = 2
NO_RECORD: Final = 3
BAD_MAGIC: Final = 4
BAD_FLAGS: Final = 5
BAD_ADDRESS: Final = 6
BAD_SEGMENT: Final = 7
BAD_TIMELINE: Final = 8
BAD_CONTRECORD: Final = 9
BAD_LENGTH: Final = 10
BAD_PREVIOUS: Final = 11
BAD_CHECKSUM: Final = 12
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
"""What ends a scan, by its status; MORE, FULL and NO_ROOM are no faults."""

START, TOTAL, COLLECTED, PREVIOUS, TIMELINE, SKIP, JUMP, OVERWRITTEN = range(8)
STATE: Final = 8
"""Fields of a scan's state, int64[STATE]: where the record being put together begins (-1: none) and how many bytes it
has and are there; where the record before it began (-1: not known); the last page's timeline; bytes of a record
that began before the scan, still to be passed over; the LSN that a segment switch leads to; how many
half-written records were dropped."""


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
def scan_records(
    buf: Bytes,
    first_lsn: int,
    at: int,
    stop: int,
    magic: int,
    segment: int,
    system: int,
    state: NDArray[np.int64],
    out: Bytes,
    used: int,
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    count: int,
    checksum: np.uint64,
) -> tuple[int, int, int, int]:
    """Put the records of ``buf[at:stop]`` together, each contiguous in ``out`` from a multiple of 8 on.

    ``first_lsn`` is the LSN of ``buf[0]``; ``at`` is where the last call stopped (it may lie past ``stop``), or a
    page's start. ``system`` is the system identifier to be met, 0 for any; ``checksum`` is crc32c.FUNCTION. Record
    ``count`` and further ones leave their LSN, the LSN of what follows, and their place in ``out``. Gives (status, at,
    used, count): MORE bytes are needed, the arrays are FULL, ``out`` has NO_ROOM for the record of state[TOTAL] bytes,
    or a fault at ``at``, see REASONS.
    """
    while True:
        lsn = first_lsn + at
        if lsn < state[JUMP]:
            at += state[JUMP] - lsn
            continue
        if at >= stop:
            return MORE, at, used, count
        if lsn % PAGE_SIZE == 0:
            size = LONG_HEADER if lsn % segment == 0 else SHORT_HEADER
            if at + size > stop:
                return MORE, at, used, count
            wrong = _page_header(buf, at, lsn, magic, segment, system, state)
            if wrong != 0:
                return wrong, at, used, count
            at += size
            continue
        left = PAGE_SIZE - lsn % PAGE_SIZE
        if state[SKIP] > 0:
            step = min(state[SKIP], left, stop - at)
            at += step
            state[SKIP] -= step
            if state[SKIP] == 0:
                at += -(first_lsn + at) & 7
            continue
        if state[START] < 0:
            if at + 4 > stop:
                return MORE, at, used, count
            total = int(load32(buf, at))
            if total == 0:
                return NO_RECORD, at, used, count
            if total < RECORD_HEADER or total > MAX_RECORD:
                return BAD_LENGTH, at, used, count
            if count == start.size:
                return FULL, at, used, count
            place = (used + 7) & ~7
            if place + total + RECORD_HEADER > out.size:
                state[TOTAL] = total
                return NO_ROOM, at, used, count
            used = place
            state[START] = lsn
            state[TOTAL] = total
            state[COLLECTED] = 0
        got = state[COLLECTED]
        step = min(state[TOTAL] - got, left, stop - at)
        to = used + got
        if at + step + SLACK <= buf.size and to + step + SLACK <= out.size:
            copy_words(buf, np.uint64(at), out, np.uint64(to), np.uint64(step))
        else:
            copy_exactly(buf, np.uint64(at), out, np.uint64(to), np.uint64(step))
        at += step
        state[COLLECTED] = got + step
        if got < RECORD_HEADER <= got + step:
            previous = load64s(out, used + RECORD_PREV_AT)
            follows = previous == state[PREVIOUS] if state[PREVIOUS] >= 0 else previous < state[START]
            if not follows:
                at = state[START] - first_lsn
                state[START] = -1
                return BAD_PREVIOUS, at, used, count
        if got + step == state[TOTAL]:
            if checksum != 0 and not holds(checksum, out, used, state[TOTAL], RECORD_HEADER, RECORD_CRC_AT):
                at = state[START] - first_lsn
                state[START] = -1
                return BAD_CHECKSUM, at, used, count
            at += -(first_lsn + at) & 7
            if out[used + RECORD_RMID_AT] == XLOG_RMGR and out[used + RECORD_INFO_AT] & RMGR_INFO_MASK == XLOG_SWITCH:
                lsn = first_lsn + at
                state[JUMP] = lsn + -lsn % segment
            start[count] = state[START]
            end[count] = max(first_lsn + at, state[JUMP])
            offset[count] = used
            length[count] = state[TOTAL]
            used += state[TOTAL]
            count += 1
            state[PREVIOUS] = state[START]
            state[START] = -1
