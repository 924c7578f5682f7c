"""The gate against a slow transcription of what Postgres does, over every infomask."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from walshadow_core.api import (
    DEFER,
    EMIT,
    GATED,
    XID_ABORTED,
    XID_COMMITTED,
    XID_IN_PROGRESS,
    XID_SUB_COMMITTED,
    FormatError,
    TupleHeaders,
)
from walshadow_core.visibility.gate import Gate

# xids 10 to 13 have the states 0 to 3; a multixact n has the updater UPDATERS[n]
STATES = {10: XID_IN_PROGRESS, 11: XID_COMMITTED, 12: XID_ABORTED, 13: XID_SUB_COMMITTED}
UPDATERS = {0: 0, 1: 10, 2: 11, 10: 0, 11: 10, 12: 11, 13: 12, 14: 13, 15: 1}
XMINS = (0, 1, 2, 10, 11, 12, 13)
XMAXES = (0, 1, 2, 10, 11, 12, 13, 14, 15)
STATES |= {14: XID_ABORTED, 15: XID_COMMITTED}

XVAC_ASKED = 3


@dataclass
class FakeStatus:
    complete: bool = True
    asked: list[int] = field(default_factory=list)
    asked_multis: list[int] = field(default_factory=list)

    def state(self, xids: NDArray[np.uint32]) -> NDArray[np.uint8]:
        assert self.complete, "asked before the status was complete"
        self.asked += xids.tolist()
        return np.array([STATES[x] for x in xids.tolist()], np.uint8)

    def updaters(self, multis: NDArray[np.uint32]) -> NDArray[np.uint32]:
        assert self.complete, "asked before the status was complete"
        self.asked_multis += multis.tolist()
        return np.array([UPDATERS[m] for m in multis.tolist()], np.uint32)


def did_commit(xid: int) -> bool:
    if xid in (0, 1, 2):
        return xid != 0
    return STATES[xid] == XID_COMMITTED


def reference(xmin: int, xmax: int, infomask: int) -> int:
    """HeapTupleSatisfiesMVCC in Postgres's order, step by step, for a snapshot taken after every transaction
    that committed; XVAC_ASKED where it would look at t_xvac."""
    xvac_asked = False
    if not infomask & 0x0100:  # not HEAP_XMIN_COMMITTED
        if infomask & 0x0200:  # HEAP_XMIN_INVALID
            return GATED
        if infomask & 0xC000:  # HEAP_MOVED_OFF, HEAP_MOVED_IN
            xvac_asked = True
        elif not did_commit(xmin):
            return GATED

    answer = xmax_part(xmax, infomask)
    return XVAC_ASKED if xvac_asked and answer == EMIT else answer


def xmax_part(xmax: int, infomask: int) -> int:
    if infomask & 0x0800:  # HEAP_XMAX_INVALID
        return EMIT
    if infomask & 0x0080:  # HEAP_XMAX_LOCK_ONLY
        return EMIT
    if infomask & (0x1000 | 0x0010 | 0x0040) == 0x0040:  # nothing but HEAP_XMAX_EXCL_LOCK
        return EMIT
    if infomask & 0x1000:  # HEAP_XMAX_IS_MULTI
        return GATED if did_commit(UPDATERS[xmax]) else EMIT
    if infomask & 0x0400:  # HEAP_XMAX_COMMITTED
        return GATED
    return GATED if did_commit(xmax) else EMIT


def headers(xmin: object, xmax: object, infomask: object) -> TupleHeaders:
    mask = np.array(infomask, np.uint16)
    zeros = np.zeros(len(mask), np.uint16)
    return TupleHeaders(np.array(xmin, np.uint32), np.array(xmax, np.uint32), mask, zeros, zeros)


def all_masks(xmin: int, xmax: int, masks: NDArray[np.int64]) -> TupleHeaders:
    return headers(np.full(len(masks), xmin), np.full(len(masks), xmax), masks)


@pytest.mark.parametrize("xmin", XMINS)
@pytest.mark.parametrize("xmax", XMAXES)
def test_every_infomask_is_decided_as_postgres_does(xmin: int, xmax: int) -> None:
    # the low four bits are not about visibility: the transcription does not read them, the gate must not either
    expected = np.repeat([reference(xmin, xmax, mask) for mask in range(0, 65536, 16)], 16)
    masks = np.arange(65536)

    told = expected != XVAC_ASKED
    # under a multixact, gone or not is only known from the updater: that the tuple was moved is then an error
    moved_multi = (masks & 0xC000 != 0) & (masks & 0x0300 == 0) & (masks & 0x1880 == 0x1000)
    moved_plain = (masks & 0xC000 != 0) & (masks & 0x0300 == 0) & (masks & 0x1C80 == 0) & (xmax > 2)
    sure = told & ~moved_multi & ~moved_plain
    gate = Gate(FakeStatus())
    assert np.array_equal(gate.decide(all_masks(xmin, xmax, masks[sure])), expected[sure])
    by_xmin = sum(n for path, n in gate.paths.items() if path.startswith("xmin."))
    by_xmax = sum(n for path, n in gate.paths.items() if path.startswith("xmax."))
    assert by_xmin == by_xmax == np.count_nonzero(sure)

    early = Gate(FakeStatus(complete=False)).decide(all_masks(xmin, xmax, masks))
    decided = early != DEFER
    assert np.array_equal(early[decided], expected[decided]), "a hint was taken for more than it says"
    assert np.all(early[~told] == DEFER)


def test_hints_leave_open_only_what_they_must() -> None:
    masks = np.arange(65536)
    early = Gate(FakeStatus(complete=False)).decide(all_masks(11, 11, masks))
    xmin_open = masks & 0x0300 == 0
    live = (masks & 0x0880 != 0) | (masks & 0x1050 == 0x0040)
    multi = ~live & (masks & 0x1000 != 0)
    gone = ~live & ~multi & (masks & 0x0400 != 0)
    xmin_never = masks & 0x0300 == 0x0200
    must_wait = ~xmin_never & ~gone & (xmin_open | (~live & ~gone))
    assert np.array_equal(early == DEFER, must_wait)


@pytest.mark.parametrize("mask", [0x4000, 0x8000, 0xC000])
def test_a_tuple_moved_before_9_0_waits_and_is_then_an_error(mask: int) -> None:
    moved = headers([11], [0], [mask | 0x0800])
    assert Gate(FakeStatus(complete=False)).decide(moved).tolist() == [DEFER]
    with pytest.raises(FormatError, match=r"VACUUM \(FREEZE\)"):
        Gate(FakeStatus()).decide(moved)


@pytest.mark.parametrize("mask", [0x4000, 0x8000])
def test_a_moved_tuple_with_hint_bits_is_decided_by_them(mask: int) -> None:
    decisions = Gate(FakeStatus()).decide(headers([11] * 3, [0] * 3, [mask | 0x0900, mask | 0x0A00, mask | 0x0B00]))
    assert decisions.tolist() == [EMIT, GATED, EMIT]


ONE = st.tuples(st.sampled_from(XMINS), st.sampled_from(XMAXES), st.integers(0, 0x3FFF))


@given(st.lists(ONE, max_size=60))
def test_deciding_late_is_deciding(tuples: list[tuple[int, int, int]]) -> None:
    """Deferral changes when a tuple is decided, never how, whatever its neighbours are."""
    xmin, xmax, mask = (list(c) for c in zip(*tuples, strict=True)) if tuples else ([], [], [])
    status = FakeStatus(complete=False)
    gate = Gate(status)
    decisions = gate.decide(headers(xmin, xmax, mask))
    left = np.flatnonzero(decisions == DEFER)
    status.complete = True
    all_headers = headers(xmin, xmax, mask)
    decisions[left] = gate.decide(
        TupleHeaders(*(getattr(all_headers, f)[left] for f in all_headers.__dataclass_fields__))
    )
    assert decisions.tolist() == [reference(*t) for t in tuples]
    assert gate.paths["deferred"] == len(left)
    assert sum(n for path, n in gate.paths.items() if path.startswith("xmax.")) == len(tuples)
    assert not {0, 1, 2} & set(status.asked), "the fate of the special xids is in no file"


def test_nothing_is_looked_up_for_the_deleter_of_a_tuple_that_never_was_a_row() -> None:
    status = FakeStatus()
    gate = Gate(status)
    # 999 is in no table of the fake: a look-up would raise KeyError
    decisions = gate.decide(headers([12, 10, 12], [999, 999, 999], [0, 0, 0x1000]))
    assert decisions.tolist() == [GATED] * 3
    assert not status.asked_multis


def test_a_run_of_one_xid_is_asked_once() -> None:
    status = FakeStatus()
    assert set(Gate(status).decide(headers([11] * 500 + [12] * 500, [0] * 1000, [0x0800] * 1000))) == {EMIT, GATED}
    assert status.asked == [11, 12]


def test_readonly_and_strided_headers_are_taken() -> None:
    given_ = headers([11, 12, 11, 12], [0] * 4, [0x0800] * 4)
    strided = TupleHeaders(*(getattr(given_, f)[::2] for f in given_.__dataclass_fields__))
    for name in strided.__dataclass_fields__:
        getattr(strided, name).flags.writeable = False
    assert Gate(FakeStatus()).decide(strided).tolist() == [EMIT, EMIT]


def test_each_path_has_a_name_of_its_own() -> None:
    gate = Gate(FakeStatus())
    for xmin in XMINS:
        for xmax in XMAXES:
            masks = np.arange(0x4000)
            gate.decide(all_masks(xmin, xmax, masks))
    states = ("in_progress", "committed", "aborted", "sub_committed")
    assert set(gate.paths) == {
        *(f"xmin.{p}" for p in ("hint_invalid", "hint_frozen", "hint_committed", "zero", "permanent", "not_asked")),
        *(f"xmin.status.{s}" for s in states),
        *(f"xmax.{p}" for p in ("not_asked", "hint_invalid", "lock_only", "lock_upgraded", "lock_old")),
        *(f"xmax.{p}" for p in ("hint_committed", "zero", "permanent", "multi.no_updater")),
        *(f"xmax.multi.updater_{s}" for s in states),
        *(f"xmax.status.{s}" for s in states),
    }
