"""Facts of cluster and database, on a primary and a standby, for a role with nothing but LOGIN."""

from __future__ import annotations

import re
import threading

import pytest

from tests.integration.catalog.support import Database
from walshadow_core.api import Lsn
from walshadow_core.catalog.moment import Moment
from walshadow_core.catalog.sql import read_catalog
from walshadow_core.testing.postgres import PostgresServer


def test_cluster_facts(db: Database) -> None:
    server = db.server
    before = Lsn.parse(db.value("select pg_current_wal_flush_lsn()::text"))
    facts = db.catalog().cluster
    after = Lsn.parse(db.value("select pg_current_wal_insert_lsn()::text"))
    control = dict(re.findall(r"^(.+?):\s+(.+)$", server.run("pg_controldata", str(server.data)).stdout, re.M))
    assert facts.system_identifier == int(control["Database system identifier"])
    assert facts.block_size == int(control["Database block size"])
    assert facts.segment_blocks == int(control["Blocks per segment of large relation"])
    assert facts.data_checksums == (control["Data page checksum version"] != "0")
    assert facts.major == server.major and str(facts.server_version).startswith(str(server.major))
    assert (facts.database, facts.encoding) == (db.name, "UTF8")
    assert facts.database_oid == db.value("select oid from pg_database where datname = current_database()")
    assert facts.wal_level == "replica" and facts.max_wal_senders == 8 and not facts.in_recovery
    assert before <= facts.flush_lsn <= facts.insert_lsn <= after
    assert facts.cluster_bytes == pytest.approx(
        sum(size for (size,) in db.execute("select pg_database_size(oid) from pg_database")), rel=0.2)  # fmt: skip


def see_what_it_has_not_replayed(pg: PostgresServer, standby: PostgresServer) -> None:
    standby.execute("select pg_wal_replay_pause()")
    pg.execute("alter table on_standby add later int")
    moment = Moment(Lsn.parse(pg.execute("select pg_current_wal_flush_lsn()::text")[0][0]), lambda running, _: running)
    timer = threading.Timer(0.5, standby.execute, ["select pg_wal_replay_resume()"])
    timer.start()
    (relation,) = read_catalog(standby.dsn(), ["on_standby"], seeing=moment).relations
    timer.join()
    assert relation.attributes[-1].name == "later"


def test_a_standby(pg: PostgresServer) -> None:
    pg.execute("drop table if exists on_standby; create table on_standby (id int primary key, t text)")
    pg.execute("insert into on_standby values (1, 'x'); alter table on_standby add n numeric(8,2) not null default 1.5")
    lsn = pg.execute("select pg_current_wal_flush_lsn()::text")[0][0]
    with PostgresServer(pg.major, standby_of=pg) as standby:
        standby.wait_replayed(lsn)
        there = read_catalog(standby.dsn(), ["on_standby"])
        here = read_catalog(pg.dsn(), ["on_standby"])
        see_what_it_has_not_replayed(pg, standby)
    assert there.relations == here.relations and there.refused == ()
    assert there.cluster.in_recovery and there.cluster.system_identifier == here.cluster.system_identifier
    assert there.cluster.flush_lsn == there.cluster.insert_lsn >= Lsn.parse(lsn)
    pg.execute("drop table on_standby")


def test_a_plain_role(db: Database, role: str) -> None:
    db.execute("""
        create schema closed; revoke all on schema closed from public;
        create table closed.t (id int primary key, x text); revoke all on closed.t from public;
        alter table closed.t add y text not null default 'y'; insert into closed.t values (1)""")
    plain = db.catalog("closed.t", user=role)
    assert plain.relations == db.catalog("closed.t").relations and plain.refused == ()
    assert plain.cluster.system_identifier is not None
    other = f"closed_{role}"
    db.execute(f"create database {other}")
    db.execute(f"revoke connect on database {other} from public")
    assert db.catalog(user=role).cluster.cluster_bytes is None
    db.execute(f"grant pg_read_all_stats to {role}")
    assert db.catalog(user=role).cluster.cluster_bytes is not None
    db.execute(f"drop database {other}")
    db.execute("revoke execute on function pg_control_system() from public")
    assert db.catalog(user=role).cluster.system_identifier is None
