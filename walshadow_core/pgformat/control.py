"""``global/pg_control`` (``catalog/pg_control.h``) of the majors 15 to 18."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any

import google_crc32c
import numpy as np

from walshadow_core.api import FormatError, Lsn

CONTROL_PATH = "global/pg_control"


class ClusterState(IntEnum):
    """DBState: how the cluster was left."""

    STARTUP = 0
    SHUT_DOWN = 1
    SHUT_DOWN_IN_RECOVERY = 2
    SHUTTING_DOWN = 3
    IN_CRASH_RECOVERY = 4
    IN_ARCHIVE_RECOVERY = 5
    IN_PRODUCTION = 6


@dataclass(frozen=True, slots=True)
class ControlFile:
    """What pg_control says, under the names of ControlFileData and its CheckPoint copy.

    Fields from ``redo`` to ``oldest_active_xid`` are of the latest checkpoint. ``next_xid`` has the epoch in its
    upper 32 bits. Times are seconds since 1970. ``data_checksum_version`` is 0 without data checksums;
    ``relseg_size`` counts blocks. The authentication nonce is left out: nobody needs it.
    """

    system_identifier: int
    pg_control_version: int
    catalog_version: int
    state: ClusterState
    time: int
    checkpoint: Lsn
    redo: Lsn
    timeline: int
    previous_timeline: int
    full_page_writes: bool
    next_xid: int
    next_oid: int
    next_multi: int
    next_multi_offset: int
    oldest_xid: int
    oldest_xid_database: int
    oldest_multi: int
    oldest_multi_database: int
    checkpoint_time: int
    oldest_commit_ts_xid: int
    newest_commit_ts_xid: int
    oldest_active_xid: int
    unlogged_lsn: Lsn
    min_recovery_point: Lsn
    min_recovery_timeline: int
    backup_start_point: Lsn
    backup_end_point: Lsn
    backup_end_required: bool
    wal_level: int
    wal_log_hints: bool
    max_connections: int
    max_worker_processes: int
    max_wal_senders: int
    max_prepared_xacts: int
    max_locks_per_xact: int
    track_commit_timestamp: bool
    max_align: int
    blcksz: int
    relseg_size: int
    xlog_blcksz: int
    xlog_seg_size: int
    name_data_len: int
    index_max_keys: int
    toast_max_chunk_size: int
    loblksize: int
    float8_by_value: bool
    data_checksum_version: int


WAL_LEVELS = ("minimal", "replica", "logical")
"""WalLevel (``access/xlog.h``): names of ``wal_level``."""

_FLOAT_FORMAT = 1234567.0
"""FLOATFORMAT_VALUE: a double as this machine should see it."""

# The C structs in their order; NumPy aligns as the compiler does.
_CHECKPOINT: list[tuple[str, str]] = [
    ("redo", "<u8"), ("timeline", "<u4"), ("previous_timeline", "<u4"), ("full_page_writes", "?"),
    ("checkpoint_wal_level", "<i4"),  # padding before version 1700
    ("next_xid", "<u8"), ("next_oid", "<u4"), ("next_multi", "<u4"), ("next_multi_offset", "<u4"),
    ("oldest_xid", "<u4"), ("oldest_xid_database", "<u4"), ("oldest_multi", "<u4"),
    ("oldest_multi_database", "<u4"), ("checkpoint_time", "<i8"), ("oldest_commit_ts_xid", "<u4"),
    ("newest_commit_ts_xid", "<u4"), ("oldest_active_xid", "<u4"),
]  # fmt: skip
_BODY: list[tuple[str, str]] = [
    ("system_identifier", "<u8"), ("pg_control_version", "<u4"), ("catalog_version", "<u4"), ("state", "<i4"),
    ("time", "<i8"), ("checkpoint", "<u8"), *_CHECKPOINT, ("unlogged_lsn", "<u8"), ("min_recovery_point", "<u8"),
    ("min_recovery_timeline", "<u4"), ("backup_start_point", "<u8"), ("backup_end_point", "<u8"),
    ("backup_end_required", "?"), ("wal_level", "<i4"), ("wal_log_hints", "?"), ("max_connections", "<i4"),
    ("max_worker_processes", "<i4"), ("max_wal_senders", "<i4"), ("max_prepared_xacts", "<i4"),
    ("max_locks_per_xact", "<i4"), ("track_commit_timestamp", "?"), ("max_align", "<u4"), ("float_format", "<f8"),
    ("blcksz", "<u4"), ("relseg_size", "<u4"), ("xlog_blcksz", "<u4"), ("xlog_seg_size", "<u4"),
    ("name_data_len", "<u4"), ("index_max_keys", "<u4"), ("toast_max_chunk_size", "<u4"), ("loblksize", "<u4"),
    ("float8_by_value", "?"), ("data_checksum_version", "<u4"),
]  # fmt: skip
_TAIL: list[tuple[str, str]] = [("nonce", "V32"), ("crc", "<u4")]
_SIGNEDNESS: list[tuple[str, str]] = [("default_char_signedness", "?")]

_UP_TO_17 = np.dtype(_BODY + _TAIL, align=True)
_18 = np.dtype(_BODY + _SIGNEDNESS + _TAIL, align=True)
_LAYOUTS = {1300: _UP_TO_17, 1700: _UP_TO_17, 1800: _18}
"""pg_control_version: 1300 in 15 and 16, 1700 in 17, 1800 in 18."""

_LSNS = frozenset(
    {
        "checkpoint", "redo", "unlogged_lsn", "min_recovery_point", "backup_start_point", "backup_end_point",
    }
)  # fmt: skip


def parse_control(data: bytes) -> ControlFile:
    """What a pg_control file says. Raises FormatError for another version, a wrong CRC, or too few bytes."""
    if len(data) < 16:
        raise FormatError(f"pg_control has {len(data)} bytes only", "the backup is incomplete: take another")
    version = int.from_bytes(data[8:12], "little")
    layout = _LAYOUTS.get(version)
    if layout is None:
        raise FormatError(
            f"pg_control has version {version}", "supported are PostgreSQL 15 to 18 on little-endian machines"
        )
    if len(data) < layout.itemsize:
        raise FormatError(
            f"pg_control has {len(data)} of {layout.itemsize} bytes", "the backup is incomplete: take another"
        )
    record = np.frombuffer(data, layout, count=1)[0]
    crc_at = _field_offset(layout, "crc")
    if google_crc32c.value(bytes(data[:crc_at])) != int(record["crc"]):
        raise FormatError("pg_control's CRC does not match its content", "the backup is damaged: take another")
    if float(record["float_format"]) != _FLOAT_FORMAT or int(record["max_align"]) != 8:
        raise FormatError("pg_control is of a machine with another alignment or floating-point format")
    if int(record["state"]) not in list(ClusterState):
        raise FormatError(f"pg_control has the unknown cluster state {int(record['state'])}")
    values: dict[str, Any] = {f.name: _value(f.name, record[f.name].item()) for f in fields(ControlFile)}
    return ControlFile(**values)


def _field_offset(layout: np.dtype[Any], name: str) -> int:
    assert layout.fields is not None
    return int(layout.fields[name][1])


def _value(name: str, value: int | bool) -> int | bool | Lsn | ClusterState:
    if name == "state":
        return ClusterState(value)
    return Lsn(value) if name in _LSNS else value
