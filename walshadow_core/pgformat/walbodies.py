"""What transaction, multixact, storage and relation map records say (``access/xact.h``, ``access/multixact.h``,
``catalog/storage_xlog.h``, ``utils/relmapper.h``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import (
    XID_ABORTED,
    XID_COMMITTED,
    Bytes,
    FormatError,
    Lsn,
    RelFileLocator,
)
from walshadow_core.pgformat.heap import load32
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.relmap import parse_relmap
from walshadow_core.pgformat.walnames import MULTIXACT, RELMAP, STORAGE, TRANSACTION
from walshadow_core.pgformat.walrecord import LOCATOR_SIZE, WalRecords

XACT_OPMASK: Final = 0x70
XACT_COMMIT, XACT_PREPARE, XACT_ABORT, XACT_COMMIT_PREPARED, XACT_ABORT_PREPARED = 0x00, 0x10, 0x20, 0x30, 0x40
XACT_HAS_INFO: Final = 0x80
HAS_DBINFO, HAS_SUBXACTS, HAS_RELFILELOCATORS, HAS_INVALS, HAS_TWOPHASE, HAS_DROPPED_STATS = 1, 2, 4, 8, 16, 256
"""XACT_XINFO_*."""
_TIME_SIZE: Final = 8
_INVALIDATION_SIZE: Final = 16

MULTIXACT_CREATE_ID: Final = 0x20
_CREATE_SIZE, _MEMBER_SIZE = 12, 8
FIRST_UPDATING_STATUS: Final = 4
"""MultiXactStatusNoKeyUpdate: it and what is above it are updates, what is below are locks."""

SMGR_CREATE, SMGR_TRUNCATE = 0x10, 0x20
SMGR_TRUNCATE_HEAP: Final = 1

RELMAP_UPDATE: Final = 0x00
_RELMAP_UPDATE_SIZE: Final = 12


@dataclass(frozen=True, slots=True)
class Endings:
    """Ends of transactions, in the order of the WAL: arrays of one length. ``record`` is the index of the record,
    ``state`` XID_COMMITTED or XID_ABORTED; a subtransaction ends with its parent. ``dropped`` (uint32[m, 3]:
    tablespace, database, relfilenumber) are the files that go with them, ``dropped_record`` the records that say so.
    """

    record: NDArray[np.int64]
    xid: NDArray[np.uint32]
    state: NDArray[np.uint8]
    dropped_record: NDArray[np.int64]
    dropped: NDArray[np.uint32]


@kernel
def _endings(
    buf: Bytes,
    chosen: NDArray[np.int64],
    info: NDArray[np.uint8],
    header_xid: NDArray[np.uint32],
    main_offset: NDArray[np.int64],
    main_length: NDArray[np.int64],
    stats_size: int,
    record: NDArray[np.int64],
    xid: NDArray[np.uint32],
    state: NDArray[np.uint8],
    dropped_record: NDArray[np.int64],
    dropped: NDArray[np.uint32],
) -> tuple[int, int, int]:
    """(count of xids, count of files, first record that is cut short or -1). The arrays have room for a quarter of all
    bytes of main data, and one per record."""
    n = files = 0
    for i in chosen:
        operation = int(info[i]) & XACT_OPMASK
        committed = operation in (XACT_COMMIT, XACT_COMMIT_PREPARED)
        at = main_offset[i]
        stop = at + main_length[i]
        xinfo = 0
        at += _TIME_SIZE
        if int(info[i]) & XACT_HAS_INFO != 0:
            if at + 4 > stop:
                return n, files, i
            xinfo = load32(buf, at)
            at += 4
        if xinfo & HAS_DBINFO != 0:
            at += 8
        first = n
        n += 1
        top = int(header_xid[i])
        for part in (HAS_SUBXACTS, HAS_RELFILELOCATORS, HAS_DROPPED_STATS, HAS_INVALS):
            # An abort has no invalidations.
            if xinfo & part == 0 or (part == HAS_INVALS and not committed):
                continue
            if at + 4 > stop:
                return n, files, i
            count = load32(buf, at)
            at += 4
            size = 4
            if part == HAS_RELFILELOCATORS:
                size = LOCATOR_SIZE
            elif part == HAS_DROPPED_STATS:
                size = stats_size
            elif part == HAS_INVALS:
                size = _INVALIDATION_SIZE
            if count * size > stop - at:
                return n, files, i
            if part == HAS_SUBXACTS:
                for k in range(count):
                    xid[n] = load32(buf, at + 4 * k)
                    n += 1
            elif part == HAS_RELFILELOCATORS:
                for k in range(count):
                    dropped_record[files] = i
                    for word in range(3):
                        dropped[files, word] = load32(buf, at + LOCATOR_SIZE * k + 4 * word)
                    files += 1
            at += count * size
        if xinfo & HAS_TWOPHASE != 0:
            if at + 4 > stop:
                return n, files, i
            top = load32(buf, at)
        if at > stop:
            return n, files, i
        xid[first] = top
        record[first:n] = i
        state[first:n] = XID_COMMITTED if committed else XID_ABORTED
    return n, files, -1


def endings(records: WalRecords, major: int) -> Endings:
    """The ends of transactions among ``records``. Raises FormatError for a record that is cut short."""
    chosen = np.flatnonzero(records.rmgr == TRANSACTION)
    operation = records.info[chosen] & XACT_OPMASK
    chosen = chosen[np.isin(operation, (XACT_COMMIT, XACT_ABORT, XACT_COMMIT_PREPARED, XACT_ABORT_PREPARED))]
    room = int(records.data_length[chosen].sum()) // 4 + len(chosen)
    record, dropped_record = np.empty((2, room), np.int64)
    xid, state = np.empty(room, np.uint32), np.empty(room, np.uint8)
    dropped = np.empty((room, 3), np.uint32)
    # xl_xact_stats_item has a wider object id since 18.
    n, files, bad = _endings(
        records.buf, chosen, records.info, records.xid, records.data_offset, records.data_length,
        16 if major >= 18 else 12, record, xid, state, dropped_record, dropped,
    )  # fmt: skip
    if bad >= 0:
        raise _cut_short(records, bad)
    return Endings(record[:n], xid[:n], state[:n], dropped_record[:files], dropped[:files])


@kernel
def _multixacts(
    buf: Bytes,
    chosen: NDArray[np.int64],
    main_offset: NDArray[np.int64],
    main_length: NDArray[np.int64],
    multi: NDArray[np.uint32],
    offset: NDArray[np.uint32],
    updater: NDArray[np.uint32],
) -> int:
    for n, i in enumerate(chosen):
        at = main_offset[i]
        if main_length[i] < _CREATE_SIZE:
            return int(i)
        members = load32(buf, at + 8)
        if members * _MEMBER_SIZE > main_length[i] - _CREATE_SIZE:
            return int(i)
        multi[n] = load32(buf, at)
        offset[n] = load32(buf, at + 4)
        updater[n] = 0
        for k in range(members):
            member = at + _CREATE_SIZE + _MEMBER_SIZE * k
            if load32(buf, member + 4) >= FIRST_UPDATING_STATUS:
                updater[n] = load32(buf, member)
    return -1


def multixacts(records: WalRecords) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]:
    """(multixact ids that were made, the number of each one's first member, its updating member; 0: all are lockers).
    Raises FormatError."""
    chosen = np.flatnonzero((records.rmgr == MULTIXACT) & (records.info & 0xF0 == MULTIXACT_CREATE_ID))
    multi, offset, updater = np.empty((3, len(chosen)), np.uint32)
    bad = _multixacts(records.buf, chosen, records.data_offset, records.data_length, multi, offset, updater)
    if bad >= 0:
        raise _cut_short(records, bad)
    return multi, offset, updater


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that was made (``blocks`` None), or its main fork cut to that many blocks, by record ``record``."""

    record: int
    locator: RelFileLocator
    blocks: int | None


def file_changes(records: WalRecords) -> list[FileChange]:
    """What storage records say of main forks, in order. They are few. Raises FormatError."""
    found = []
    for i in np.flatnonzero(records.rmgr == STORAGE).tolist():
        at, size = int(records.data_offset[i]), int(records.data_length[i])
        words = np.frombuffer(records.buf[at : at + size].tobytes().ljust(20, b"\0"), "<u4", 5).tolist()
        kind = int(records.info[i]) & 0xF0
        if kind == SMGR_CREATE and size >= 16:
            if words[3] == 0:
                found.append(FileChange(i, RelFileLocator(*words[:3]), None))
        elif kind == SMGR_TRUNCATE and size >= 20:
            if words[4] & SMGR_TRUNCATE_HEAP:
                found.append(FileChange(i, RelFileLocator(*words[1:4]), words[0]))
        else:
            raise _cut_short(records, i)
    return found


def map_updates(records: WalRecords) -> dict[tuple[int, int], Mapping[int, int]]:
    """The relation maps that were written, the last of each, by tablespace and database (0: the shared one): see
    `parse_relmap`. Raises FormatError."""
    found = {}
    for i in np.flatnonzero((records.rmgr == RELMAP) & (records.info & 0xF0 == RELMAP_UPDATE)).tolist():
        at, size = int(records.data_offset[i]), int(records.data_length[i])
        data = records.buf[at : at + size].tobytes()
        database, tablespace, length = np.frombuffer(data[:_RELMAP_UPDATE_SIZE].ljust(12, b"\0"), "<u4").tolist()
        if length != size - _RELMAP_UPDATE_SIZE:
            raise _cut_short(records, i)
        record = f"the relation map in the WAL record at {Lsn(records.start[i])}"
        found[tablespace, database] = parse_relmap(data[_RELMAP_UPDATE_SIZE:], record)
    return found


def _cut_short(records: WalRecords, index: int) -> FormatError:
    return FormatError(
        f"the WAL record at {Lsn(records.start[index])} is shorter than it says",
        "check the source with pg_waldump; if it reads there, report this",
    )
