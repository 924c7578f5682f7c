"""What redo does to a page as a whole: begin it, put an item on it, close the gaps (``storage/page/bufpage.c``).

All kernels here take one page, uint8[PAGE_SIZE], whose header ``sound`` has looked at; they keep it sound.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from walshadow_core.api import Bytes
from walshadow_core.pgformat.heap import (
    FLAGS_AT,
    LINE_POINTER_SIZE,
    LOWER_AT,
    LP_FLAGS_SHIFT,
    LP_LENGTH_SHIFT,
    LP_NORMAL,
    LP_OFFSET_MASK,
    LP_UNUSED,
    LSN_HIGH_AT,
    LSN_LOW_AT,
    MAX_TUPLES_PER_PAGE,
    MIN_HOFF,
    PAGE_HEADER_SIZE,
    PAGE_SIZE,
    PAGE_SIZE_AND_VERSION,
    PAGESIZE_VERSION_AT,
    PD_ALL_VISIBLE,
    SPECIAL_AT,
    UPPER_AT,
    load16,
    load32,
)
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.words import copy_exactly, store16, store32

LP_FLAGS_MASK: Final = 3


@kernel
def copy(source: Bytes, first: int, target: Bytes, to: int, count: int) -> None:
    """Copy ``count`` bytes; the caller has checked the bounds, and that they don't overlap."""
    copy_exactly(source, np.uint64(first), target, np.uint64(to), np.uint64(count))


@kernel
def begin_page(page: Bytes) -> None:
    """PageInit of a heap page: nothing on it, no special space."""
    for k in range(PAGE_SIZE):
        page[k] = 0
    store16(page, LOWER_AT, PAGE_HEADER_SIZE)
    store16(page, UPPER_AT, PAGE_SIZE)
    store16(page, SPECIAL_AT, PAGE_SIZE)
    store16(page, PAGESIZE_VERSION_AT, PAGE_SIZE_AND_VERSION)


@kernel
def sound(page: Bytes) -> bool:
    """Whether the header's bounds are such that its line pointers, and what is between, lie on the page."""
    lower, upper, special = load16(page, LOWER_AT), load16(page, UPPER_AT), load16(page, SPECIAL_AT)
    whole = (lower - PAGE_HEADER_SIZE) % LINE_POINTER_SIZE == 0
    return bool(PAGE_HEADER_SIZE <= lower <= upper <= special <= PAGE_SIZE and whole)


@kernel
def set_lsn(page: Bytes, lsn: int) -> None:
    """PageSetLSN."""
    store32(page, LSN_HIGH_AT, (lsn >> 32) & 0xFFFFFFFF)
    store32(page, LSN_LOW_AT, lsn & 0xFFFFFFFF)


@kernel
def clear_all_visible(page: Bytes) -> None:
    """PageClearAllVisible."""
    store16(page, FLAGS_AT, load16(page, FLAGS_AT) & ~PD_ALL_VISIBLE)


@kernel
def line_count(page: Bytes) -> int:
    """PageGetMaxOffsetNumber."""
    return int((load16(page, LOWER_AT) - PAGE_HEADER_SIZE) // LINE_POINTER_SIZE)


@kernel
def pointer_at(offset: int) -> int:
    """Where the line pointer of that offset number is."""
    return int(PAGE_HEADER_SIZE + (offset - 1) * LINE_POINTER_SIZE)


@kernel
def set_pointer(page: Bytes, offset: int, flags: int, start: int, length: int) -> None:
    """Write a line pointer; the caller has checked that there is one of that offset number."""
    store32(page, pointer_at(offset), start | flags << LP_FLAGS_SHIFT | length << LP_LENGTH_SHIFT)


@kernel
def pointer_flags(page: Bytes, offset: int) -> int:
    """LP_* of a line pointer; -1 if the page has none of that offset number."""
    if offset < 1 or offset > line_count(page):
        return -1
    return int((load32(page, pointer_at(offset)) >> LP_FLAGS_SHIFT) & LP_FLAGS_MASK)


@kernel
def find_tuple(page: Bytes, offset: int) -> tuple[int, int]:
    """(where the tuple of that offset number begins, its length); (-1, 0) if there is none, or not on the page."""
    if pointer_flags(page, offset) != LP_NORMAL:
        return -1, 0
    pointer = load32(page, pointer_at(offset))
    start, length = pointer & LP_OFFSET_MASK, pointer >> LP_LENGTH_SHIFT
    if start < PAGE_HEADER_SIZE or length < MIN_HOFF or start + length > PAGE_SIZE:
        return -1, 0
    return int(start), int(length)


@kernel
def place_item(page: Bytes, offset: int, length: int) -> int:
    """PageAddItem under an offset number that is unused, or the first one that there is not yet: where the item's
    bytes go; -1 if that can't be."""
    lines = line_count(page)
    if offset < 1 or offset > lines + 1 or offset > MAX_TUPLES_PER_PAGE or length < MIN_HOFF:
        return -1
    lower = load16(page, LOWER_AT)
    if offset == lines + 1:
        lower += LINE_POINTER_SIZE
    elif pointer_flags(page, offset) != LP_UNUSED:
        return -1
    start = load16(page, UPPER_AT) - ((length + 7) & ~7)
    if start < lower:
        return -1
    store16(page, LOWER_AT, lower)
    store16(page, UPPER_AT, start)
    set_pointer(page, offset, LP_NORMAL, start, length)
    return int(start)


@kernel
def close_gaps(page: Bytes, scratch: Bytes) -> bool:
    """Move all tuples to the end of the page, so that what is free is in one piece; False if one is not on the page
    or they overlap. ``scratch`` has room for a page."""
    copy(page, 0, scratch, 0, PAGE_SIZE)
    special = load16(page, SPECIAL_AT)
    lower = load16(page, LOWER_AT)
    upper = special
    for offset in range(1, line_count(page) + 1):
        if pointer_flags(page, offset) != LP_NORMAL:
            continue
        start, length = find_tuple(scratch, offset)
        upper -= (length + 7) & ~7
        if start < 0 or start + length > special or upper < lower:
            return False
        copy(scratch, start, page, upper, length)
        set_pointer(page, offset, LP_NORMAL, upper, length)
    store16(page, UPPER_AT, upper)
    return True


@kernel
def cut_unused_lines(page: Bytes, keep: int) -> None:
    """Take the unused line pointers at the end away, but for the first ``keep``."""
    lines = line_count(page)
    while lines > keep and pointer_flags(page, lines) == LP_UNUSED:
        lines -= 1
        store16(page, LOWER_AT, PAGE_HEADER_SIZE + lines * LINE_POINTER_SIZE)
