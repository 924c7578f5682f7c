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
    longs: NDArray[np.int64],
    words: NDArray[np.uint32],
    octets: NDArray[np.uint8],
    origin: NDArray[np.uint16],
    block_longs: NDArray[np.int64],
    block_words: NDArray[np.uint32],
    block_ints: NDArray[np.int32],
    block_octets: NDArray[np.uint8],
) -> tuple[int, int, int]:
    """Fill the arrays, each of the columns of one type: (count of block references, index of the first bad record or
    -1, why). With ALL_TAKEN, those of block references are too short for the record of that index."""
    previous, image_bytes, data_offset, data_length, first_block = longs[0], longs[1], longs[2], longs[3], longs[4]
    xid, toplevel_xid, info, rmgr = words[0], words[1], octets[0], octets[1]
    record, image_offset, block_data_offset = block_longs[0], block_longs[1], block_longs[2]
    tablespace, database, relation, block = block_words[0], block_words[1], block_words[2], block_words[3]
    image_length, hole_offset, hole_length = block_ints[0], block_ints[1], block_ints[2]
    block_data_length = block_ints[3]
    block_id, fork, block_flags, image_info = block_octets[0], block_octets[1], block_octets[2], block_octets[3]
    # What few records have is cleared at one go.
    image_bytes[:] = 0
    toplevel_xid[:] = 0
    origin[:] = 0
    image_length[:] = 0
    hole_offset[:] = 0
    hole_length[:] = 0
    image_info[:] = 0
    b = 0
    room = len(record)
    for i in range(len(offset)):
        r = np.uint64(i)
        first = b
        first_block[r] = b
        at = int(offset[r])
        stop = at + int(length[r])
        previous[r] = load64s(buf, at + RECORD_PREV_AT)
        xid[r] = load32(buf, at + RECORD_XID_AT)
        info[r] = buf[np.uint64(at + RECORD_INFO_AT)]
        rmgr[r] = buf[np.uint64(at + RECORD_RMID_AT)]
        at += RECORD_HEADER
        contents = 0
        main = 0
        last_id = -1
        while stop - at > contents:
            left = stop - at
            sort = int(buf[np.uint64(at)])
            if sort == DATA_SHORT:
                if left < 2:
                    return b, i, OUTSIDE
                main = int(buf[np.uint64(at + 1)])
                contents += main
                at += 2
                break
            if sort == DATA_LONG:
                if left < 5:
                    return b, i, OUTSIDE
                main = load32(buf, at + 1)
                contents += main
                at += 5
                break
            if sort == ORIGIN:
                if left < 3:
                    return b, i, OUTSIDE
                origin[r] = load16(buf, at + 1)
                at += 3
                continue
            if sort == TOPLEVEL_XID:
                if left < 5:
                    return b, i, OUTSIDE
                toplevel_xid[r] = load32(buf, at + 1)
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
                image_bytes[r] += size
                contents += size
            if flags & SAME_REL == 0:
                if stop - at < LOCATOR_SIZE:
                    return b, i, OUTSIDE
                tablespace[u] = load32(buf, at)
                database[u] = load32(buf, at + 4)
                relation[u] = load32(buf, at + 8)
                at += LOCATOR_SIZE
            elif b == first:
                return b, i, NO_LOCATOR
            else:
                known = u - np.uint64(1)
                tablespace[u] = tablespace[known]
                database[u] = database[known]
                relation[u] = relation[known]
            if stop - at < 4:
                return b, i, OUTSIDE
            block[u] = load32(buf, at)
            at += 4
            b += 1
        if at + contents != stop:
            return b, i, BAD_DATA
        for k in range(first, b):
            u = np.uint64(k)
            image_offset[u] = block_data_offset[u] = -1
            if image_length[u] > 0:
                image_offset[u] = at
                at += image_length[u]
            if block_data_length[u] > 0:
                block_data_offset[u] = at
                at += block_data_length[u]
        data_offset[r] = at
        data_length[r] = main
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
    # One array for all columns of a type: making an array takes as long as parsing some dozens of records.
    longs = np.empty((5, n + 1), np.int64)
    words = np.empty((2, n), np.uint32)
    octets = np.empty((2, n), np.uint8)
    origin = np.empty(n, np.uint16)
    # Few records refer to more than two blocks; to more than MAX_BLOCK_ID + 1 none can.
    for each in (_USUAL_BLOCKS, MAX_BLOCK_ID + 1):
        room = n * each
        block_longs = np.empty((3, room), np.int64)
        block_words = np.empty((4, room), np.uint32)
        block_ints = np.empty((4, room), np.int32)
        block_octets = np.empty((4, room), np.uint8)
        b, bad, why = _parse(
            buf, offset, length, longs, words, octets, origin, block_longs, block_words, block_ints, block_octets
        )
        if why != ALL_TAKEN:
            break
    if bad >= 0:
        raise _malformed(start, bad, why)
    refs = BlockRefs(
        record=block_longs[0, :b], block_id=block_octets[0, :b], fork=block_octets[1, :b], flags=block_octets[2, :b],
        tablespace=block_words[0, :b], database=block_words[1, :b], relation=block_words[2, :b],
        block=block_words[3, :b], image_offset=block_longs[1, :b], image_length=block_ints[0, :b],
        image_info=block_octets[3, :b], hole_offset=block_ints[1, :b], hole_length=block_ints[2, :b],
        data_offset=block_longs[2, :b], data_length=block_ints[3, :b],
    )  # fmt: skip
    return WalRecords(
        buf=buf, start=start, end=end, offset=offset, length=length, previous=longs[0, :n], xid=words[0],
        info=octets[0], rmgr=octets[1], image_bytes=longs[1, :n], data_offset=longs[2, :n], data_length=longs[3, :n],
        toplevel_xid=words[1], origin=origin, first_block=longs[4], blocks=refs,
    )  # fmt: skip


def _malformed(start: NDArray[np.int64], index: int, why: int) -> FormatError:
    return FormatError(
        f"the WAL record at {Lsn(start[index])} is malformed: {REASONS[why]}",
        "check the source with pg_waldump; if it reads there, report this",
    )
