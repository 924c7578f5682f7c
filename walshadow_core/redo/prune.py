"""What VACUUM and pruning do to a page (``access/heapam_xlog.h``): prune, vacuum and freeze records of 15 and 16, and
the one record that 17 made of them."""

from __future__ import annotations

from typing import Final

import numpy as np

from walshadow_core.api import Bytes
from walshadow_core.pgformat.heap import (
    FIELD3_AT,
    INFOMASK2_AT,
    INFOMASK_AT,
    LP_DEAD,
    LP_REDIRECT,
    LP_UNUSED,
    XMAX_AT,
    load16,
    load32,
)
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.words import store16, store32
from walshadow_core.redo.heap import BAD_PAGE, DONE, INVALID_XID, NO_TUPLE, SHORT
from walshadow_core.redo.pages import (
    close_gaps,
    cut_unused_lines,
    find_tuple,
    pointer_flags,
    set_pointer,
)

FROZEN_XID: Final = 2
FREEZE_XVAC, INVALID_XVAC = 0x02, 0x04
"""XLH_FREEZE_XVAC, XLH_INVALID_XVAC."""

CLEANUP_LOCK, HAS_HORIZON, HAS_PLANS, HAS_REDIRECTIONS, HAS_DEAD, HAS_UNUSED = 0x04, 0x08, 0x10, 0x20, 0x40, 0x80
"""XLHP_*: flags of xl_heap_prune since 17."""

PLAN_SIZE: Final = 12
"""xl_heap_freeze_plan of 16, xlhp_freeze_plan since 17, and xl_heap_freeze_tuple of 15."""
PRUNE_SIZE, VACUUM_SIZE, FREEZE_SIZE, PRUNE_17_SIZE = 8, 2, 6, 2


@kernel
def _redirect(page: Bytes, buf: Bytes, at: int, count: int) -> int:
    for k in range(count):
        source, target = load16(buf, at + 4 * k), load16(buf, at + 4 * k + 2)
        if pointer_flags(page, source) < 0 or pointer_flags(page, target) < 0:
            return NO_TUPLE
        set_pointer(page, source, LP_REDIRECT, target, 0)
    return DONE


@kernel
def _set_all(page: Bytes, buf: Bytes, at: int, count: int, flags: int) -> int:
    for k in range(count):
        offset = load16(buf, at + 2 * k)
        if pointer_flags(page, offset) < 0:
            return NO_TUPLE
        set_pointer(page, offset, flags, 0, 0)
    return DONE


@kernel
def _freeze(page: Bytes, offset: int, buf: Bytes, plan: int, masks: int, flags: int) -> int:
    """heap_execute_freeze_tuple: xmax at ``plan``, infomask2 and infomask at ``masks``."""
    at, _ = find_tuple(page, offset)
    if at < 0:
        return NO_TUPLE
    store32(page, at + XMAX_AT, load32(buf, plan))
    if flags & FREEZE_XVAC != 0:
        store32(page, at + FIELD3_AT, FROZEN_XID)
    if flags & INVALID_XVAC != 0:
        store32(page, at + FIELD3_AT, INVALID_XID)
    store16(page, at + INFOMASK2_AT, load16(buf, masks))
    store16(page, at + INFOMASK_AT, load16(buf, masks + 2))
    return DONE


@kernel
def _freeze_by_plans(page: Bytes, buf: Bytes, plans: int, count: int, at: int, stop: int) -> int:
    """Apply ``count`` plans, whose offset numbers stand one plan after the other at ``at``."""
    for k in range(count):
        plan = plans + PLAN_SIZE * k
        for _ in range(load16(buf, plan + 10)):
            if at + 2 > stop:
                return SHORT
            wrong = _freeze(page, load16(buf, at), buf, plan, plan + 4, int(buf[np.uint64(plan + 8)]))
            if wrong != 0:
                return wrong
            at += 2
    return DONE


@kernel
def freeze_15(page: Bytes, buf: Bytes, main: int, main_size: int, at: int, size: int) -> int:
    """xl_heap_freeze_page of 15: a plan for every tuple, with its offset number behind the xmax."""
    if main_size < FREEZE_SIZE:
        return SHORT
    count = load16(buf, main + 4)
    if size < PLAN_SIZE * count:
        return SHORT
    for k in range(count):
        plan = at + PLAN_SIZE * k
        wrong = _freeze(page, load16(buf, plan + 4), buf, plan, plan + 6, int(buf[np.uint64(plan + 10)]))
        if wrong != 0:
            return wrong
    return DONE


@kernel
def freeze_16(page: Bytes, buf: Bytes, main: int, main_size: int, at: int, size: int) -> int:
    """xl_heap_freeze_page of 16: plans, then the offset numbers of all."""
    if main_size < FREEZE_SIZE:
        return SHORT
    count = load16(buf, main + 4)
    if size < PLAN_SIZE * count:
        return SHORT
    return int(_freeze_by_plans(page, buf, at, count, at + PLAN_SIZE * count, at + size))


@kernel
def prune_15(page: Bytes, scratch: Bytes, buf: Bytes, main: int, main_size: int, at: int, size: int) -> int:
    """xl_heap_prune of 15 and 16."""
    if main_size < PRUNE_SIZE:
        return SHORT
    redirected, dead = load16(buf, main + 4), load16(buf, main + 6)
    fixed = 4 * redirected + 2 * dead
    if size < fixed:
        return SHORT
    wrong = _redirect(page, buf, at, redirected)
    if wrong == 0:
        wrong = _set_all(page, buf, at + 4 * redirected, dead, LP_DEAD)
    if wrong == 0:
        wrong = _set_all(page, buf, at + fixed, (size - fixed) // 2, LP_UNUSED)
    if wrong != 0:
        return wrong
    return int(_repair(page, scratch))


@kernel
def vacuum_15(page: Bytes, buf: Bytes, main: int, main_size: int, at: int, size: int) -> int:
    """xl_heap_vacuum of 15 and 16: dead line pointers are unused now."""
    if main_size < VACUUM_SIZE:
        return SHORT
    count = load16(buf, main)
    if size < 2 * count:
        return SHORT
    wrong = _set_all(page, buf, at, count, LP_UNUSED)
    cut_unused_lines(page, 1)
    return int(wrong)


@kernel
def prune_17(page: Bytes, scratch: Bytes, buf: Bytes, main: int, main_size: int, at: int, size: int) -> int:
    """xl_heap_prune since 17: any of freeze plans, redirected, dead and unused line pointers, offset numbers of the
    plans."""
    if main_size < PRUNE_17_SIZE:
        return SHORT
    flags = int(buf[np.uint64(main + 1)])
    stop = at + size
    plans = count = 0
    if flags & HAS_PLANS != 0:
        if at + 4 > stop:
            return SHORT
        count = load16(buf, at)
        plans = at + 4
        at = plans + PLAN_SIZE * count
        if at > stop:
            return SHORT
    changed = False
    for step in range(3):
        if flags & (HAS_REDIRECTIONS << step) == 0:
            continue
        if at + 2 > stop:
            return SHORT
        items = load16(buf, at)
        at += 2
        length = (4 if step == 0 else 2) * items
        if at + length > stop:
            return SHORT
        wrong = (
            _redirect(page, buf, at, items)
            if step == 0
            else _set_all(page, buf, at, items, LP_DEAD if step == 1 else LP_UNUSED)
        )
        if wrong != 0:
            return wrong
        at += length
        changed = True
    if changed:
        if flags & CLEANUP_LOCK != 0:
            wrong = _repair(page, scratch)
            if wrong != 0:
                return wrong
        else:
            cut_unused_lines(page, 1)
    return int(_freeze_by_plans(page, buf, plans, count, at, stop))


@kernel
def _repair(page: Bytes, scratch: Bytes) -> int:
    """PageRepairFragmentation."""
    if not close_gaps(page, scratch):
        return BAD_PAGE
    cut_unused_lines(page, 0)
    return DONE
