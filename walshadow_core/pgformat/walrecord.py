"""WAL records to arrays (``access/xlogrecord.h``): header, block references, images, data.

A record is a header, then the headers of its block references and of its main data, one after the other, then
their contents in the same order: per block its image and its data, at the end the main data.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Bytes, FormatError, Lsn
from walshadow_core.pgformat.heap import PAGE_SIZE, load16, load32
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.walpage import (
    RECORD_HEADER,
    RECORD_INFO_AT,
    RECORD_PREV_AT,
    RECORD_RMID_AT,
    RECORD_XID_AT,
    load64s,
)

MAX_BLOCK_ID: Final = 32
DATA_SHORT, DATA_LONG, ORIGIN, TOPLEVEL_XID = 255, 254, 253, 252
"""Ids of headers that are of no block (XLR_BLOCK_ID_*)."""

FORK_MASK: Final = 0x0F
HAS_IMAGE, HAS_DATA, WILL_INIT, SAME_REL = 0x10, 0x20, 0x40, 0x80
"""BKPBLOCK_* of a block reference."""
LAST_FORK: Final = 3

IMAGE_HAS_HOLE, IMAGE_APPLY, IMAGE_PGLZ, IMAGE_LZ4, IMAGE_ZSTD = 0x01, 0x02, 0x04, 0x08, 0x10
IMAGE_COMPRESSED: Final = IMAGE_PGLZ | IMAGE_LZ4 | IMAGE_ZSTD
"""BKPIMAGE_*, as 15 to 18 have them."""

BLOCK_HEADER, IMAGE_HEADER, LOCATOR_SIZE = 4, 5, 12

OUTSIDE: Final = 1
BAD_ID: Final = 2
BAD_ORDER: Final = 3
NO_LOCATOR: Final = 4
BAD_IMAGE: Final = 5
BAD_DATA: Final = 6
BAD_FORK: Final = 7
ALL_TAKEN: Final = 8
REASONS: Final = {
    OUTSIDE: "its headers run past its end",
    BAD_ID: "it has a header of an unknown sort",
    BAD_ORDER: "its block references are out of order",
    NO_LOCATOR: "a block reference is of the same relation as none before it",
    BAD_IMAGE: "a page image has an impossible size",
    BAD_DATA: "its parts do not add up to its length",
    BAD_FORK: "a block reference is of an unknown fork",
}
"""Why a record can't be parsed; ALL_TAKEN is no fault of it."""

_USUAL_BLOCKS: Final = 2


@dataclass(frozen=True, slots=True)
class BlockRefs:
    """The block references of many records, in order; arrays of one length.

    ``record`` is the index of the record that each is of; ``block_id``, ``fork``, ``flags`` (HAS_IMAGE…),
    ``tablespace``, ``database``, ``relation`` (relfilenumber) and ``block`` say what it refers to. An image has
    ``image_length`` bytes at ``image_offset`` (in the records' buffer; -1: none), ``hole_offset`` and ``hole_length``
    say what was left out of the page, ``image_info`` (IMAGE_*) how it is compressed; block data likewise.
    """

    record: NDArray[np.int64]
    block_id: NDArray[np.uint8]
    fork: NDArray[np.uint8]
    flags: NDArray[np.uint8]
    tablespace: NDArray[np.uint32]
    database: NDArray[np.uint32]
    relation: NDArray[np.uint32]
    block: NDArray[np.uint32]
    image_offset: NDArray[np.int64]
    image_length: NDArray[np.int32]
    image_info: NDArray[np.uint8]
    hole_offset: NDArray[np.int32]
    hole_length: NDArray[np.int32]
    data_offset: NDArray[np.int64]
    data_length: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.record)


@dataclass(frozen=True, slots=True)
class WalRecords:
    """Whole records; arrays of one length n, but for ``buf``, ``blocks`` and ``first_block``.

    ``buf[offset:offset + length]`` is a record. ``start`` and ``end`` are LSNs, ``end`` that of what follows;
    ``previous`` is the LSN of the record before. ``info`` is xl_info, ``rmgr`` the resource manager's id.
    ``image_bytes`` is how much of it is page images. ``blocks`` of record i are those in
    ``[first_block[i], first_block[i + 1])``. Main data lie at ``data_offset`` of ``buf``, ``data_length`` bytes.
    ``toplevel_xid`` is 0 where the record names none.
    """

    buf: Bytes
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    previous: NDArray[np.int64]
    xid: NDArray[np.uint32]
    info: NDArray[np.uint8]
    rmgr: NDArray[np.uint8]
    image_bytes: NDArray[np.int64]
    data_offset: NDArray[np.int64]
    data_length: NDArray[np.int64]
    toplevel_xid: NDArray[np.uint32]
    origin: NDArray[np.uint16]
    first_block: NDArray[np.int64]
    blocks: BlockRefs

    def __len__(self) -> int:
        return len(self.start)

    def between(self, first: int, last: int) -> WalRecords:
        """Those that begin at LSN ``first`` or later, and end at ``last`` or earlier."""
        low, high = int(np.searchsorted(self.start, first)), int(np.searchsorted(self.end, last, "right"))
        if low == 0 and high == len(self):
            return self
        high = max(low, high)
        from_ref, to_ref = int(self.first_block[low]), int(self.first_block[high])
        refs = {f.name: getattr(self.blocks, f.name)[from_ref:to_ref] for f in fields(self.blocks)}
        refs["record"] = refs["record"] - low
        kept = {f.name: getattr(self, f.name)[low:high] for f in fields(self) if f.name not in _WHOLE}
        first_block = self.first_block[low : high + 1] - from_ref
        return WalRecords(buf=self.buf, first_block=first_block, blocks=BlockRefs(**refs), **kept)


_WHOLE: Final = ("buf", "first_block", "blocks")


@kernel
def _parse(
    buf: Bytes,
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    previous: NDArray[np.int64],
    xid: NDArray[np.uint32],
    info: NDArray[np.uint8],
    rmgr: NDArray[np.uint8],
    image_bytes: NDArray[np.int64],
    data_offset: NDArray[np.int64],
    data_length: NDArray[np.int64],
    toplevel_xid: NDArray[np.uint32],
    origin: NDArray[np.uint16],
    first_block: NDArray[np.int64],
    record: NDArray[np.int64],
    block_id: NDArray[np.uint8],
    fork: NDArray[np.uint8],
    block_flags: NDArray[np.uint8],
    locator: NDArray[np.uint32],
    block: NDArray[np.uint32],
    image_offset: NDArray[np.int64],
    image_length: NDArray[np.int32],
    image_info: NDArray[np.uint8],
    hole_offset: NDArray[np.int32],
    hole_length: NDArray[np.int32],
    block_data_offset: NDArray[np.int64],
    block_data_length: NDArray[np.int32],
) -> tuple[int, int, int]:
    """Fill the arrays: (count of block references, index of the first bad record or -1, why). With ALL_TAKEN, those of
    block references are too short for the record of that index."""
    b = 0
    room = len(record)
    for i in range(len(offset)):
        first_block[i] = b
        image_bytes[i] = data_length[i] = toplevel_xid[i] = origin[i] = 0
        at = int(offset[i])
        stop = at + int(length[i])
        previous[i] = load64s(buf, at + RECORD_PREV_AT)
        xid[i] = load32(buf, at + RECORD_XID_AT)
        info[i] = buf[np.uint64(at + RECORD_INFO_AT)]
        rmgr[i] = buf[np.uint64(at + RECORD_RMID_AT)]
        at += RECORD_HEADER
        contents = 0
        last_id = -1
        known = -1
        while stop - at > contents:
            left = stop - at
            sort = int(buf[np.uint64(at)])
            if sort == DATA_SHORT:
                if left < 2:
                    return b, i, OUTSIDE
                data_length[i] = int(buf[np.uint64(at + 1)])
                contents += data_length[i]
                at += 2
                break
            if sort == DATA_LONG:
                if left < 5:
                    return b, i, OUTSIDE
                data_length[i] = load32(buf, at + 1)
                contents += data_length[i]
                at += 5
                break
            if sort == ORIGIN:
                if left < 3:
                    return b, i, OUTSIDE
                origin[i] = load16(buf, at + 1)
                at += 3
                continue
            if sort == TOPLEVEL_XID:
                if left < 5:
                    return b, i, OUTSIDE
                toplevel_xid[i] = load32(buf, at + 1)
                at += 5
                continue
            if sort > MAX_BLOCK_ID:
                return b, i, BAD_ID
            if sort <= last_id:
                return b, i, BAD_ORDER
            if left < BLOCK_HEADER:
                return b, i, OUTSIDE
            if b == room:
                return b, i, ALL_TAKEN
            u = np.uint64(b)
            last_id = sort
            flags = int(buf[np.uint64(at + 1)])
            record[u] = i
            block_id[u] = sort
            fork[u] = flags & FORK_MASK
            block_flags[u] = flags & ~FORK_MASK
            if flags & FORK_MASK > LAST_FORK:
                return b, i, BAD_FORK
            size = int(load16(buf, at + 2))
            if (size != 0) != (flags & HAS_DATA != 0):
                return b, i, BAD_DATA
            block_data_length[u] = size
            contents += size
            at += BLOCK_HEADER
            image_offset[u] = block_data_offset[u] = -1
            image_length[u] = image_info[u] = hole_offset[u] = hole_length[u] = 0
            if flags & HAS_IMAGE != 0:
                if stop - at < IMAGE_HEADER + 2:
                    return b, i, OUTSIDE
                size = int(load16(buf, at))
                hole = int(load16(buf, at + 2))
                how = int(buf[np.uint64(at + 4)])
                at += IMAGE_HEADER
                gap = 0
                if how & IMAGE_COMPRESSED == 0:
                    gap = PAGE_SIZE - size
                elif how & IMAGE_HAS_HOLE != 0:
                    gap = int(load16(buf, at))
                    at += 2
                holed = how & IMAGE_HAS_HOLE != 0
                if size == 0 or size > PAGE_SIZE or gap < 0 or (not holed and (gap != 0 or hole != 0)):
                    return b, i, BAD_IMAGE
                if holed and (hole == 0 or gap == 0 or hole + gap > PAGE_SIZE):
                    return b, i, BAD_IMAGE
                if how & IMAGE_COMPRESSED != 0 and size == PAGE_SIZE:
                    return b, i, BAD_IMAGE
                image_length[u] = size
                image_info[u] = how
                hole_offset[u] = hole
                hole_length[u] = gap
                image_bytes[i] += size
                contents += size
            if flags & SAME_REL == 0:
                if stop - at < LOCATOR_SIZE:
                    return b, i, OUTSIDE
                for k in range(3):
                    locator[k, u] = load32(buf, at + 4 * k)
                at += LOCATOR_SIZE
            elif known < 0:
                return b, i, NO_LOCATOR
            else:
                for k in range(3):
                    locator[k, u] = locator[k, known]
            if stop - at < 4:
                return b, i, OUTSIDE
            known = b
            block[u] = load32(buf, at)
            at += 4
            b += 1
        if at + contents != stop:
            return b, i, BAD_DATA
        for k in range(first_block[i], b):
            if image_length[k] > 0:
                image_offset[k] = at
                at += image_length[k]
            if block_data_length[k] > 0:
                block_data_offset[k] = at
                at += block_data_length[k]
        data_offset[i] = at
    first_block[len(offset)] = b
    return b, -1, 0


def parse_records(
    buf: Bytes,
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
) -> WalRecords:
    """The records at ``offset`` of ``buf``, whose lengths are known to lie inside of it and to be a record header's
    at least. Raises FormatError naming the LSN of the first that is malformed."""
    n = len(offset)
    image_bytes, previous, data_offset, data_length = np.empty((4, n), np.int64)
    xid, toplevel_xid = np.empty((2, n), np.uint32)
    info, rmgr = np.empty((2, n), np.uint8)
    origin = np.empty(n, np.uint16)
    first_block = np.empty(n + 1, np.int64)
    # Few records refer to more than two blocks; to more than MAX_BLOCK_ID + 1 none can.
    for each in (_USUAL_BLOCKS, MAX_BLOCK_ID + 1):
        room = n * each
        record, image_offset, block_data_offset = np.empty((3, room), np.int64)
        block_id, fork, flags, image_info = np.empty((4, room), np.uint8)
        tablespace, database, relation = locator = np.empty((3, room), np.uint32)
        block = np.empty(room, np.uint32)
        image_length, hole_offset, hole_length, block_data_length = np.empty((4, room), np.int32)
        blocks, bad, why = _parse(
            buf, offset, length, previous, xid, info, rmgr, image_bytes, data_offset, data_length, toplevel_xid, origin,
            first_block, record, block_id, fork, flags, locator, block, image_offset, image_length, image_info,
            hole_offset, hole_length, block_data_offset, block_data_length,
        )  # fmt: skip
        if why != ALL_TAKEN:
            break
    if bad >= 0:
        raise _malformed(start, bad, why)
    refs = BlockRefs(
        record[:blocks], block_id[:blocks], fork[:blocks], flags[:blocks], tablespace[:blocks], database[:blocks],
        relation[:blocks], block[:blocks], image_offset[:blocks], image_length[:blocks], image_info[:blocks],
        hole_offset[:blocks], hole_length[:blocks], block_data_offset[:blocks], block_data_length[:blocks],
    )  # fmt: skip
    return WalRecords(
        buf, start, end, offset, length, previous, xid, info, rmgr, image_bytes, data_offset, data_length,
        toplevel_xid, origin, first_block, refs,
    )  # fmt: skip


def _malformed(start: NDArray[np.int64], index: int, why: int) -> FormatError:
    return FormatError(
        f"the WAL record at {Lsn(start[index])} is malformed: {REASONS[why]}",
        "check the source with pg_waldump; if it reads there, report this",
    )
