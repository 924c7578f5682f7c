"""The gate: is a tuple of the pages a row, by the backup's own transaction status (rule 2).

It decides what ``HeapTupleSatisfiesMVCC`` (``access/heapam_visibility.c``) decides for a snapshot that sees every
transaction that the status calls committed, and nothing of the others. Command ids do not matter: the
transactions that wrote with them have ended, or their work does not count.

Hint bits decide at once. What they leave open waits (DEFER) until the status is complete. A tuple that was
inserted speculatively (its ctid offset is 0xfffe) is decided by its xmin like any other: no transaction commits
before it has confirmed the tuple, or has set its xmin to 0.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from walshadow_core.api import (
    DEFER,
    EMIT,
    GATED,
    XID_ABORTED,
    XID_COMMITTED,
    XID_IN_PROGRESS,
    XID_SUB_COMMITTED,
    FormatError,
    TransactionStatus,
    TupleHeaders,
)
from walshadow_core.pgformat.heap import (
    HEAP_LOCK_MASK,
    HEAP_MOVED,
    HEAP_XMAX_COMMITTED,
    HEAP_XMAX_EXCL_LOCK,
    HEAP_XMAX_INVALID,
    HEAP_XMAX_IS_MULTI,
    HEAP_XMAX_LOCK_ONLY,
    HEAP_XMIN_COMMITTED,
    HEAP_XMIN_FROZEN,
    HEAP_XMIN_INVALID,
)
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.xact import FIRST_NORMAL_XID

# How xmin was decided: the low four bits of a path code.
XMIN_HINT_INVALID, XMIN_HINT_FROZEN, XMIN_HINT_COMMITTED, XMIN_ZERO, XMIN_PERMANENT = 0, 1, 2, 3, 4
XMIN_MOVED, XMIN_STATUS, XMIN_NOT_ASKED = 5, 6, 7

# How xmax was decided: the high four bits of a path code.
XMAX_NOT_ASKED, XMAX_HINT_INVALID, XMAX_LOCK_ONLY, XMAX_LOCK_UPGRADED, XMAX_LOCK_OLD = 0, 1, 2, 3, 4
XMAX_MULTI, XMAX_HINT_COMMITTED, XMAX_ZERO, XMAX_PERMANENT, XMAX_STATUS = 5, 6, 7, 8, 9

_XMIN_NAMES = {
    XMIN_HINT_INVALID: "xmin.hint_invalid",
    XMIN_HINT_FROZEN: "xmin.hint_frozen",
    XMIN_HINT_COMMITTED: "xmin.hint_committed",
    XMIN_ZERO: "xmin.zero",
    XMIN_PERMANENT: "xmin.permanent",
    XMIN_NOT_ASKED: "xmin.not_asked",
}
_XMAX_NAMES = {
    XMAX_NOT_ASKED: "xmax.not_asked",
    XMAX_HINT_INVALID: "xmax.hint_invalid",
    XMAX_LOCK_ONLY: "xmax.lock_only",
    XMAX_LOCK_UPGRADED: "xmax.lock_upgraded",
    XMAX_LOCK_OLD: "xmax.lock_old",
    XMAX_HINT_COMMITTED: "xmax.hint_committed",
    XMAX_ZERO: "xmax.zero",
    XMAX_PERMANENT: "xmax.permanent",
}
_STATE_NAMES = {
    XID_IN_PROGRESS: "in_progress",
    XID_COMMITTED: "committed",
    XID_ABORTED: "aborted",
    XID_SUB_COMMITTED: "sub_committed",
}


def _hint_paths() -> NDArray[np.uint8]:
    """The path code of each infomask, uint8[4096] by its upper twelve bits (the lower four are not about
    visibility); XMIN_STATUS and XMAX_STATUS stand for "no hint: the xid tells"."""
    mask = np.arange(0, 0x10000, 16)
    how_in = np.select(
        [
            mask & HEAP_XMIN_FROZEN == HEAP_XMIN_FROZEN,
            mask & HEAP_XMIN_COMMITTED != 0,
            mask & HEAP_XMIN_INVALID != 0,
            mask & HEAP_MOVED != 0,
        ],
        [XMIN_HINT_FROZEN, XMIN_HINT_COMMITTED, XMIN_HINT_INVALID, XMIN_MOVED],
        XMIN_STATUS,
    )
    kind = mask & (HEAP_XMAX_IS_MULTI | HEAP_LOCK_MASK)
    how_out = np.select(
        [
            mask & HEAP_XMAX_INVALID != 0,
            (mask & HEAP_XMAX_LOCK_ONLY != 0) & (kind == HEAP_XMAX_IS_MULTI),
            mask & HEAP_XMAX_LOCK_ONLY != 0,
            kind == HEAP_XMAX_EXCL_LOCK,
            mask & HEAP_XMAX_IS_MULTI != 0,
            mask & HEAP_XMAX_COMMITTED != 0,
        ],
        [XMAX_HINT_INVALID, XMAX_LOCK_UPGRADED, XMAX_LOCK_ONLY, XMAX_LOCK_OLD, XMAX_MULTI, XMAX_HINT_COMMITTED],
        XMAX_STATUS,
    )
    paths: NDArray[np.uint8] = (how_in | how_out << 4).astype(np.uint8)
    return paths


_FEW = 64
"""Xids that are sooner asked for than looked through for repeated ones."""

_NEVER_INSERTED = (XMIN_HINT_INVALID, XMIN_ZERO)
_XMIN_OPEN = (XMIN_MOVED, XMIN_STATUS)
_DELETED = (XMAX_HINT_COMMITTED, XMAX_PERMANENT)
_XMAX_OPEN = (XMAX_MULTI, XMAX_STATUS)


def _verdicts() -> NDArray[np.uint8]:
    """GATED, EMIT or DEFER per path code, uint8[256]. A tuple whose deleter committed is gone whether or not it
    ever was a row, so that its xmin need not be asked."""
    code = np.arange(256)
    how_in, how_out = code & 15, code >> 4
    gone = np.isin(how_in, _NEVER_INSERTED) | np.isin(how_out, _DELETED)
    open_ = np.isin(how_in, _XMIN_OPEN) | np.isin(how_out, _XMAX_OPEN)
    verdicts: NDArray[np.uint8] = np.select([gone, open_], [GATED, DEFER], EMIT).astype(np.uint8)
    return verdicts


_HINT_PATHS = _hint_paths()
_VERDICTS = _verdicts()


@kernel
def gate_hints(
    xmin: NDArray[np.uint32],
    xmax: NDArray[np.uint32],
    infomask: NDArray[np.uint16],
    hint_paths: NDArray[np.uint8],
    verdicts: NDArray[np.uint8],
    decision: NDArray[np.uint8],
    path: NDArray[np.uint8],
    counts: NDArray[np.int64],
) -> int:
    """Decide n tuples by their headers alone; gives how many are left open (DEFER).

    ``hint_paths`` uint8[4096] gives the path code of an infomask, ``verdicts`` uint8[256] the decision of a path
    code. Writes ``decision`` uint8[n] (GATED, EMIT, DEFER), ``path`` uint8[n] (``XMIN_* | XMAX_* << 4``), and
    adds to ``counts`` int64[256] how many tuples came by each path.
    """
    left_open = 0
    for i in range(len(xmin)):
        code = np.int64(hint_paths[infomask[i] >> 4])
        if xmin[i] < FIRST_NORMAL_XID and code & 15 == XMIN_STATUS:
            code = code & 0xF0 | (XMIN_ZERO if xmin[i] == 0 else XMIN_PERMANENT)
        if xmax[i] < FIRST_NORMAL_XID and code >> 4 == XMAX_STATUS:
            code = code & 15 | (XMAX_ZERO if xmax[i] == 0 else XMAX_PERMANENT) << 4
        path[i] = code
        decision[i] = verdicts[code]
        left_open += verdicts[code] == DEFER
        counts[code] += 1
    return left_open


class Gate:
    """The core's visibility resolver (``api.VisibilityResolver``). Threads may share one.

    ``paths`` counts decided tuples by how their xmin and how their xmax was decided, one of each per tuple
    (``xmin.hint_frozen``, ``xmax.multi.updater_committed``…), and under ``deferred`` the tuples put off.
    """

    def __init__(self, status: TransactionStatus) -> None:
        self._status = status
        self._codes = np.zeros(256, np.int64)
        self._resolved: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def paths(self) -> Counter[str]:
        """Counts per path, as of now; paths that were not hit are not in it."""
        with self._lock:
            counts = self._resolved.copy()
            for code in np.flatnonzero(self._codes).tolist():
                for name in _path_names(code):
                    counts[name] += int(self._codes[code])
        return counts

    def decide(self, headers: TupleHeaders) -> NDArray[np.uint8]:
        """GATED, EMIT or DEFER per tuple, uint8[n]; DEFER only while the status is not complete.

        Raises FormatError for a transaction or multixact whose fate is not known.
        """
        complete = self._status.complete
        xmin, xmax = _for_kernel(headers.xmin, np.uint32), _for_kernel(headers.xmax, np.uint32)
        infomask = _for_kernel(headers.infomask, np.uint16)
        decision = np.empty(len(xmin), np.uint8)
        path = np.empty(len(xmin), np.uint8)
        codes = np.zeros(256, np.int64)
        left_open = gate_hints(xmin, xmax, infomask, _HINT_PATHS, _VERDICTS, decision, path, codes)
        if not left_open:
            with self._lock:
                self._codes += codes
            return decision
        codes[_VERDICTS == DEFER] = 0
        resolved: Counter[str] = Counter()
        if complete:
            open_ = np.flatnonzero(decision == DEFER)
            decision[open_] = self._resolve(xmin[open_], xmax[open_], path[open_], resolved)
        else:
            resolved["deferred"] = left_open
        with self._lock:
            self._codes += codes
            self._resolved += resolved
        return decision

    def _resolve(
        self,
        xmin: NDArray[np.uint32],
        xmax: NDArray[np.uint32],
        path: NDArray[np.uint8],
        resolved: Counter[str],
    ) -> NDArray[np.uint8]:
        """Decide n tuples that the hints left open. Only what matters is looked up: the status of an xmax whose
        xmin did not commit may be gone, and nobody would miss it."""
        how_in, how_out = path & 15, path >> 4
        if np.any(how_in == XMIN_MOVED):
            raise FormatError(
                "a tuple was moved by the VACUUM FULL of a Postgres before 9.0 and has no hint bits",
                "run VACUUM (FREEZE) on the table and load again",
            )
        alive = np.ones(len(xmin), np.bool_)
        asked = np.flatnonzero(how_in == XMIN_STATUS)
        states = self._states(xmin[asked])
        alive[asked] = states == XID_COMMITTED
        _count(resolved, "xmin.status.", states)
        for code, number in _histogram(how_in[how_in != XMIN_STATUS]):
            resolved[_XMIN_NAMES[code]] += number

        row = alive.copy()
        asked = np.flatnonzero(alive & (how_out == XMAX_STATUS))
        states = self._states(xmax[asked])
        row[asked] = states != XID_COMMITTED
        _count(resolved, "xmax.status.", states)

        asked = np.flatnonzero(alive & (how_out == XMAX_MULTI))
        if len(asked):
            updaters = np.asarray(self._status.updaters(xmax[asked]), np.uint32)
            states = self._states(updaters)
            row[asked] = states != XID_COMMITTED
            _count(resolved, "xmax.multi.updater_", states[updaters != 0])
            resolved["xmax.multi.no_updater"] += int(np.count_nonzero(updaters == 0))

        resolved[_XMAX_NAMES[XMAX_NOT_ASKED]] += int(np.count_nonzero(~alive))
        for code, number in _histogram(how_out[alive & (how_out != XMAX_STATUS) & (how_out != XMAX_MULTI)]):
            resolved[_XMAX_NAMES[code]] += number
        return np.where(row, np.uint8(EMIT), np.uint8(GATED))

    def _states(self, xids: NDArray[np.uint32]) -> NDArray[np.uint8]:
        """XID_* per xid, the special ones included. Neighbours share their transaction more often than not:
        each run of one xid is asked once."""
        if len(xids) <= _FEW and (len(xids) == 0 or int(xids.min()) >= FIRST_NORMAL_XID):
            return self._status.state(xids) if len(xids) else np.empty(0, np.uint8)
        starts = np.concatenate(([0], np.flatnonzero(xids[1:] != xids[:-1]) + 1))
        heads = xids[starts]
        states = np.where(heads == 0, np.uint8(XID_ABORTED), np.uint8(XID_COMMITTED))
        normal = heads >= FIRST_NORMAL_XID
        if np.any(normal):
            states[normal] = self._status.state(heads[normal])
        return np.repeat(states, np.diff(starts, append=len(xids)))


def _for_kernel(array: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    """The array as kernels are compiled for it: itself, nearly always (np.require takes longer to find that out)."""
    flags = array.flags
    if array.dtype == dtype and flags.c_contiguous and flags.writeable:
        return array
    return np.require(array, dtype, ("C", "W"))


def _path_names(code: int) -> tuple[str, str]:
    """How a tuple that the hints decided was decided: what did not matter was not asked."""
    how_in, how_out = code & 15, code >> 4
    if how_in in _NEVER_INSERTED:
        how_out = XMAX_NOT_ASKED
    elif how_in in _XMIN_OPEN:
        how_in = XMIN_NOT_ASKED
    return _XMIN_NAMES[how_in], _XMAX_NAMES[how_out]


def _histogram(codes: NDArray[np.uint8]) -> list[tuple[int, int]]:
    counts = np.bincount(codes)
    return [(code, int(counts[code])) for code in np.flatnonzero(counts).tolist()]


def _count(resolved: Counter[str], prefix: str, states: NDArray[np.uint8]) -> None:
    for state, number in _histogram(states):
        resolved[prefix + _STATE_NAMES[state]] += number
