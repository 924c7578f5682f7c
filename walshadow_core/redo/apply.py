"""Records to pages, in the order of the WAL: which kernel a record asks for, and on which page."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.walnames import HEAP, HEAP2, INIT
from walshadow_core.pgformat.walrecord import HAS_IMAGE, IMAGE_APPLY, WILL_INIT
from walshadow_core.redo import heap, prune
from walshadow_core.redo.heap import BAD_IMAGE, BAD_PAGE, DONE, NO_PAGE, UNKNOWN
from walshadow_core.redo.images import restore_image
from walshadow_core.redo.pages import begin_page, set_lsn, sound

OPERATION: Final = 0x70
"""XLOG_HEAP_OPMASK."""
HEAP_INSERT, HEAP_DELETE, HEAP_UPDATE, HEAP_TRUNCATE, HEAP_HOT_UPDATE, HEAP_CONFIRM, HEAP_LOCK, HEAP_INPLACE = range(
    0, 0x80, 0x10
)
"""XLOG_HEAP_*."""
(HEAP2_REWRITE, HEAP2_PRUNE, HEAP2_SCAN, HEAP2_CLEANUP, HEAP2_VISIBLE, HEAP2_MULTI_INSERT, HEAP2_LOCK_UPDATED,
 HEAP2_NEW_CID) = range(0, 0x80, 0x10)  # fmt: skip
"""XLOG_HEAP2_*; 0x20 and 0x30 are VACUUM and FREEZE_PAGE in 15 and 16, prune records of VACUUM since 17."""


@kernel
def _change(
    page: Bytes, scratch: Bytes, major: int, rmgr: int, info: int, block_id: int, block: int, new_block: int,
    same_page: bool, xid: int, buf: Bytes, main: int, main_size: int, at: int, size: int,
) -> int:  # fmt: skip
    """One record's change of one page. ``block_id`` is the reference's id, ``new_block`` the block of reference 0."""
    operation = info & OPERATION
    if rmgr == HEAP:
        if operation == HEAP_INSERT:
            return int(heap.insert(page, block, xid, buf, main, main_size, at, size))
        if operation == HEAP_DELETE:
            return int(heap.delete(page, block, buf, main, main_size))
        if operation in (HEAP_UPDATE, HEAP_HOT_UPDATE):
            wrong = DONE
            if block_id == 1 or same_page:
                wrong = heap.update_old(page, new_block, operation == HEAP_HOT_UPDATE, buf, main, main_size)
            if wrong == DONE and block_id == 0:
                wrong = heap.update_new(page, block, xid, same_page, buf, main, main_size, at, size)
            return int(wrong)
        if operation == HEAP_CONFIRM:
            return int(heap.confirm(page, block, buf, main, main_size))
        if operation == HEAP_LOCK:
            return int(heap.lock(page, block, False, buf, main, main_size))
        if operation == HEAP_INPLACE:
            return int(heap.inplace(page, buf, main, main_size, at, size))
    elif rmgr == HEAP2:
        if operation == HEAP2_MULTI_INSERT:
            begun = info & INIT != 0
            return int(heap.multi_insert(page, block, xid, begun, buf, main, main_size, at, size))
        if operation == HEAP2_LOCK_UPDATED:
            return int(heap.lock(page, block, True, buf, main, main_size))
        if operation == HEAP2_VISIBLE:
            return DONE
        if operation in (HEAP2_PRUNE, HEAP2_SCAN, HEAP2_CLEANUP):
            if major >= 17:
                return int(prune.prune_17(page, scratch, buf, main, main_size, at, size))
            if operation == HEAP2_PRUNE:
                return int(prune.prune_15(page, scratch, buf, main, main_size, at, size))
            if operation == HEAP2_SCAN:
                return int(prune.vacuum_15(page, buf, main, main_size, at, size))
            if major == 15:
                return int(prune.freeze_15(page, buf, main, main_size, at, size))
            return int(prune.freeze_16(page, buf, main, main_size, at, size))
    return UNKNOWN


@kernel
def apply_records(
    major: int,
    chosen: NDArray[np.int64],
    opened: NDArray[np.int64],
    place: NDArray[np.int64],
    present: NDArray[np.uint8],
    memory: NDArray[np.uint8],
    copies: NDArray[np.uint8],
    scratch: Bytes,
    buf: Bytes,
    end: NDArray[np.int64],
    rmgr: NDArray[np.uint8],
    info: NDArray[np.uint8],
    xid: NDArray[np.uint32],
    main_offset: NDArray[np.int64],
    main_length: NDArray[np.int64],
    first_block: NDArray[np.int64],
    block_id: NDArray[np.uint8],
    flags: NDArray[np.uint8],
    block: NDArray[np.uint32],
    image_offset: NDArray[np.int64],
    image_length: NDArray[np.int32],
    image_info: NDArray[np.uint8],
    hole_offset: NDArray[np.int32],
    hole_length: NDArray[np.int32],
    data_offset: NDArray[np.int64],
    data_length: NDArray[np.int32],
) -> tuple[int, int, int]:
    """Apply the records of index ``chosen`` (ascending) to open pages.

    ``opened`` is int64, one per block reference: which of the open pages it is to, -1 for those that don't matter;
    ``place``, ``present``, ``memory`` and ``copies`` are those of OpenPages, ``present`` is kept up. The other arrays
    are those of WalRecords. ``scratch`` is uint8[SCRATCH]. Gives (0, 0, 0), or (why, record, block reference) for the
    first that can't be applied.
    """
    for i in chosen:
        first, last = first_block[i], first_block[i + 1]
        for k in range(first, last):
            n = opened[k]
            if n < 0:
                continue
            page = memory[place[n]] if place[n] < len(memory) else copies[place[n] - len(memory)]
            if flags[k] & HAS_IMAGE != 0 and image_info[k] & IMAGE_APPLY != 0:
                whole = restore_image(
                    page, scratch, buf, image_offset[k], int(image_length[k]), int(image_info[k]),
                    int(hole_offset[k]), int(hole_length[k]),
                )  # fmt: skip
                if not whole:
                    return BAD_IMAGE, i, k
                present[n] = 1
                if sound(page):
                    set_lsn(page, end[i])
                continue
            if rmgr[i] != HEAP and rmgr[i] != HEAP2:
                # An index's, a sequence's: no relation of a filter set has such pages.
                return UNKNOWN, i, k
            if block_id[k] > 1:
                return UNKNOWN, i, k
            if flags[k] & WILL_INIT != 0:
                begin_page(page)
                present[n] = 1
            elif present[n] == 0:
                if rmgr[i] == HEAP2 and info[i] & OPERATION == HEAP2_VISIBLE:
                    continue
                return NO_PAGE, i, k
            if not sound(page):
                return BAD_PAGE, i, k
            old_pages = 0
            new_block = block[k]
            for other in range(first, last):
                if block_id[other] == 0:
                    new_block = block[other]
                elif block_id[other] == 1:
                    old_pages += 1
            wrong = _change(
                page, scratch, major, int(rmgr[i]), int(info[i]), int(block_id[k]), int(block[k]), int(new_block),
                old_pages == 0, int(xid[i]), buf, int(main_offset[i]), int(main_length[i]), int(data_offset[k]),
                int(data_length[k]),
            )  # fmt: skip
            if wrong != 0:
                return wrong, i, k
            set_lsn(page, end[i])
    return DONE, 0, 0
