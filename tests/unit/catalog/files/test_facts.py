"""ClusterFacts out of pg_control: running servers, shut down ones, standbys, and versions that are not known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from walshadow_core.api import BackupStart, Lsn, SourceError
from walshadow_core.catalog.files.facts import cluster_facts, major_of
from walshadow_core.catalog.rows import DatabaseRow
from walshadow_core.pgformat.control import ClusterState, ControlFile

CONTROL = ControlFile(
    system_identifier=77, pg_control_version=1700, catalog_version=1, state=ClusterState.IN_PRODUCTION, time=0,
    checkpoint=Lsn(900), redo=Lsn(800), timeline=1, previous_timeline=1, full_page_writes=True, next_xid=1000,
    next_oid=1, next_multi=1, next_multi_offset=0, oldest_xid=3, oldest_xid_database=1, oldest_multi=1,
    oldest_multi_database=1, checkpoint_time=0, oldest_commit_ts_xid=0, newest_commit_ts_xid=0, oldest_active_xid=990,
    unlogged_lsn=Lsn(0), min_recovery_point=Lsn(0), min_recovery_timeline=0, backup_start_point=Lsn(0),
    backup_end_point=Lsn(0), backup_end_required=False, wal_level=1, wal_log_hints=False, max_connections=100,
    max_worker_processes=8, max_wal_senders=10, max_prepared_xacts=0, max_locks_per_xact=64,
    track_commit_timestamp=False, max_align=8, blcksz=8192, relseg_size=131072, xlog_blcksz=8192, xlog_seg_size=1 << 24,
    name_data_len=64, index_max_keys=32, toast_max_chunk_size=1996, loblksize=2048, float8_by_value=True,
    data_checksum_version=1,
)  # fmt: skip
START = BackupStart(Lsn(800), 1, 77, 170010, {16400: "/space"}, 123)
DATABASE = DatabaseRow(5, "app", "UTF8", 1663)


def test_of_a_primary() -> None:
    facts = cluster_facts(START, CONTROL, DATABASE)
    assert (facts.insert_lsn, facts.flush_lsn, facts.oldest_running_xid) == (Lsn(800), Lsn(800), 990)
    assert (facts.wal_level, facts.in_recovery, facts.data_checksums) == ("replica", False, True)
    assert (facts.database, facts.database_oid, facts.encoding, facts.cluster_bytes) == ("app", 5, "UTF8", 123)
    assert facts.tablespaces == {16400: "/space"} and facts.major == 17


def test_a_checkpoint_of_a_shutdown_knows_no_running_transaction() -> None:
    assert cluster_facts(START, replace(CONTROL, oldest_active_xid=0), DATABASE).oldest_running_xid == 3


def test_of_a_standby() -> None:
    control = replace(CONTROL, state=ClusterState.IN_ARCHIVE_RECOVERY, min_recovery_point=Lsn(5000))
    facts = cluster_facts(START, control, DATABASE)
    assert facts.in_recovery and facts.flush_lsn == Lsn(5000)


def test_what_is_not_known_is_refused() -> None:
    assert major_of(START, CONTROL) == 17
    for version in (140000, 190000):
        with pytest.raises(SourceError, match="formats are not known"):
            major_of(replace(START, server_version=version), CONTROL)
    with pytest.raises(SourceError, match="blocks of 16384 bytes"):
        major_of(START, replace(CONTROL, blcksz=16384))
