"""What a backup says of its cluster: `ClusterFacts` without SQL."""

from __future__ import annotations

from walshadow_core.api import BackupStart, Lsn, SourceError
from walshadow_core.catalog.cluster import NEWEST_MAJOR, OLDEST_MAJOR, ClusterFacts
from walshadow_core.catalog.rows import DatabaseRow
from walshadow_core.pgformat.control import WAL_LEVELS, ClusterState, ControlFile
from walshadow_core.pgformat.heap import PAGE_SIZE


def major_of(start: BackupStart, control: ControlFile) -> int:
    """The backup's major. Raises SourceError for one whose formats are not known."""
    major = start.server_version // 10000
    if not OLDEST_MAJOR <= major <= NEWEST_MAJOR:
        raise SourceError(
            f"the backup is of Postgres {major}, whose formats are not known",
            f"Postgres {OLDEST_MAJOR} to {NEWEST_MAJOR} can be read",
        )
    if control.blcksz != PAGE_SIZE:
        raise SourceError(
            f"the source was built with blocks of {control.blcksz} bytes", f"only {PAGE_SIZE} can be read"
        )
    return major


def cluster_facts(start: BackupStart, control: ControlFile, database: DatabaseRow) -> ClusterFacts:
    """The facts, as far as a backup has them: the LSNs are those at which it began, and the transactions that were
    running are those that its last checkpoint knew of. A checkpoint that a shutdown made knew none but prepared ones,
    which it does not list: then every transaction that may still run counts as running."""
    return ClusterFacts(
        server_version=start.server_version,
        system_identifier=start.system_identifier,
        database=database.name,
        database_oid=database.oid,
        encoding=database.encoding,
        data_checksums=control.data_checksum_version != 0,
        block_size=control.blcksz,
        segment_blocks=control.relseg_size,
        wal_level=WAL_LEVELS[control.wal_level] if control.wal_level < len(WAL_LEVELS) else str(control.wal_level),
        max_wal_senders=control.max_wal_senders,
        in_recovery=control.state in (ClusterState.IN_ARCHIVE_RECOVERY, ClusterState.SHUT_DOWN_IN_RECOVERY),
        insert_lsn=start.b_redo,
        flush_lsn=Lsn(max(start.b_redo, control.min_recovery_point)),
        oldest_running_xid=control.oldest_active_xid or control.oldest_xid,
        cluster_bytes=start.size_estimate,
        tablespaces=dict(start.tablespaces),
    )
