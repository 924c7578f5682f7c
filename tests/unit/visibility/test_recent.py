"""Which transactions of a table are recent, and whether one has committed."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from walshadow_core.api import XID_ABORTED, XID_COMMITTED, XID_IN_PROGRESS, TupleHeaders
from walshadow_core.pgformat import heap
from walshadow_core.visibility.recent import RecentXids

OLDEST = 2**32 - 5


class Status:
    """Xid 10 committed, 11 aborted, others in progress; complete."""

    complete = True

    def state(self, xids: NDArray[np.uint32]) -> NDArray[np.uint8]:
        known = {10: XID_COMMITTED, 11: XID_ABORTED}
        return np.array([known.get(int(x), XID_IN_PROGRESS) for x in xids], np.uint8)

    def updaters(self, multis: NDArray[np.uint32]) -> NDArray[np.uint32]:
        raise AssertionError("not asked")


def _headers(xmin: int, xmax: int, infomask: int) -> TupleHeaders:
    return TupleHeaders(
        np.array([5, xmin], np.uint32),
        np.array([0, xmax], np.uint32),
        np.array([heap.HEAP_XMIN_FROZEN | heap.HEAP_XMAX_INVALID, infomask], np.uint16),
        np.zeros(2, np.uint16),
        np.zeros(2, np.uint16),
    )


@pytest.mark.parametrize(
    ("xmin", "xmax", "infomask", "expected"),
    [
        (10, 0, heap.HEAP_XMAX_INVALID, True),
        (11, 0, heap.HEAP_XMAX_INVALID, False),
        (12, 0, heap.HEAP_XMAX_INVALID, False),
        (12, 0, heap.HEAP_XMAX_INVALID | heap.HEAP_XMIN_COMMITTED, True),
        (10, 0, heap.HEAP_XMAX_INVALID | heap.HEAP_XMIN_FROZEN, False),
        (10, 0, heap.HEAP_XMAX_INVALID | heap.HEAP_XMIN_INVALID, False),
        (2**32 - 6, 10, heap.HEAP_XMIN_COMMITTED, True),
        (2**32 - 6, 12, heap.HEAP_XMIN_COMMITTED | heap.HEAP_XMAX_COMMITTED, True),
        (2**32 - 6, 10, heap.HEAP_XMIN_COMMITTED | heap.HEAP_XMAX_LOCK_ONLY, False),
        (2**32 - 6, 10, heap.HEAP_XMIN_COMMITTED | heap.HEAP_XMAX_IS_MULTI, False),
        (2**32 - 6, 2**32 - 7, heap.HEAP_XMIN_COMMITTED | heap.HEAP_XMAX_COMMITTED, False),
    ],
)
def test_recent_and_committed(xmin: int, xmax: int, infomask: int, expected: bool) -> None:
    recent = RecentXids(OLDEST)
    recent.add(_headers(xmin, xmax, infomask))
    assert recent.committed(Status()) is expected
