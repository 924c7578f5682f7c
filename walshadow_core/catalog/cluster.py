"""What the source says of itself: the cluster, the database, and where its WAL is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import psycopg

from walshadow_core.api import Lsn, SourceError
from walshadow_core.catalog.connect import SourceConnection
from walshadow_core.pgformat.relpath import DEFAULT_TABLESPACE, GLOBAL_TABLESPACE

OLDEST_MAJOR, NEWEST_MAJOR = 15, 18
"""The majors whose formats are known."""

_BLOCK_SIZE = 8192


@dataclass(frozen=True)
class ClusterFacts:
    """Facts of the cluster and of the database that the DSN names.

    ``server_version`` is server_version_num (``170010``), ``system_identifier`` None where the role may not ask,
    ``encoding`` the database's (``UTF8``, ``LATIN1``, ``SQL_ASCII``…), ``segment_blocks`` the blocks of a full
    segment file of a relation. ``insert_lsn`` and ``flush_lsn`` were sampled before the catalog snapshot was
    taken; on a standby (``in_recovery``) both are the replay LSN. A commit below them need not be in the
    snapshot (postgres_facts: it is in the WAL before others see it). ``oldest_running_xid`` (32 bits): every
    transaction before it had ended then. ``cluster_bytes`` is the size of all
    databases, None where the role may not ask; ``tablespaces`` maps the oids of all but pg_default and
    pg_global to their folders at the source.
    """

    server_version: int
    system_identifier: int | None
    database: str
    database_oid: int
    encoding: str
    data_checksums: bool
    block_size: int
    segment_blocks: int
    wal_level: str
    max_wal_senders: int
    in_recovery: bool
    insert_lsn: Lsn
    flush_lsn: Lsn
    oldest_running_xid: int
    cluster_bytes: int | None
    tablespaces: Mapping[int, str]

    @property
    def major(self) -> int:
        """The server's major version."""
        return self.server_version // 10000


_FACTS = """
select pg_catalog.current_setting('server_version_num')::pg_catalog.int4,
  pg_catalog.current_database(), d.oid, pg_catalog.pg_encoding_to_char(d.encoding),
  pg_catalog.current_setting('data_checksums'),
  pg_catalog.current_setting('block_size')::pg_catalog.int4,
  (select setting from pg_catalog.pg_settings where name operator(pg_catalog.=) 'segment_size')::pg_catalog.int4,
  pg_catalog.current_setting('wal_level'),
  pg_catalog.current_setting('max_wal_senders')::pg_catalog.int4,
  pg_catalog.pg_is_in_recovery()
from pg_catalog.pg_database d
where d.datname operator(pg_catalog.=) pg_catalog.current_database()"""

_LSNS = """
select case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn()
            else pg_catalog.pg_current_wal_insert_lsn() end::pg_catalog.text,
       case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn()
            else pg_catalog.pg_current_wal_flush_lsn() end::pg_catalog.text,
       pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())::pg_catalog.text::pg_catalog.int8"""

_SYSTEM_IDENTIFIER = "select system_identifier from pg_catalog.pg_control_system()"

_CLUSTER_BYTES = """
select case when pg_catalog.bool_and(pg_catalog.has_database_privilege(d.oid, 'CONNECT')
                                     or pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE'))
            then (select pg_catalog.sum(pg_catalog.pg_database_size(oid)) from pg_catalog.pg_database) end
from pg_catalog.pg_database d"""

_TABLESPACES = """
select oid, pg_catalog.pg_tablespace_location(oid) from pg_catalog.pg_tablespace
where oid operator(pg_catalog.<>) all (%s::pg_catalog.oid[]) order by oid"""


def read_cluster(connection: SourceConnection) -> ClusterFacts:
    """Read the facts. The connection is in autocommit mode.

    All of it is open to every role by default, except pg_database_size of a database that it may not
    CONNECT to. Raises SourceError for a server whose formats are not known.
    """
    row = connection.execute(_FACTS).fetchone()
    lsns = connection.execute(_LSNS).fetchone()
    assert row is not None and lsns is not None
    version, database, oid, encoding, checksums, block_size, segment_blocks, wal_level, senders, recovery = row
    if not OLDEST_MAJOR <= version // 10000 <= NEWEST_MAJOR:
        raise SourceError(
            f"the source is Postgres {version // 10000}, whose formats are not known",
            f"Postgres {OLDEST_MAJOR} to {NEWEST_MAJOR} can be read",
        )
    if block_size != _BLOCK_SIZE:
        raise SourceError(f"the source was built with blocks of {block_size} bytes", f"only {_BLOCK_SIZE} can be read")
    identifier = _optional(connection, _SYSTEM_IDENTIFIER)
    return ClusterFacts(
        server_version=version,
        system_identifier=None if identifier is None else identifier & (2**64 - 1),
        database=database,
        database_oid=oid,
        encoding=encoding,
        data_checksums=checksums == "on",
        block_size=block_size,
        segment_blocks=segment_blocks,
        wal_level=wal_level,
        max_wal_senders=senders,
        in_recovery=recovery,
        insert_lsn=Lsn.parse(lsns[0]),
        flush_lsn=Lsn.parse(lsns[1]),
        oldest_running_xid=lsns[2] & 0xFFFFFFFF,
        cluster_bytes=_optional(connection, _CLUSTER_BYTES),
        tablespaces=dict(connection.execute(_TABLESPACES, ([DEFAULT_TABLESPACE, GLOBAL_TABLESPACE],)).fetchall()),
    )


def _optional(connection: SourceConnection, query: str) -> int | None:
    """A number that the role may not be allowed to read, or that a DROP DATABASE takes away meanwhile."""
    try:
        row = connection.execute(query).fetchone()
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedObject,
            psycopg.errors.UndefinedFile, psycopg.errors.InvalidCatalogName):  # fmt: skip
        return None
    return None if row is None or row[0] is None else int(row[0])
