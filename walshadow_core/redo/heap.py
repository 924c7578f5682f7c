"""Heap records on pages (``access/heapam_xlog.h``, the heap_xlog_* functions): a kernel per record.

Each gets a page that is there and sound, and the part of the record that concerns it, ``buf[at : at + size]``; it gives
0 or why it can't be done. Names of fields are those of the xl_heap_* structs.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from walshadow_core.api import Bytes
from walshadow_core.pgformat.heap import (
    BITS_AT,
    CTID_BLOCK_AT,
    CTID_OFFSET_AT,
    FIELD3_AT,
    HEAP_COMBOCID,
    HEAP_HOT_UPDATED,
    HEAP_KEYS_UPDATED,
    HEAP_LOCK_MASK,
    HEAP_MOVED,
    HEAP_XMAX_COMMITTED,
    HEAP_XMAX_EXCL_LOCK,
    HEAP_XMAX_INVALID,
    HEAP_XMAX_IS_MULTI,
    HEAP_XMAX_KEYSHR_LOCK,
    HEAP_XMAX_LOCK_ONLY,
    HOFF_AT,
    INFOMASK2_AT,
    INFOMASK_AT,
    MIN_HOFF,
    MOVED_PARTITIONS_OFFSET,
    PAGE_SIZE,
    TUPLE_HEADER_SIZE,
    XMAX_AT,
    XMIN_AT,
    load16,
    load32,
)
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.words import store16, store32
from walshadow_core.redo.pages import clear_all_visible, copy, find_tuple, place_item

DONE: Final = 0
NO_PAGE: Final = 1
BAD_PAGE: Final = 2
NO_TUPLE: Final = 3
NO_SPACE: Final = 4
SHORT: Final = 5
BAD_TUPLE: Final = 6
BAD_IMAGE: Final = 7
UNKNOWN: Final = 8
REASONS: Final = {
    NO_PAGE: "it changes a page that no image came for: was full_page_writes off?",
    BAD_PAGE: "it changes a page whose header makes no sense",
    NO_TUPLE: "it changes a tuple that is not there",
    NO_SPACE: "it adds a tuple where there is no room for it",
    SHORT: "it is shorter than its kind",
    BAD_TUPLE: "its tuple makes no sense",
    BAD_IMAGE: "its page image can't be restored",
    UNKNOWN: "it is of a kind that nobody knows",
}
"""Why a record can't be applied."""

XMAX_BITS: Final = HEAP_XMAX_COMMITTED | HEAP_XMAX_INVALID | HEAP_XMAX_IS_MULTI | HEAP_LOCK_MASK | HEAP_XMAX_LOCK_ONLY

XMAX_IS_MULTI, XMAX_LOCK_ONLY, XMAX_EXCL_LOCK, XMAX_KEYSHR_LOCK, KEYS_UPDATED = 0x01, 0x02, 0x04, 0x08, 0x10
"""XLHL_*: infobits_set."""

ALL_VISIBLE_CLEARED: Final = 0x01
"""Of insert, multi_insert, delete, and of an update's old page."""
NEW_ALL_VISIBLE_CLEARED, PREFIX_FROM_OLD, SUFFIX_FROM_OLD = 0x02, 0x20, 0x40
"""XLH_UPDATE_*."""
DELETE_IS_SUPER, DELETE_IS_PARTITION_MOVE = 0x08, 0x10
"""XLH_DELETE_*."""

INSERT_SIZE, DELETE_SIZE, UPDATE_SIZE, LOCK_SIZE, MULTI_INSERT_SIZE = 3, 8, 14, 8, 4
HEADER_SIZE: Final = 5
"""SizeOfHeapHeader: t_infomask2, t_infomask, t_hoff."""
MULTI_HEADER_SIZE: Final = 7
"""SizeOfMultiInsertTuple: datalen before these."""

FIRST_COMMAND: Final = 0
INVALID_XID: Final = 0
INVALID_BLOCK: Final = 0xFFFFFFFF


@kernel
def set_ctid(page: Bytes, at: int, block: int, offset: int) -> None:
    """t_ctid of the tuple at ``at``."""
    store16(page, at + CTID_BLOCK_AT, (block >> 16) & 0xFFFF)
    store16(page, at + CTID_BLOCK_AT + 2, block & 0xFFFF)
    store16(page, at + CTID_OFFSET_AT, offset)


@kernel
def set_xmax(page: Bytes, at: int, xmax: int, infobits: int, unhot: bool, command: bool) -> None:
    """A new xmax with what ``infobits`` says of it; ``unhot`` takes HEAP_HOT_UPDATED away, ``command`` sets cmax."""
    infomask = load16(page, at + INFOMASK_AT) & ~(XMAX_BITS | HEAP_MOVED)
    infomask2 = load16(page, at + INFOMASK2_AT) & ~HEAP_KEYS_UPDATED
    if unhot:
        infomask2 &= ~HEAP_HOT_UPDATED
    if infobits & XMAX_IS_MULTI != 0:
        infomask |= HEAP_XMAX_IS_MULTI
    if infobits & XMAX_LOCK_ONLY != 0:
        infomask |= HEAP_XMAX_LOCK_ONLY
    if infobits & XMAX_EXCL_LOCK != 0:
        infomask |= HEAP_XMAX_EXCL_LOCK
    if infobits & XMAX_KEYSHR_LOCK != 0:
        infomask |= HEAP_XMAX_KEYSHR_LOCK
    if infobits & KEYS_UPDATED != 0:
        infomask2 |= HEAP_KEYS_UPDATED
    if command:
        infomask &= ~HEAP_COMBOCID
        store32(page, at + FIELD3_AT, FIRST_COMMAND)
    store16(page, at + INFOMASK_AT, infomask)
    store16(page, at + INFOMASK2_AT, infomask2)
    store32(page, at + XMAX_AT, xmax)


@kernel
def put_tuple(
    page: Bytes, block: int, offset: int, buf: Bytes, header: int, data: int, size: int, prefix: int, suffix: int,
    old: int, xmin: int, xmax: int,
) -> int:  # fmt: skip
    """Put a tuple together: xl_heap_header at ``header`` of ``buf``, then ``size`` bytes at ``data`` (null bitmap and
    padding, then attributes), between them the first ``prefix`` bytes of the attributes of the tuple at ``old`` of the
    page, after them ``suffix`` bytes of its end, which is at ``old``'s length (in the caller's hands) behind."""
    hoff = int(buf[np.uint64(header + 4)])
    bits = hoff - BITS_AT
    if hoff < MIN_HOFF or bits > size:
        return BAD_TUPLE
    length = TUPLE_HEADER_SIZE + size + prefix + suffix
    if length > PAGE_SIZE:
        return BAD_TUPLE
    at = place_item(page, offset, length)
    if at < 0:
        return NO_SPACE
    store32(page, at + XMIN_AT, xmin)
    store32(page, at + XMAX_AT, xmax)
    store32(page, at + FIELD3_AT, FIRST_COMMAND)
    set_ctid(page, at, block, offset)
    store16(page, at + INFOMASK2_AT, load16(buf, header))
    store16(page, at + INFOMASK_AT, load16(buf, header + 2) & ~HEAP_COMBOCID)
    page[at + HOFF_AT] = np.uint8(hoff)
    to = at + BITS_AT
    copy(buf, data, page, to, bits)
    to += bits
    if prefix > 0:
        first = old + int(page[np.uint64(old + HOFF_AT)])
        copy(page, first, page, to, prefix)
        to += prefix
    rest = size - bits
    copy(buf, data + bits, page, to, rest)
    return DONE


@kernel
def insert(page: Bytes, block: int, xid: int, buf: Bytes, main: int, main_size: int, at: int, size: int) -> int:
    """xl_heap_insert at ``main``, the tuple at ``at``."""
    if main_size < INSERT_SIZE or size < HEADER_SIZE:
        return SHORT
    wrong = put_tuple(
        page, block, load16(buf, main), buf, at, at + HEADER_SIZE, size - HEADER_SIZE, 0, 0, 0, xid, INVALID_XID
    )
    if int(buf[np.uint64(main + 2)]) & ALL_VISIBLE_CLEARED != 0:
        clear_all_visible(page)
    return wrong


@kernel
def multi_insert(
    page: Bytes, block: int, xid: int, begun: bool, buf: Bytes, main: int, main_size: int, at: int, size: int
) -> int:
    """xl_heap_multi_insert; a page that it begins (``begun``) gets its tuples in order, another one under the offset
    numbers that it names."""
    if main_size < MULTI_INSERT_SIZE:
        return SHORT
    count = load16(buf, main + 2)
    if not begun and main_size < MULTI_INSERT_SIZE + 2 * count:
        return SHORT
    stop = at + size
    first = at
    for k in range(count):
        # Aligned to 2 within the data, as SHORTALIGN of a pointer to it.
        at += (at - first) & 1
        if at + MULTI_HEADER_SIZE > stop:
            return SHORT
        length = load16(buf, at)
        if at + MULTI_HEADER_SIZE + length > stop:
            return SHORT
        offset = k + 1 if begun else load16(buf, main + MULTI_INSERT_SIZE + 2 * k)
        data = at + MULTI_HEADER_SIZE
        wrong = put_tuple(page, block, offset, buf, at + 2, data, length, 0, 0, 0, xid, INVALID_XID)
        if wrong != 0:
            return wrong
        at = data + length
    if int(buf[np.uint64(main)]) & ALL_VISIBLE_CLEARED != 0:
        clear_all_visible(page)
    return DONE if at == stop else SHORT


@kernel
def delete(page: Bytes, block: int, buf: Bytes, main: int, main_size: int) -> int:
    """xl_heap_delete."""
    if main_size < DELETE_SIZE:
        return SHORT
    xmax, offset = load32(buf, main), load16(buf, main + 4)
    infobits, flags = int(buf[np.uint64(main + 6)]), int(buf[np.uint64(main + 7)])
    at, _ = find_tuple(page, offset)
    if at < 0:
        return NO_TUPLE
    if flags & DELETE_IS_SUPER != 0:
        set_xmax(page, at, load32(page, at + XMAX_AT), infobits, True, True)
        store32(page, at + XMIN_AT, INVALID_XID)
    else:
        set_xmax(page, at, xmax, infobits, True, True)
    if flags & ALL_VISIBLE_CLEARED != 0:
        clear_all_visible(page)
    if flags & DELETE_IS_PARTITION_MOVE != 0:
        set_ctid(page, at, INVALID_BLOCK, MOVED_PARTITIONS_OFFSET)
    else:
        set_ctid(page, at, block, offset)
    return DONE


@kernel
def update_old(page: Bytes, new_block: int, hot: bool, buf: Bytes, main: int, main_size: int) -> int:
    """The old page's half of xl_heap_update."""
    if main_size < UPDATE_SIZE:
        return SHORT
    at, _ = find_tuple(page, load16(buf, main + 4))
    if at < 0:
        return NO_TUPLE
    set_xmax(page, at, load32(buf, main), int(buf[np.uint64(main + 6)]), not hot, True)
    if hot:
        store16(page, at + INFOMASK2_AT, load16(page, at + INFOMASK2_AT) | HEAP_HOT_UPDATED)
    set_ctid(page, at, new_block, load16(buf, main + 12))
    if int(buf[np.uint64(main + 7)]) & ALL_VISIBLE_CLEARED != 0:
        clear_all_visible(page)
    return DONE


@kernel
def update_new(
    page: Bytes, block: int, xid: int, same_page: bool, buf: Bytes, main: int, main_size: int, at: int, size: int
) -> int:
    """The new page's half of xl_heap_update; prefix and suffix come from the old tuple, on the same page."""
    if main_size < UPDATE_SIZE:
        return SHORT
    flags = int(buf[np.uint64(main + 7)])
    stop = at + size
    prefix = suffix = 0
    if flags & PREFIX_FROM_OLD != 0:
        if at + 2 > stop:
            return SHORT
        prefix = load16(buf, at)
        at += 2
    if flags & SUFFIX_FROM_OLD != 0:
        if at + 2 > stop:
            return SHORT
        suffix = load16(buf, at)
        at += 2
    if at + HEADER_SIZE > stop:
        return SHORT
    old = length = 0
    if prefix + suffix > 0:
        old, length = find_tuple(page, load16(buf, main + 4))
        if not same_page or old < 0:
            return NO_TUPLE
        attributes = length - int(page[np.uint64(old + HOFF_AT)])
        if prefix > attributes or suffix > attributes:
            return BAD_TUPLE
    offset = load16(buf, main + 12)
    data = at + HEADER_SIZE
    wrong = put_tuple(page, block, offset, buf, at, data, stop - data, prefix, suffix, old, xid, load32(buf, main + 8))
    if wrong != 0:
        return wrong
    if suffix > 0:
        new, new_length = find_tuple(page, offset)
        to = new + new_length - suffix
        first = old + length - suffix
        copy(page, first, page, to, suffix)
    if flags & NEW_ALL_VISIBLE_CLEARED != 0:
        clear_all_visible(page)
    return DONE


@kernel
def confirm(page: Bytes, block: int, buf: Bytes, main: int, main_size: int) -> int:
    """xl_heap_confirm: a speculative insertion stays."""
    if main_size < 2:
        return SHORT
    offset = load16(buf, main)
    at, _ = find_tuple(page, offset)
    if at < 0:
        return NO_TUPLE
    set_ctid(page, at, block, offset)
    return DONE


@kernel
def lock(page: Bytes, block: int, updated: bool, buf: Bytes, main: int, main_size: int) -> int:
    """xl_heap_lock, and xl_heap_lock_updated (``updated``), which leaves ctid and cmax alone."""
    if main_size < LOCK_SIZE:
        return SHORT
    offset = load16(buf, main + 4)
    at, _ = find_tuple(page, offset)
    if at < 0:
        return NO_TUPLE
    infobits = int(buf[np.uint64(main + 6)])
    # Without an updater the tuple ends its chain (HEAP_XMAX_IS_LOCKED_ONLY).
    kinds = infobits & (XMAX_IS_MULTI | XMAX_EXCL_LOCK | XMAX_KEYSHR_LOCK)
    alone = not updated and (infobits & XMAX_LOCK_ONLY != 0 or kinds == XMAX_EXCL_LOCK)
    set_xmax(page, at, load32(buf, main), infobits, alone, not updated)
    if alone:
        set_ctid(page, at, block, offset)
    return DONE


@kernel
def inplace(page: Bytes, buf: Bytes, main: int, main_size: int, at: int, size: int) -> int:
    """xl_heap_inplace: new bytes for all attributes, as many as before."""
    if main_size < 2:
        return SHORT
    start, length = find_tuple(page, load16(buf, main))
    if start < 0:
        return NO_TUPLE
    hoff = int(page[np.uint64(start + HOFF_AT)])
    if length - hoff != size:
        return BAD_TUPLE
    copy(buf, at, page, start + hoff, size)
    return DONE
