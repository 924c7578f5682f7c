"""Heap pages and tuple headers (``storage/bufpage.h``, ``storage/itemid.h``, ``access/htup_details.h``).

`PageWalker` turns about 1 MiB of pages into arrays, one entry per stored tuple, with one kernel. It knows
nothing of the attributes behind a tuple header: that is decode's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Bytes, FormatError, TupleHeaders
from walshadow_core.pgformat.jit import kernel

# ----------------------------------------------------------------------------- pages (storage/bufpage.h)

PAGE_SIZE = 8192
"""BLCKSZ; clusters built with another block size are refused before a page is read."""
PAGE_LAYOUT_VERSION = 4
PAGE_SIZE_AND_VERSION = PAGE_SIZE | PAGE_LAYOUT_VERSION
"""pd_pagesize_version of every page of the majors we read."""
MAX_BLOCK = 0xFFFFFFFE
"""MaxBlockNumber (``storage/block.h``)."""

PD_HAS_FREE_LINES = 0x0001
PD_PAGE_FULL = 0x0002
PD_ALL_VISIBLE = 0x0004
PD_VALID_FLAG_BITS = 0x0007

PAGE_HEADER = np.dtype(
    [
        ("lsn_high", "<u4"),
        ("lsn_low", "<u4"),
        ("checksum", "<u2"),
        ("flags", "<u2"),
        ("lower", "<u2"),
        ("upper", "<u2"),
        ("special", "<u2"),
        ("pagesize_version", "<u2"),
        ("prune_xid", "<u4"),
    ]
)
"""PageHeaderData without its line pointers: 24 bytes."""
PAGE_HEADER_SIZE = 24
LINE_POINTER_SIZE = 4

LSN_HIGH_AT, LSN_LOW_AT, CHECKSUM_AT, FLAGS_AT = 0, 4, 8, 10
LOWER_AT, UPPER_AT, SPECIAL_AT, PAGESIZE_VERSION_AT, PRUNE_XID_AT = 12, 14, 16, 18, 20
"""Offsets of PageHeaderData's fields, for kernels."""

# -------------------------------------------------------------------- line pointers (storage/itemid.h)

LP_UNUSED, LP_NORMAL, LP_REDIRECT, LP_DEAD = 0, 1, 2, 3
"""Flags of a line pointer. A line pointer is lp_off (15 bits), flags (2 bits), lp_len (15 bits)."""
LP_OFFSET_MASK = 0x7FFF
LP_FLAGS_SHIFT = 15
LP_LENGTH_SHIFT = 17

FIRST_OFFSET_NUMBER = 1
MAX_TUPLES_PER_PAGE = 291
"""MaxHeapTuplesPerPage: also the largest number of line pointers of a heap page."""
SPECULATIVE_OFFSET = 0xFFFE
"""SpecTokenOffsetNumber: ip_posid of t_ctid while an insertion is speculative."""
MOVED_PARTITIONS_OFFSET = 0xFFFD
"""MovedPartitionsOffsetNumber: ip_posid of t_ctid of a row that moved to another partition."""

# ------------------------------------------------------------- tuple headers (access/htup_details.h)

TUPLE_HEADER = np.dtype(
    [
        ("xmin", "<u4"),
        ("xmax", "<u4"),
        ("field3", "<u4"),
        ("ctid_block_high", "<u2"),
        ("ctid_block_low", "<u2"),
        ("ctid_offset", "<u2"),
        ("infomask2", "<u2"),
        ("infomask", "<u2"),
        ("hoff", "u1"),
    ]
)
"""HeapTupleHeaderData up to t_bits: 23 bytes, unpadded."""
TUPLE_HEADER_SIZE = 23
"""SizeofHeapTupleHeader; the null bitmap, where there is one, starts right behind."""
MIN_HOFF = 24
"""MAXALIGN(SizeofHeapTupleHeader): the smallest t_hoff, and the smallest lp_len of a tuple."""
XMIN_AT, XMAX_AT, FIELD3_AT, CTID_BLOCK_AT, CTID_OFFSET_AT = 0, 4, 8, 12, 16
INFOMASK2_AT, INFOMASK_AT, HOFF_AT, BITS_AT = 18, 20, 22, 23
"""Offsets of HeapTupleHeaderData's fields, for kernels."""

HEAP_HASNULL = 0x0001
HEAP_HASVARWIDTH = 0x0002
HEAP_HASEXTERNAL = 0x0004
HEAP_HASOID_OLD = 0x0008
HEAP_XMAX_KEYSHR_LOCK = 0x0010
HEAP_COMBOCID = 0x0020
HEAP_XMAX_EXCL_LOCK = 0x0040
HEAP_XMAX_LOCK_ONLY = 0x0080
HEAP_XMAX_SHR_LOCK = HEAP_XMAX_EXCL_LOCK | HEAP_XMAX_KEYSHR_LOCK
HEAP_LOCK_MASK = HEAP_XMAX_SHR_LOCK | HEAP_XMAX_EXCL_LOCK | HEAP_XMAX_KEYSHR_LOCK
HEAP_XMIN_COMMITTED = 0x0100
HEAP_XMIN_INVALID = 0x0200
HEAP_XMIN_FROZEN = HEAP_XMIN_COMMITTED | HEAP_XMIN_INVALID
HEAP_XMAX_COMMITTED = 0x0400
HEAP_XMAX_INVALID = 0x0800
HEAP_XMAX_IS_MULTI = 0x1000
HEAP_UPDATED = 0x2000
HEAP_MOVED_OFF = 0x4000
HEAP_MOVED_IN = 0x8000
HEAP_MOVED = HEAP_MOVED_OFF | HEAP_MOVED_IN
"""Bits of t_infomask."""

HEAP_NATTS_MASK = 0x07FF
HEAP_KEYS_UPDATED = 0x2000
HEAP_HOT_UPDATED = 0x4000
HEAP_ONLY_TUPLE = 0x8000
"""Bits of t_infomask2."""

# --------------------------------------------------------------------------------------- what a walk gives


@dataclass(frozen=True, slots=True)
class TupleData:
    """Where the attributes of n tuples are in a byte buffer.

    Offsets count from the start of the buffer. ``data_start`` is the first attribute's (tuple + t_hoff),
    ``bitmap_start`` the null bitmap's (meaningful where ``has_nulls`` is 1), ``end`` is one past the tuple's
    last byte, ``natts`` the number of attributes that are stored.
    """

    data_start: NDArray[np.int32]
    bitmap_start: NDArray[np.int32]
    natts: NDArray[np.int32]
    has_nulls: NDArray[np.uint8]
    end: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.data_start)

    def take(self, index: NDArray[Any]) -> TupleData:
        """The tuples of ``index`` (integers, or bool[n]), copied."""
        return TupleData(
            self.data_start[index], self.bitmap_start[index], self.natts[index], self.has_nulls[index],
            self.end[index],
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class PageDamage:
    """A page that is not what the format says, and why. No tuple of it is given."""

    block: int
    reason: str


@dataclass(frozen=True, slots=True)
class PageWalk:
    """The stored tuples (LP_NORMAL) of a stretch of pages, in block and offset number order.

    The arrays are views on the walker's scratch: valid until its next walk. ``start`` is the offset of each
    tuple's header in the buffer. ``max_lsn`` is the largest pd_lsn of the undamaged pages, 0 for none.
    ``empty_pages`` counts pages that were never initialised (all zero).
    """

    start: NDArray[np.int32]
    data: TupleData
    headers: TupleHeaders
    block: NDArray[np.uint32]
    offnum: NDArray[np.uint16]
    max_lsn: int
    pages: int
    empty_pages: int
    damage: tuple[PageDamage, ...]

    def __len__(self) -> int:
        return len(self.start)


# -------------------------------------------------------------------------------------------- the kernel

_SOUND = 0
_BAD_VERSION = 1
_BAD_FLAGS = 2
_BAD_BOUNDS = 3
_BAD_SPECIAL = 4
_TOO_MANY_LINES = 5
_NEW_NOT_ZERO = 6
_TUPLE_OUTSIDE = 7
_TUPLE_UNALIGNED = 8
_TUPLE_SHORT = 9
_BAD_HOFF = 10
_BITMAP_OUTSIDE = 11

_REASONS = {
    _BAD_VERSION: "page size or layout version is not that of an 8 KiB page of version 4",
    _BAD_FLAGS: "unknown flag bits in the page header",
    _BAD_BOUNDS: "page header's bounds of the free space make no sense",
    _BAD_SPECIAL: "has a special space, which heap pages have not",
    _TOO_MANY_LINES: "more line pointers than a heap page can have",
    _NEW_NOT_ZERO: "not initialised and yet not all zero",
    _TUPLE_OUTSIDE: "points outside the page's tuple space",
    _TUPLE_UNALIGNED: "points to an unaligned tuple",
    _TUPLE_SHORT: "shorter than a tuple header",
    _BAD_HOFF: "the tuple's header size (t_hoff) makes no sense",
    _BITMAP_OUTSIDE: "the tuple's null bitmap does not fit its header",
}


# Kernels index with unsigned integers where it is hot: a signed index is looked at for being negative, at every
# access, and that halved the walk's speed. (uint64 and int64 must not be mixed: Numba makes float64 of it.)
_ONE, _TWO, _THREE = np.uint64(1), np.uint64(2), np.uint64(3)


@kernel
def load16(buf: Bytes, at: int) -> int:
    """The little-endian uint16 at a byte offset, as int64. The caller has checked the bounds."""
    i = np.uint64(at)
    return int(np.int64(buf[i]) | (np.int64(buf[i + _ONE]) << 8))


@kernel
def load32(buf: Bytes, at: int) -> int:
    """The little-endian uint32 at a byte offset, as int64. The caller has checked the bounds."""
    i = np.uint64(at)
    return int(
        np.int64(buf[i])
        | (np.int64(buf[i + _ONE]) << 8)
        | (np.int64(buf[i + _TWO]) << 16)
        | (np.int64(buf[i + _THREE]) << 24)
    )


@kernel
def _check_page_header(pages: Bytes, base: int) -> int:
    """_SOUND, or what is wrong with the header of the (not new) page at ``base``."""
    if load16(pages, base + PAGESIZE_VERSION_AT) != PAGE_SIZE_AND_VERSION:
        return _BAD_VERSION
    if load16(pages, base + FLAGS_AT) & ~PD_VALID_FLAG_BITS:
        return _BAD_FLAGS
    lower = load16(pages, base + LOWER_AT)
    upper = load16(pages, base + UPPER_AT)
    special = load16(pages, base + SPECIAL_AT)
    if special > PAGE_SIZE or upper > special or lower > upper or lower < PAGE_HEADER_SIZE or lower & 3:
        return _BAD_BOUNDS
    if special != PAGE_SIZE:
        return _BAD_SPECIAL
    if lower > PAGE_HEADER_SIZE + LINE_POINTER_SIZE * MAX_TUPLES_PER_PAGE:
        return _TOO_MANY_LINES
    return _SOUND


@kernel
def _all_zero(pages: Bytes, base: int) -> bool:
    total = np.uint8(0)
    for i in range(base, base + PAGE_SIZE):
        total |= pages[i]
    return bool(total == 0)


@kernel
def _walk_pages(
    pages: Bytes,
    first_block: int,
    start: NDArray[np.int32],
    data_start: NDArray[np.int32],
    bitmap_start: NDArray[np.int32],
    natts: NDArray[np.int32],
    has_nulls: NDArray[np.uint8],
    end: NDArray[np.int32],
    xmin: NDArray[np.uint32],
    xmax: NDArray[np.uint32],
    infomask: NDArray[np.uint16],
    infomask2: NDArray[np.uint16],
    ctid_offset: NDArray[np.uint16],
    block: NDArray[np.uint32],
    offnum: NDArray[np.uint16],
    damage: NDArray[np.int32],
) -> tuple[int, int, int, np.uint64]:
    """Fill the arrays with the tuples of whole pages; ``damage`` gets (page index, reason, offset number).

    Gives (tuples, new pages, damaged pages, max LSN). The arrays hold MAX_TUPLES_PER_PAGE entries per page.
    """
    n = 0
    new_pages = 0
    damaged = 0
    max_lsn = np.uint64(0)
    for page in range(len(pages) // PAGE_SIZE):
        base = page * PAGE_SIZE
        upper = load16(pages, base + UPPER_AT)
        problem = _SOUND
        line = 0
        if upper == 0:
            if _all_zero(pages, base):
                new_pages += 1
                continue
            problem = _NEW_NOT_ZERO
        else:
            problem = _check_page_header(pages, base)
        first = n
        if problem == _SOUND:
            lines = (load16(pages, base + LOWER_AT) - PAGE_HEADER_SIZE) // LINE_POINTER_SIZE
            for line in range(1, lines + 1):
                pointer = load32(pages, base + PAGE_HEADER_SIZE + (line - 1) * LINE_POINTER_SIZE)
                if (pointer >> LP_FLAGS_SHIFT) & 3 != LP_NORMAL:
                    continue
                offset = pointer & LP_OFFSET_MASK
                length = pointer >> LP_LENGTH_SHIFT
                if offset < upper or offset + length > PAGE_SIZE:
                    problem = _TUPLE_OUTSIDE
                    break
                if offset & 7:
                    problem = _TUPLE_UNALIGNED
                    break
                if length < MIN_HOFF:
                    problem = _TUPLE_SHORT
                    break
                at = base + offset
                mask = load16(pages, at + INFOMASK_AT)
                mask2 = load16(pages, at + INFOMASK2_AT)
                attributes = mask2 & HEAP_NATTS_MASK
                hoff = int(np.int64(pages[at + HOFF_AT]))
                if hoff < MIN_HOFF or hoff & 7 or hoff > length:
                    problem = _BAD_HOFF
                    break
                if mask & HEAP_HASNULL and TUPLE_HEADER_SIZE + ((attributes + 7) >> 3) > hoff:
                    problem = _BITMAP_OUTSIDE
                    break
                row = np.uint64(n)
                start[row] = at
                data_start[row] = at + hoff
                bitmap_start[row] = at + BITS_AT
                natts[row] = attributes
                has_nulls[row] = mask & HEAP_HASNULL
                end[row] = at + length
                xmin[row] = load32(pages, at + XMIN_AT)
                xmax[row] = load32(pages, at + XMAX_AT)
                infomask[row] = mask
                infomask2[row] = mask2
                ctid_offset[row] = load16(pages, at + CTID_OFFSET_AT)
                block[row] = first_block + page
                offnum[row] = line
                n += 1
        if problem != _SOUND:
            n = first
            damage[damaged, 0] = page
            damage[damaged, 1] = problem
            damage[damaged, 2] = line
            damaged += 1
            continue
        high, low = load32(pages, base + LSN_HIGH_AT), load32(pages, base + LSN_LOW_AT)
        max_lsn = max(max_lsn, (np.uint64(high) << np.uint64(32)) | np.uint64(low))
    return n, new_pages, damaged, max_lsn


class PageWalker:
    """Walks heap pages, at most ``max_pages`` at a time, into scratch arrays of its own. One per thread."""

    def __init__(self, max_pages: int = 128) -> None:
        n = max_pages * MAX_TUPLES_PER_PAGE
        self.max_pages = max_pages
        self._data = TupleData(
            data_start=np.empty(n, np.int32),
            bitmap_start=np.empty(n, np.int32),
            natts=np.empty(n, np.int32),
            has_nulls=np.empty(n, np.uint8),
            end=np.empty(n, np.int32),
        )
        self._headers = TupleHeaders(
            xmin=np.empty(n, np.uint32),
            xmax=np.empty(n, np.uint32),
            infomask=np.empty(n, np.uint16),
            infomask2=np.empty(n, np.uint16),
            ctid_offset=np.empty(n, np.uint16),
        )
        self._start = np.empty(n, np.int32)
        self._block = np.empty(n, np.uint32)
        self._offnum = np.empty(n, np.uint16)
        self._damage = np.empty((max_pages, 3), np.int32)

    def walk(self, pages: Bytes, first_block: int) -> PageWalk:
        """The stored tuples of ``pages``, the first of which is block ``first_block`` of its relation.

        A damaged page gives no tuples and an entry in ``damage``. Raises FormatError where the buffer does not
        end with a page's end or the block numbers are past the largest, ValueError for more than ``max_pages``.
        """
        count, rest = divmod(len(pages), PAGE_SIZE)
        if rest:
            raise FormatError(f"block {first_block + count} is truncated: {rest} of {PAGE_SIZE} bytes")
        if count > self.max_pages:
            raise ValueError(f"{count} pages for a walker of {self.max_pages}")
        if first_block < 0 or first_block + count > MAX_BLOCK + 1:
            raise FormatError(f"blocks {first_block} and up are past the largest block number")
        data, headers = self._data, self._headers
        n, empty, damaged, max_lsn = _walk_pages(
            pages, first_block, self._start, data.data_start, data.bitmap_start, data.natts, data.has_nulls,
            data.end, headers.xmin, headers.xmax, headers.infomask, headers.infomask2, headers.ctid_offset,
            self._block, self._offnum, self._damage,
        )  # fmt: skip
        return PageWalk(
            start=self._start[:n],
            data=TupleData(
                data.data_start[:n], data.bitmap_start[:n], data.natts[:n], data.has_nulls[:n], data.end[:n]
            ),
            headers=TupleHeaders(
                headers.xmin[:n], headers.xmax[:n], headers.infomask[:n], headers.infomask2[:n],
                headers.ctid_offset[:n],
            ),
            block=self._block[:n],
            offnum=self._offnum[:n],
            max_lsn=int(max_lsn),
            pages=count,
            empty_pages=int(empty),
            damage=tuple(
                _describe(first_block + int(page), int(reason), int(line))
                for page, reason, line in self._damage[:damaged]
            ),
        )  # fmt: skip


def _describe(block: int, reason: int, line: int) -> PageDamage:
    text = _REASONS[reason]
    return PageDamage(block, f"line pointer {line}: {text}" if reason >= _TUPLE_OUTSIDE else text)
