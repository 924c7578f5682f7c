"""One heap page, field by field, for people and for tests: nothing is skipped, and nothing is believed.

The walk of a load (`heap.PageWalker`) takes stored tuples alone and refuses a page that is damaged; here every line
pointer is shown, whatever it points at, as far as it lies on the page.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from walshadow_core.api import Lsn
from walshadow_core.pgformat import heap
from walshadow_core.pgformat.checksum import page_checksums
from walshadow_core.pgformat.heap import PAGE_HEADER, PAGE_SIZE, TUPLE_HEADER, PageWalker

_PAGE_FLAGS = ("PD_HAS_FREE_LINES", "PD_PAGE_FULL", "PD_ALL_VISIBLE")
_LINE_STATES = ("unused", "normal", "redirect", "dead")
_INFOMASK_FLAGS = (
    "HEAP_HASNULL", "HEAP_HASVARWIDTH", "HEAP_HASEXTERNAL", "HEAP_HASOID_OLD", "HEAP_XMAX_KEYSHR_LOCK",
    "HEAP_COMBOCID", "HEAP_XMAX_EXCL_LOCK", "HEAP_XMAX_LOCK_ONLY", "HEAP_XMIN_COMMITTED", "HEAP_XMIN_INVALID",
    "HEAP_XMAX_COMMITTED", "HEAP_XMAX_INVALID", "HEAP_XMAX_IS_MULTI", "HEAP_UPDATED", "HEAP_MOVED_OFF",
    "HEAP_MOVED_IN",
)  # fmt: skip
_INFOMASK2_FLAGS = ("HEAP_KEYS_UPDATED", "HEAP_HOT_UPDATED", "HEAP_ONLY_TUPLE")


@dataclass(frozen=True, slots=True)
class HeaderView:
    """PageHeaderData. ``page_size`` and ``version`` are pd_pagesize_version's two parts."""

    lsn: Lsn
    checksum: int
    flags: int
    lower: int
    upper: int
    special: int
    page_size: int
    version: int
    prune_xid: int

    @property
    def flag_names(self) -> tuple[str, ...]:
        """The names of the flags that are set."""
        return _names(self.flags, _PAGE_FLAGS)


@dataclass(frozen=True, slots=True)
class TupleView:
    """HeapTupleHeaderData. ``field3`` is a command id, or that of a VACUUM FULL of old; ``ctid`` is (block, offset
    number); ``bits`` the null bitmap as pageinspect shows it (1: there is a value), None if there is none."""

    xmin: int
    xmax: int
    field3: int
    ctid: tuple[int, int]
    infomask2: int
    infomask: int
    hoff: int
    bits: str | None

    @property
    def attributes(self) -> int:
        """How many attributes are stored."""
        return self.infomask2 & heap.HEAP_NATTS_MASK

    @property
    def flag_names(self) -> tuple[str, ...]:
        """The names of the bits of both masks, as ``access/htup_details.h`` has them."""
        return (*_names(self.infomask, _INFOMASK_FLAGS), *_names(self.infomask2 >> 13, _INFOMASK2_FLAGS))


@dataclass(frozen=True, slots=True)
class LineView:
    """A line pointer: ItemIdData. ``offset`` of a redirect is another line pointer's number. ``tuple`` is what a normal
    one points at, None if that is not on the page."""

    number: int
    state: str
    offset: int
    length: int
    tuple: TupleView | None = None


@dataclass(frozen=True, slots=True)
class PageView:
    """A page. ``problems`` says what is wrong with it; ``new``: it was never initialised. ``right_checksum`` is what
    its checksum should be if the cluster has them."""

    block: int
    header: HeaderView
    lines: tuple[LineView, ...]
    new: bool
    right_checksum: int
    problems: tuple[str, ...]


def view_page(page: bytes, block: int) -> PageView:
    """Look at 8 KiB. ``block`` is the block number in the relation, which the checksum depends on. A stored checksum
    of 0 is taken for none: clusters without checksums have that."""
    if len(page) != PAGE_SIZE:
        raise ValueError(f"a page has {PAGE_SIZE} bytes, not {len(page)}")
    array = np.frombuffer(bytearray(page), np.uint8)
    walk = PageWalker(max_pages=1).walk(array, block)
    header = _header(page)
    new = walk.empty_pages == 1
    right = 0 if header.upper == 0 else int(page_checksums(array, block)[0])
    problems = [damage.reason for damage in walk.damage]
    if header.checksum and header.upper and header.checksum != right:
        problems.append(f"its checksum is {header.checksum:#06x} and should be {right:#06x}")
    return PageView(block, header, _lines(page, header.lower), new, right, tuple(problems))


def _header(page: bytes) -> HeaderView:
    raw = np.frombuffer(page, PAGE_HEADER, count=1)[0]
    size_and_version = int(raw["pagesize_version"])
    return HeaderView(
        lsn=Lsn(int(raw["lsn_high"]) << 32 | int(raw["lsn_low"])),
        checksum=int(raw["checksum"]),
        flags=int(raw["flags"]),
        lower=int(raw["lower"]),
        upper=int(raw["upper"]),
        special=int(raw["special"]),
        page_size=size_and_version & 0xFF00,
        version=size_and_version & 0xFF,
        prune_xid=int(raw["prune_xid"]),
    )


def _lines(page: bytes, lower: int) -> tuple[LineView, ...]:
    count = max(0, (min(lower, PAGE_SIZE) - heap.PAGE_HEADER_SIZE) // heap.LINE_POINTER_SIZE)
    pointers = np.frombuffer(page, "<u4", count, heap.PAGE_HEADER_SIZE).tolist()
    return tuple(_line(page, number, pointer) for number, pointer in enumerate(pointers, 1))


def _line(page: bytes, number: int, pointer: int) -> LineView:
    offset = pointer & heap.LP_OFFSET_MASK
    length = pointer >> heap.LP_LENGTH_SHIFT
    state = pointer >> heap.LP_FLAGS_SHIFT & 3
    there = state == heap.LP_NORMAL and length >= heap.TUPLE_HEADER_SIZE and offset + length <= PAGE_SIZE
    found = _tuple(page[offset : offset + length]) if there else None
    return LineView(number, _LINE_STATES[state], offset, length, found)


def _tuple(data: bytes) -> TupleView:
    raw = np.frombuffer(data, TUPLE_HEADER, count=1)[0]
    infomask, infomask2 = int(raw["infomask"]), int(raw["infomask2"])
    bits = None
    if infomask & heap.HEAP_HASNULL:
        bitmap = data[heap.BITS_AT : heap.BITS_AT + ((infomask2 & heap.HEAP_NATTS_MASK) + 7) // 8]
        bits = "".join(f"{byte:08b}"[::-1] for byte in bitmap)
    return TupleView(
        xmin=int(raw["xmin"]),
        xmax=int(raw["xmax"]),
        field3=int(raw["field3"]),
        ctid=(int(raw["ctid_block_high"]) << 16 | int(raw["ctid_block_low"]), int(raw["ctid_offset"])),
        infomask2=infomask2,
        infomask=infomask,
        hoff=int(raw["hoff"]),
        bits=bits,
    )


def _names(mask: int, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for bit, name in enumerate(names) if mask >> bit & 1)
