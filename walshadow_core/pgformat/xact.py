"""pg_xact and pg_multixact: what became of transactions, and who holds a multixact.

Both are SLRUs (``access/slru.h``): segment files of 32 pages without headers, named by their number in hex.
The look-ups take arrays, and a mapping from segment number to the segment's bytes: a segment that is missing, or
ends early, is "not covered", which every look-up says apart. What that means is the caller's to decide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.pgformat.heap import PAGE_SIZE

# --------------------------------------------------------------------------------------------- segments

PAGES_PER_SEGMENT = 32
"""SLRU_PAGES_PER_SEGMENT."""
SEGMENT_SIZE = PAGES_PER_SEGMENT * PAGE_SIZE
"""Bytes of a whole segment file."""

XACT = "pg_xact"
MULTI_OFFSETS = "pg_multixact/offsets"
MULTI_MEMBERS = "pg_multixact/members"

Segments = Mapping[int, Bytes]
"""The copied part of one SLRU: segment number to its bytes, which may be fewer than SEGMENT_SIZE."""


@dataclass(frozen=True, slots=True)
class SlruFile:
    """One segment file: of XACT, MULTI_OFFSETS or MULTI_MEMBERS, and its number."""

    kind: str
    segment: int


# ------------------------------------------------------------------------ pg_xact (access/clog.c, clog.h)

XIDS_PER_SEGMENT = 4 * SEGMENT_SIZE
"""A transaction takes 2 bits, the first of a byte in the lowest."""
FIRST_NORMAL_XID = 3
"""FirstNormalTransactionId (``access/transam.h``). Below it: 0 is no transaction (it never committed), 1 and 2 have
always committed."""
XID_NOT_COVERED = 255
"""What `xid_states` says of an xid whose bits were not copied; the others are api.XID_*."""

# ------------------------------------------------------------- pg_multixact (access/multixact.c, multixact.h)

OFFSETS_PER_SEGMENT = SEGMENT_SIZE // 4
"""A multixact takes 4 bytes: the number of its first member; 0 is not yet set."""

MEMBERS_PER_GROUP = 4
GROUP_SIZE = MEMBERS_PER_GROUP + 4 * MEMBERS_PER_GROUP
"""Members come in groups: a status byte for each of four, then their xids."""
GROUPS_PER_PAGE = PAGE_SIZE // GROUP_SIZE
MEMBERS_PER_PAGE = GROUPS_PER_PAGE * MEMBERS_PER_GROUP
MEMBERS_PER_SEGMENT = MEMBERS_PER_PAGE * PAGES_PER_SEGMENT

MULTI_FOR_KEY_SHARE, MULTI_FOR_SHARE, MULTI_FOR_NO_KEY_UPDATE, MULTI_FOR_UPDATE = 0, 1, 2, 3
MULTI_NO_KEY_UPDATE, MULTI_UPDATE = 4, 5
"""MultiXactStatus of a member. The last two are updates or deletes, of which a multixact has at most one."""

FIRST_MULTI = 1
"""FirstMultiXactId: what follows 0xFFFFFFFF."""

MULTI_FOUND = 0
MULTI_NO_OFFSET = 1
MULTI_NO_END = 2
MULTI_NO_MEMBERS = 3
MULTI_DAMAGED = 4
"""What became of a multixact's look-up: found; its offset, the offset of its successor, or some of its members are
not covered (or not set); or what is there can't be a multixact."""

_MAX_MEMBERS = 1 << 17
"""A larger number of members is damage: multixacts grow by one member at a time, each time as a new one, so that one
of n members has used up n * n / 2 of the 2^32 numbers there are."""
_BATCH_MEMBERS = 1 << 18
"""How many members are looked up at a time."""

_LAST_SEGMENT = {
    XACT: (2**32 - 1) // XIDS_PER_SEGMENT,
    MULTI_OFFSETS: (2**32 - 1) // OFFSETS_PER_SEGMENT,
    MULTI_MEMBERS: (2**32 - 1) // MEMBERS_PER_SEGMENT,
}
_PATH = re.compile(r"(pg_xact|pg_multixact/offsets|pg_multixact/members)/([0-9A-F]{4}|[1-9A-F][0-9A-F]{4})", re.ASCII)


def parse_slru_path(path: str) -> SlruFile | None:
    """What SLRU segment a path in a data directory is; None if it is none of the three."""
    match = _PATH.fullmatch(path)
    if match is None:
        return None
    kind, number = match[1], int(match[2], 16)
    return SlruFile(kind, number) if number <= _LAST_SEGMENT[kind] else None


def slru_path(kind: str, segment: int) -> str:
    """The path of a segment, relative to the data directory: ``pg_xact/0000``."""
    return f"{kind}/{segment:04X}"


def precedes(a: NDArray[np.uint32], b: NDArray[np.uint32] | int) -> NDArray[np.bool_]:
    """Whether xids (or multixacts) ``a`` are older than ``b``, modulo 2^32 (TransactionIdPrecedes, without its
    special cases for the permanent xids 0, 1 and 2)."""
    difference = a.astype(np.uint32) - np.asarray(b, np.uint32)
    return np.asarray(difference.view(np.int32) < 0)


def xid_states(segments: Segments, xids: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """The two bits that pg_xact has for each xid (api.XID_*), XID_NOT_COVERED where it was not copied.

    ``segments`` is of XACT. The permanent xids 0, 1 and 2 have no special meaning here.
    """
    at = xids.astype(np.int64)
    byte, covered = _gather(segments, at // XIDS_PER_SEGMENT, at % XIDS_PER_SEGMENT // 4, np.dtype(np.uint8))
    states = (byte >> (at % 4 * 2).astype(np.uint8)) & np.uint8(3)
    return np.where(covered, states, np.uint8(XID_NOT_COVERED))


@dataclass(frozen=True, slots=True)
class MultiMembers:
    """The members of n multixacts: ``outcome`` uint8[n] is MULTI_FOUND or why there are none; the other arrays
    have one entry per member, ``multi`` being the index of its multixact, ascending."""

    outcome: NDArray[np.uint8]
    multi: NDArray[np.int64]
    xid: NDArray[np.uint32]
    status: NDArray[np.uint8]


def multixact_members(
    offsets: Segments, members: Segments, multis: NDArray[np.uint32], next_multi: int, next_offset: int
) -> MultiMembers:
    """The members of each multixact, from the segments of MULTI_OFFSETS and MULTI_MEMBERS.

    ``next_multi`` and ``next_offset`` are those that had not been given out (ControlFile, or the WAL): the newest
    multixact has no successor whose offset would tell where its members end. All members are held at once; for
    many multixacts see `multixact_updaters`.
    """
    outcome, start, length = _extents(offsets, multis, next_multi, next_offset)
    multi = np.repeat(np.arange(len(multis)), length)
    nth = np.arange(len(multi)) - np.repeat(np.cumsum(length) - length, length)
    at = (start[multi] + nth) % 2**32
    segment, within = at // MEMBERS_PER_SEGMENT, at % MEMBERS_PER_SEGMENT
    group = within // MEMBERS_PER_PAGE * PAGE_SIZE + within % MEMBERS_PER_PAGE // MEMBERS_PER_GROUP * GROUP_SIZE
    slot = within % MEMBERS_PER_GROUP
    status, has_status = _gather(members, segment, group + slot, np.dtype(np.uint8))
    xid, has_xid = _gather(members, segment, group + MEMBERS_PER_GROUP + 4 * slot, np.dtype("<u4"))
    # Slot 0 of the whole space is never given out: a multixact that wraps around has a hole there, of xid 0.
    real = xid != 0
    outcome[multi[real & (status > MULTI_UPDATE)]] = MULTI_DAMAGED
    # Any other xid of 0 is a member that was not written yet when the page was copied.
    outcome[multi[~(has_status & has_xid) | (~real & (at != 0))]] = MULTI_NO_MEMBERS
    found = np.bincount(multi[real], minlength=len(multis)) > 0
    outcome[(outcome == MULTI_FOUND) & ~found] = MULTI_DAMAGED
    keep = real & (outcome[multi] == MULTI_FOUND)
    return MultiMembers(outcome, multi[keep], xid[keep], status[keep])


def multixact_updaters(
    offsets: Segments, members: Segments, multis: NDArray[np.uint32], next_multi: int, next_offset: int
) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """The member of each multixact that updated or deleted (0: lockers only), and the outcome (MULTI_*) of each
    look-up: uint32[n] and uint8[n]; an updater is only meant where the outcome is MULTI_FOUND.

    Arguments as in `multixact_members`. Memory does not depend on how many members there are.
    """
    distinct, back = np.unique(multis, return_inverse=True)
    updaters = np.zeros(len(distinct), np.uint32)
    outcomes = np.zeros(len(distinct), np.uint8)
    _, _, length = _extents(offsets, distinct, next_multi, next_offset)
    for part in _batches(length):
        found = multixact_members(offsets, members, distinct[part], next_multi, next_offset)
        updating = found.status >= MULTI_NO_KEY_UPDATE
        several = np.bincount(found.multi[updating], minlength=len(found.outcome)) > 1
        updaters[part][found.multi[updating]] = found.xid[updating]
        outcomes[part] = np.where(several, np.uint8(MULTI_DAMAGED), found.outcome)
    return updaters[back], outcomes[back]


def _extents(
    offsets: Segments, multis: NDArray[np.uint32], next_multi: int, next_offset: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Outcome so far, first member and number of members of each multixact; the number is 0 if not found."""
    start, has_start = _offsets(offsets, multis)
    successor = np.where(multis == 2**32 - 1, np.uint32(FIRST_MULTI), multis + np.uint32(1))
    end, has_end = _offsets(offsets, successor)
    newest = successor == next_multi
    end = np.where(newest, np.int64(next_offset), end)
    length = (end - start) % 2**32
    outcome = np.full(len(multis), MULTI_FOUND, np.uint8)
    outcome[(length == 0) | (length > _MAX_MEMBERS)] = MULTI_DAMAGED
    outcome[~(has_end | newest)] = MULTI_NO_END
    outcome[~has_start] = MULTI_NO_OFFSET
    return outcome, start, np.where(outcome == MULTI_FOUND, length, 0)


def _offsets(offsets: Segments, multis: NDArray[np.uint32]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    at = multis.astype(np.int64)
    value, covered = _gather(offsets, at // OFFSETS_PER_SEGMENT, at % OFFSETS_PER_SEGMENT * 4, np.dtype("<u4"))
    return value.astype(np.int64), covered & (value != 0)


def _batches(length: NDArray[np.int64]) -> Iterator[slice]:
    """Slices of multixacts with about _BATCH_MEMBERS members each, and no more multixacts than that."""
    batch = np.cumsum(length + 1) // _BATCH_MEMBERS
    edges = [0, *(np.flatnonzero(np.diff(batch)) + 1).tolist(), len(length)]
    for first, end in pairwise(edges):
        if end > first:
            yield slice(first, end)


def _gather(
    segments: Segments, number: NDArray[np.int64], at: NDArray[np.int64], dtype: np.dtype[Any]
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The values at byte ``at`` (a multiple of the value's size) of segments ``number``, and where there are any.

    Grouped by segment, so that a look-up of many costs one sort and one gather per segment.
    """
    values = np.zeros(len(number), dtype)
    covered = np.zeros(len(number), np.bool_)
    order = np.argsort(number.astype(np.uint32), kind="stable")
    in_order = number[order]
    edges = [0, *(np.flatnonzero(np.diff(in_order)) + 1).tolist(), len(order)]
    for first, end in pairwise(edges):
        segment = segments.get(int(in_order[first])) if end > first else None
        if segment is None:
            continue
        stored = segment[: len(segment) // dtype.itemsize * dtype.itemsize].view(dtype)
        where = order[first:end]
        index = at[where] // dtype.itemsize
        there = index < len(stored)
        values[where[there]] = stored[index[there]]
        covered[where[there]] = True
    return values, covered
