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

FIRST_NORMAL_XID = 3
"""``access/transam.h``: lower ones are of no transaction."""


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

    def _any_after(self, xids: NDArray[np.uint32]) -> bool:
        """A quick look, as nearly all tuples are older."""
        return bool((xids - self._oldest).view(np.int32).max() >= 0)

    def add(self, headers: TupleHeaders) -> None:
        """Take the headers of tuples of the table, whatever is decided about them."""
        if not len(headers.xmin) or not (self._any_after(headers.xmin) or self._any_after(headers.xmax)):
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
