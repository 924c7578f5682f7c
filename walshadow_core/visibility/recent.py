"""Transactions that were running when a load began, or started later, and that wrote to a table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import XID_COMMITTED, TransactionStatus, TupleHeaders
from walshadow_core.pgformat.heap import (
    HEAP_XMAX_COMMITTED,
    HEAP_XMAX_INVALID,
    HEAP_XMAX_IS_MULTI,
    HEAP_XMAX_LOCK_ONLY,
    HEAP_XMIN_COMMITTED,
    HEAP_XMIN_FROZEN,
    HEAP_XMIN_INVALID,
)
from walshadow_core.pgformat.jit import kernel

FIRST_NORMAL_XID = 3
"""``access/transam.h``: lower ones are of no transaction."""


@kernel
def any_at_or_after(xids: NDArray[np.uint32], oldest: np.uint32) -> bool:
    """Whether one of them is ``oldest`` or comes after it, on the circle that xids are."""
    found = 0
    for i in range(len(xids)):
        found += int((np.int64(xids[i]) - np.int64(oldest)) & 0xFFFFFFFF < 0x80000000)
    return found > 0


class RecentXids:
    """The xids at or after ``oldest_running`` in the tuples of one table. One that has committed did so while the
    backup ran: some of what it wrote may be in the copy, and some not."""

    def __init__(self, oldest_running: int) -> None:
        self._oldest = np.uint32(oldest_running & 0xFFFFFFFF)
        self._xids: set[int] = set()
        self._hinted = False

    def _recent(self, xids: NDArray[np.uint32]) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = ((xids - self._oldest).view(np.int32) >= 0) & (xids >= FIRST_NORMAL_XID)
        return found

    def add(self, headers: TupleHeaders) -> None:
        """Take the headers of tuples of the table, whatever is decided about them."""
        # A quick look, as nearly all tuples are older.
        if not any_at_or_after(headers.xmin, self._oldest) and not any_at_or_after(headers.xmax, self._oldest):
            return
        mask = headers.infomask
        inserted = self._recent(headers.xmin) & (mask & HEAP_XMIN_FROZEN != HEAP_XMIN_FROZEN)
        inserted &= mask & HEAP_XMIN_INVALID == 0
        ignored = HEAP_XMAX_INVALID | HEAP_XMAX_LOCK_ONLY | HEAP_XMAX_IS_MULTI
        deleted = self._recent(headers.xmax) & (mask & ignored == 0)
        if inserted.any():
            self._hinted |= bool((mask[inserted] & HEAP_XMIN_COMMITTED).any())
            self._xids.update(np.unique(headers.xmin[inserted]).tolist())
        if deleted.any():
            self._hinted |= bool((mask[deleted] & HEAP_XMAX_COMMITTED).any())
            self._xids.update(np.unique(headers.xmax[deleted]).tolist())

    def committed(self, status: TransactionStatus) -> bool:
        """Whether one of them has committed, by a hint bit or by ``status``, which must be complete."""
        if self._hinted or not self._xids:
            return self._hinted
        states = status.state(np.array(sorted(self._xids), np.uint32))
        return bool((states == XID_COMMITTED).any())
