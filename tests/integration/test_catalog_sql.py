"""Descriptors from SQL against what real servers say by other means."""

from __future__ import annotations

import os
import re
import struct
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from walshadow_core.api import Lsn, RelationDescriptor, RelFileLocator, SourceError, UsageError
from walshadow_core.catalog import sql
from walshadow_core.catalog.names import parse_qualified
from walshadow_core.catalog.sql import CatalogSnapshot, read_catalog
from walshadow_core.decode.types import CODECS
from walshadow_core.testing.postgres import PostgresServer


@dataclass
class Database:
    """A database of its own in a shared server."""

    server: PostgresServer
    name: str

    def execute(self, text: str, params: Any = None) -> list[tuple[Any, ...]]:
        with self.server.connect(self.name, client_encoding="UTF8") as connection:
            cursor = connection.execute(text.encode(), params)
            while cursor.nextset():
                pass
            return cursor.fetchall() if cursor.description else []

    def value(self, text: str, params: Any = None) -> Any:
        return self.execute(text, params)[0][0]

    def dsn(self, **more: str) -> str:
        return make_conninfo(self.server.dsn(self.name), **more)

    def catalog(self, *tables: str, **more: str) -> CatalogSnapshot:
        return read_catalog(self.dsn(**more), tables)

    def one(self, table: str, **more: str) -> RelationDescriptor:
        snapshot = self.catalog(table, **more)
        assert snapshot.refused == ()
        (relation,) = snapshot.relations
        return relation

    def reason(self, table: str, **more: str) -> str:
        snapshot = self.catalog(table, **more)
        assert snapshot.relations == ()
        ((name, reason),) = snapshot.refused
        assert name == table and "\n" not in reason
        return reason


@pytest.fixture
def make_database(pg: PostgresServer) -> Iterator[Callable[..., Database]]:
    made: list[str] = []

    def make(options: str = "") -> Database:
        name = f"catalog_{uuid.uuid4().hex[:12]}"
        pg.execute(f"create database {name} {options}")
        made.append(name)
        return Database(pg, name)

    yield make
    for name in made:
        pg.execute(f"drop database {name} with (force)")


@pytest.fixture
def db(make_database: Callable[..., Database]) -> Database:
    return make_database()


@pytest.fixture
def role(db: Database) -> Iterator[str]:
    """A role with nothing but LOGIN."""
    name = f"plain_{uuid.uuid4().hex[:12]}"
    db.execute(f"create role {name} login")
    yield name
    db.execute(f"drop owned by {name} cascade; drop role {name}")


# ------------------------------------------------------------------------------------------ the cluster


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


def test_a_standby(pg: PostgresServer) -> None:
    pg.execute("drop table if exists on_standby; create table on_standby (id int primary key, t text)")
    pg.execute("insert into on_standby values (1, 'x'); alter table on_standby add n numeric(8,2) not null default 1.5")
    lsn = pg.execute("select pg_current_wal_flush_lsn()::text")[0][0]
    with PostgresServer(pg.major, standby_of=pg) as standby:
        standby.wait_replayed(lsn)
        there = read_catalog(standby.dsn(), ["on_standby"])
        here = read_catalog(pg.dsn(), ["on_standby"])
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


# ---------------------------------------------------------------------------------------- descriptors


def _every_type(major: int) -> str:
    virtual = ", v int generated always as (a + 1) virtual" if major >= 18 else ""
    return f"""
        create table everything (a int not null, b bool, c "char", d int2, e int8, f oid, g float4, h float8,
          i numeric, j numeric(10,2), k numeric(3,-2), l text, m varchar(10), n bpchar, o char(7), p name, q bytea,
          r date, s time(3), t timetz, u timestamp, w timestamptz(0), x interval day to second, y uuid, z json,
          aa jsonb, ab int[], ac int generated always as (a * 2) stored{virtual}, "Zürich ""x"" ." text,
          primary key (l, a))"""


def test_every_field(db: Database) -> None:
    db.execute(_every_type(db.server.major))
    db.execute("insert into everything (a, l) select g, repeat('x', 100) from generate_series(1, 1000) g")
    relation = db.one("everything")
    row = db.execute("""
        select 'everything'::regclass::oid::int8, pg_relation_filepath('everything'), relkind, relpersistence,
          relreplident, reltoastrelid::int8, pg_relation_filepath(reltoastrelid),
          pg_relation_size('everything') from pg_class where oid = 'everything'::regclass""")[0]
    oid, path, kind, persistence, identity, toast, toast_path, size = row
    database = db.catalog().cluster.database_oid
    assert (relation.oid, relation.database, relation.schema, relation.name) == (
        oid, db.name, "public", "everything")  # fmt: skip
    assert relation.locator == RelFileLocator(1663, database, int(path.rpartition("/")[2]))
    assert relation.toast_locator == RelFileLocator(1663, database, int(toast_path.rpartition("/")[2]))
    assert (relation.kind, relation.persistence, relation.replica_identity) == (kind, persistence, identity)
    assert (relation.toast_oid, relation.size_bytes, relation.encoding) == (toast, size, "UTF8")
    assert size > 0 and relation.key_names == ("l", "a")
    expected = db.execute("""
        select attnum, attname, atttypid::int8, format_type(atttypid, atttypmod), atttypmod, attlen, attalign,
          attbyval, attstorage, attnotnull, attisdropped, attgenerated
        from pg_attribute where attrelid = 'everything'::regclass and attnum > 0 order by attnum""")
    assert [(a.number, a.name, a.type_oid, a.type_name, a.typmod, a.length, a.alignment, a.by_value, a.storage,
             a.not_null, a.dropped, a.generated) for a in relation.attributes] == expected  # fmt: skip
    assert all(a.missing is None for a in relation.attributes)
    assert {a.generated for a in relation.attributes} == {"", "s"} | ({"v"} if db.server.major >= 18 else set())


def test_a_table_without_toast_and_without_columns(db: Database) -> None:
    db.execute("create table narrow (a int); create table none ()")
    assert db.one("narrow").toast_oid == 0 and db.one("narrow").toast_locator is None
    assert db.one("none").attributes == () == db.one("none").key
    assert db.one("none").size_bytes == 0


def test_a_rewritten_table_has_its_new_file(db: Database) -> None:
    db.execute("create table t (a int, x text); insert into t select g from generate_series(1, 99) g")
    before = db.one("t")
    db.execute("vacuum full t")
    after = db.one("t")
    assert after.oid == before.oid and after.locator != before.locator
    assert after.toast_locator != before.toast_locator and after.toast_oid == before.toast_oid
    assert after.locator.number == db.value("select pg_relation_filenode('t')::int8")


def test_dropped_columns_leave_no_gap(db: Database) -> None:
    db.execute("""create table t (a int, b text, c numeric(9,1) not null default 1, d int);
        insert into t values (1); alter table t add e text default 'e', add f int;
        alter table t drop column b, drop column c, drop column e""")
    relation = db.one("t")
    assert [a.number for a in relation.attributes] == [1, 2, 3, 4, 5, 6]
    assert [a.dropped for a in relation.attributes] == [False, True, True, False, True, False]
    assert [a.name for a in relation.columns] == ["a", "d", "f"]
    layout = db.execute("select attlen, attalign from pg_attribute where attrelid = 't'::regclass and attnum > 0 "
                        "order by attnum")  # fmt: skip
    assert [(a.length, a.alignment) for a in relation.attributes] == layout
    assert all(a.missing is None and a.type_name == "" for a in relation.attributes if a.dropped)


def test_a_tablespace(db: Database) -> None:
    server = db.server
    assert server.root is not None
    space = f"space_{uuid.uuid4().hex[:8]}"
    folder = server.root / space
    folder.mkdir()
    os.chown(folder, server.data.stat().st_uid, server.data.stat().st_gid)
    db.execute(f"create tablespace {space} location '{folder}'")
    try:
        db.execute(f"create table here (x text); create table there (x text) tablespace {space}")
        oid = db.value("select oid::int8 from pg_tablespace where spcname = %s", (space,))
        snapshot = db.catalog("here", "there")
        here, there = snapshot.relations
        assert snapshot.cluster.tablespaces[oid] == str(folder)
        assert here.locator.tablespace == 1663 and there.locator.tablespace == oid
        assert there.toast_locator is not None and there.toast_locator.tablespace == oid
        db.execute("drop table there")
        server.execute(f"alter database {db.name} set tablespace {space}")
        moved = db.one("here")
        assert moved.locator.tablespace == oid, "the database's own tablespace stands for 0"
        assert f"pg_tblspc/{oid}/" in db.value("select pg_relation_filepath('here')")
    finally:
        server.execute(f"alter database {db.name} set tablespace pg_default")
        server.execute(f"drop tablespace {space}")


# -------------------------------------------------------------------------------------- missing values

_DEFAULTS = {
    "bool": ["true", "false"],
    '"char"': ["'x'", r"'\200'"],
    "int2": ["-32768"],
    "int4": ["-2"],
    "int8": ["9223372036854775807"],
    "oid": ["4294967295"],
    "float4": ["'-0'", "'NaN'", "1.1"],
    "float8": ["0.1", "'-Infinity'", "5e-324", "0.30000000000000004"],
    "numeric": ["0", "'NaN'", "'Infinity'", "'-Infinity'", "-12345678901234567890.000120", "1e-20", "1e40", "0.00"],
    "numeric(10,2)": ["3.5", "-99999999.99", "0"],
    "numeric(3,-2)": ["12345"],
    "numeric(1000,950)": ["1e-900"],
    "text": ["''", "'héllo wörld'", "repeat('long ', 800)"],
    "varchar(20)": ["'v'"],
    "char(5)": ["'ab'"],
    "name": ["'some_name'"],
    "bytea": [r"'\x00ff'", "''"],
    "date": ["'2024-02-29'", "'infinity'", "'4713-01-01 BC'", "'5874897-12-31'"],
    "time": ["'24:00:00'", "'12:34:56.789012'"],
    "timetz": ["'12:34:56.789012+05:30'", "'00:00:00-15:59:59'"],
    "timestamp": ["'2024-01-01 00:00:00.000001'", "'-infinity'", "'294276-12-31 23:59:59.999999'"],
    "timestamptz": ["'2024-01-01 00:00:00+01'", "'infinity'", "'1800-01-01 00:00:00 Europe/Amsterdam'"],
    "interval": ["'-1 mon +2 days -00:00:01.5'", "'178000000 years'", "'0'"],
    "uuid": ["'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"],
    "json": ['\'{"a":  1, "ü": null}\''],
}


def _stored(server: PostgresServer, path: str, varlena: bool) -> bytes:
    """The bytes of the first tuple's first column in a heap file, without its varlena header."""
    page = (server.data / path).read_bytes()[:8192]
    (pointer,) = struct.unpack_from("<I", page, 24)
    start, length = pointer & 0x7FFF, pointer >> 17
    value = page[start + page[start + 22] : start + length]
    if not varlena:
        return value
    if value[0] & 1:
        return value[1 : value[0] >> 1]
    (header,) = struct.unpack_from("<I", value)
    assert header & 3 == 0, "the test's table keeps its values plain"
    return value[4 : header >> 2]


def test_missing_values_are_what_an_insert_stores(db: Database) -> None:
    """ADD COLUMN … DEFAULT of every type, against the bytes of a row that has the value."""
    columns = [(f"c{i}", type_, value) for i, (type_, value) in
               enumerate((t, v) for t, values in _DEFAULTS.items() for v in values)]  # fmt: skip
    db.execute("create table t (a int); insert into t values (1)")
    db.execute("alter table t " + ", ".join(f"add {n} {t} default {v}" for n, t, v in columns))
    fast = db.value("select count(*) from pg_attribute where attrelid = 't'::regclass and atthasmissing")
    assert fast == len(columns), "none of them rewrote the table"
    relation = db.one("t")
    assert {a.type_oid for a in relation.attributes} == set(CODECS), "no type that can be decoded is left out"
    for (name, type_, value), attribute in zip(columns, relation.attributes[1:], strict=True):
        varlena = attribute.length == -1
        plain = f"alter table {name} alter x set storage plain;" if varlena else ""
        db.execute(f"create table {name} (x {type_}); {plain} insert into {name} values ({value})")
    db.execute("checkpoint")
    for (name, type_, value), attribute in zip(columns, relation.attributes[1:], strict=True):
        stored = _stored(db.server, db.value(f"select pg_relation_filepath('{name}')"), attribute.length == -1)
        assert attribute.missing == stored, f"{type_} default {value}"
        db.execute(f"drop table {name}")


def test_settings_of_the_role_change_nothing(db: Database, role: str) -> None:
    db.execute("create table t (a int); insert into t values (1)")
    db.execute("""alter table t add b float8 default 0.1, add c timestamptz default '2024-01-02 03:04:05+01',
        add d interval default '-1 mon 2 days -00:00:01', add e bytea default '\\x00', add f date default '2024-02-01',
        add g text default 'ü'""")
    plain = db.one("t")
    db.execute(f"""alter role {role} set extra_float_digits = -15; alter role {role} set datestyle = 'German';
        alter role {role} set intervalstyle = 'sql_standard'; alter role {role} set timezone = 'Asia/Tokyo';
        alter role {role} set bytea_output = 'escape'; alter role {role} set client_encoding = 'LATIN1';
        alter role {role} set default_transaction_isolation = 'read committed';
        alter role {role} set quote_all_identifiers = on; alter role {role} set standard_conforming_strings = off""")
    assert db.one("t", user=role) == plain
    assert db.one("t", client_encoding="LATIN1", user=role) == plain
    missing = {a.name: a.missing for a in plain.attributes}
    assert missing["g"] == "ü".encode() and missing["b"] == struct.pack("<d", 0.1)


def test_a_missing_value_of_another_type_refuses_the_table(db: Database) -> None:
    db.execute("""create type mood as enum ('good', 'bad'); create table t (a int); insert into t values (1);
        create table array_ (a int); insert into array_ values (1);
        alter table t add m mood default 'good'; alter table array_ add m int[] default '{1}'""")
    assert 'column "m" has type public.mood' in db.reason("t")
    assert 'column "m" has type integer[]' in db.reason("array_")
    db.execute("alter table t drop column m")
    assert db.one("t").attributes[1].dropped


def test_another_encoding(make_database: Callable[..., Database]) -> None:
    db = make_database("encoding 'LATIN1' locale 'C' template template0")
    db.execute('create table "Straße" (a int, "größe" text); insert into "Straße" values (1)')
    db.execute("""alter table "Straße" add t text default 'é', add j json default '"ü"', add c char(3) default 'à'""")
    relation = db.one('"Straße"')
    assert relation.encoding == "LATIN1" == db.catalog().cluster.encoding
    assert [a.name for a in relation.attributes] == ["a", "größe", "t", "j", "c"]
    assert [a.missing for a in relation.attributes] == [None, None, b"\xe9", b'"\xfc"', b"\xe0  "]
    assert "no such name" in db.reason('"表"')


def test_sql_ascii(make_database: Callable[..., Database]) -> None:
    db = make_database("encoding 'SQL_ASCII' locale 'C' template template0")
    db.execute("create table t (a int); insert into t values (1); "
               "alter table t add x text default convert_from('\\xe9', 'SQL_ASCII')")  # fmt: skip
    relation = db.one("t")
    assert relation.encoding == "SQL_ASCII" and relation.attributes[1].missing == b"\xe9"


# ------------------------------------------------------------------------------------------------ keys


def _key(db: Database, table: str, alter: str = "") -> tuple[str, ...]:
    if alter:
        db.execute(f"alter table {table} {alter}")
    return db.one(table).key_names


def test_the_key_under_each_replica_identity(db: Database) -> None:
    db.execute("""create table t (a int, b int not null, c int not null, d int not null, primary key (c, a));
        create unique index one on t (b); create unique index two on t (b, d) include (a);
        create unique index partial on t (d) where d > 0; create unique index expression on t ((d + 1));
        create unique index nullable on t (a, d)""")
    assert _key(db, "t") == ("c", "a")
    assert _key(db, "t", "replica identity full") == ("c", "a")
    assert _key(db, "t", "replica identity nothing") == ("c", "a")
    assert _key(db, "t", "replica identity using index two") == ("b", "d")
    assert db.one("t").replica_identity == "i"
    db.execute("drop index two")
    assert _key(db, "t") == ("c", "a")
    db.execute("alter table t drop constraint t_pkey")
    assert _key(db, "t", "replica identity full") == ("b",)
    assert _key(db, "t", "replica identity nothing") == ("b",)
    assert _key(db, "t", "replica identity default") == ()
    db.execute("drop index one; alter table t alter a drop not null, replica identity full")
    assert _key(db, "t") == (), "what is left is partial, over an expression, or over a column with NULLs"
    db.execute("alter table t alter a set not null")
    assert _key(db, "t") == ("a", "d")


def test_a_deferrable_primary_key_is_none(db: Database) -> None:
    db.execute("create table t (a int primary key deferrable, b int not null, unique (b))")
    assert _key(db, "t") == ()
    assert _key(db, "t", "replica identity full") == ("b",)
    db.execute("create table u (a int primary key deferrable initially deferred)")
    assert _key(db, "u") == () == _key(db, "u", "replica identity full")


def test_an_invalid_index_is_no_key(db: Database) -> None:
    db.execute("create table t (a int not null); insert into t values (1), (1)")
    with pytest.raises(psycopg.errors.UniqueViolation):
        db.execute("create unique index concurrently broken on t (a)")
    assert _key(db, "t", "replica identity full") == ()


def test_not_null_that_was_not_validated(db: Database) -> None:
    if db.server.major < 18:
        pytest.skip("NOT NULL … NOT VALID came with 18")
    db.execute("create table t (a int, b int not null); insert into t values (null, 1); create unique index i on t (a)")
    db.execute("alter table t add constraint n not null a not valid, replica identity full")
    relation = db.one("t")
    assert [a.not_null for a in relation.attributes] == [False, True] and relation.key == ()
    db.execute("delete from t; alter table t validate constraint n")
    relation = db.one("t")
    assert [a.not_null for a in relation.attributes] == [True, True] and relation.key == (1,)


# ----------------------------------------------------------------------------------------------- names


def test_names(db: Database) -> None:
    db.execute("""create schema "Sch.ema"; create schema app; create table "Sch.ema"."Weird ""name"" ü.表" (a int);
        create table app.orders (a int); create table orders (a int); create table "select" (a int)""")
    long = "x" * 80
    db.execute(f"create table {long} (a int)")
    asked = ['"Sch.ema"."Weird ""name"" ü.表"', "APP . Orders", "orders", "public.orders", f"{db.name}.app.orders",
             "select", long]  # fmt: skip
    snapshot = db.catalog(*asked)
    assert snapshot.refused == ()
    assert [(r.schema, r.name) for r in snapshot.relations] == [
        ("Sch.ema", 'Weird "name" ü.表'), ("app", "orders"), ("public", "orders"), ("public", "select"),
        ("public", "x" * 63)]  # fmt: skip


def test_the_search_path_decides(db: Database, role: str) -> None:
    db.execute("create schema one; create schema two; create table one.t (a int); create table two.t (a int)")
    assert db.one("t", options="-csearch_path=two,one").schema == "two"
    assert db.one("t", options="-csearch_path=missing,one,two").schema == "one"
    assert "one.t or two.t" in db.reason("t")
    db.execute(f"create schema {role} authorization {role}; create table {role}.t (a int)")
    assert db.one("t", user=role).schema == role


def test_a_hostile_search_path(db: Database, role: str) -> None:
    """Functions and operators of the same names, found first by the role's search_path, are never called."""
    db.execute("create schema evil; create table evil.t (a int primary key, b text default 'x')")
    db.execute("insert into evil.t values (1); alter table evil.t add c text default 'c'")
    plain = db.one("evil.t")
    trap = "returns {} language plpgsql as $$ begin raise exception 'trapped'; end $$"
    for signature, result in [("pg_relation_size(oid)", "int8"), ("current_schemas(bool)", "name[]"),
                              ("pg_relation_filenode(oid)", "oid"), ("format_type(oid, int4)", "text"),
                              ("current_setting(text)", "text"), ("current_database()", "name"),
                              ("equal(name, name)", "bool"), ("equal(oid, oid)", "bool")]:  # fmt: skip
        db.execute(f"create function evil.{signature} {trap.format(result)}")
    db.execute("create operator evil.= (leftarg = name, rightarg = name, function = evil.equal)")
    db.execute("create operator evil.= (leftarg = oid, rightarg = oid, function = evil.equal)")
    db.execute("create table evil.pg_class (oid oid); create view evil.pg_settings as select 'x' as name")
    db.execute(f"grant usage on schema evil to {role}; alter role {role} set search_path = evil, pg_catalog")
    assert db.one("t", user=role) == plain


def test_identifiers_are_read_as_the_server_reads_them(pg_newest: PostgresServer) -> None:
    texts = ["a", "A.b", ' "A" . b ', "é.Ü", "_1$", '"a""b"."."', "a.b", "表.表", '"a b"', "1a", "a-b", "a..b", '""',
             "a.", ".a", '"a', "a b", "a$", "$a", 'x."y', "a . b . c"]  # fmt: skip
    with pg_newest.connect() as connection:
        for text in texts:
            try:
                theirs = connection.execute("select parse_ident(%s)", (text,)).fetchone()
            except psycopg.Error:
                with pytest.raises(UsageError):
                    parse_qualified(text)
            else:
                name = parse_qualified(text)
                assert theirs is not None
                assert [p for p in (name.database, name.schema, name.name) if p is not None] == theirs[0], text


# -------------------------------------------------------------------------------------------- refusals


def test_each_refusal(db: Database) -> None:
    db.execute("""
        create schema app;
        create table app.plain (a int primary key, t text);
        create view app.v as select 1 as a; create materialized view app.m as select 1 as a;
        create sequence app.s; create type app.c as (a int);
        create unlogged table app.u (a int);
        create table app.root (a int) partition by range (a);
        create table app.leaf1 partition of app.root for values from (0) to (10);
        create table app.mid partition of app.root for values from (10) to (20) partition by range (a);
        create table app."Leaf 2" partition of app.mid for values from (10) to (15);
        create table app.empty (a int) partition by range (a);
        create table app.parent (a int); create table app.child () inherits (app.parent);
        create foreign data wrapper w; create server s foreign data wrapper w;
        create foreign table app.f (a int) server s;
        create access method other type table handler heap_tableam_handler;
        create table app.columnar (a int) using other""")
    toast = db.value("select reltoastrelid::regclass::text from pg_class where oid = 'app.plain'::regclass")
    expected = {
        "app.v": "a view has no rows of its own",
        "app.m": "a materialized view is not supported",
        "app.s": "a sequence is not a table",
        "app.c": "a composite type is not a table",
        "app.plain_pkey": "an index is not a table",
        toast: "a TOAST table comes with the table",
        "app.u": "SET LOGGED",
        "app.root": 'name its leaves for now: app."Leaf 2", app.leaf1',
        "app.mid": 'name its leaves for now: app."Leaf 2"',
        "app.empty": "no partitions",
        "app.parent": "app.child",
        "app.f": "not in this cluster",
        "app.columnar": "access method is other",
        "pg_class": "a system catalog",
        "information_schema.sql_features": "a system catalog",
        "elsewhere.app.plain": "in another database",
        "app.plian": "did you mean app.plain?",
        "plain": "did you mean app.plain?",
        'app."PLAIN"': "did you mean app.plain?",
        "ap.plain": "did you mean app?",
        "app.nothing_like_it": "there is no such table in schema app; check its name",
    }
    snapshot = db.catalog("app.plain", *expected, 'app."Leaf 2"', "app.child")
    assert [r.qualified_name for r in snapshot.relations] == ["app.plain", "app.Leaf 2", "app.child"]
    assert [name for name, _ in snapshot.refused] == list(expected)
    for name, reason in snapshot.refused:
        assert expected[name] in reason and "; " in reason and "\n" not in reason, (name, reason)


def test_a_temporary_table_of_another_session(db: Database) -> None:
    with db.server.connect(db.name) as other:
        other.execute("create temporary table t (a int)")
        schema = other.execute("select nspname from pg_namespace where oid = pg_my_temp_schema()").fetchall()[0][0]
        assert "temporary" in db.reason(f"{schema}.t")
        assert "no such table" in db.reason("t")


def test_a_name_that_is_none_is_found_before_connecting() -> None:
    with pytest.raises(UsageError, match="not a table name"):
        read_catalog("host=127.0.0.1 port=1", ["app.orders", "my-table"])


# ----------------------------------------------------------------------------------------- concurrency


def _before(monkeypatch: pytest.MonkeyPatch, query: str, action: Callable[[], None]) -> list[int]:
    """Run ``action`` each time before the reading runs ``query``; gives a list that grows by one each time."""
    calls: list[int] = []
    rows = sql._Reading._rows

    def hooked(self: Any, text: str, params: Any = None) -> list[tuple[Any, ...]]:
        if text == query:
            calls.append(1)
            action()
        return rows(self, text, params)

    monkeypatch.setattr(sql._Reading, "_rows", hooked)
    return calls


@pytest.mark.parametrize("query", ["_RESOLVE", "_RELATIONS", "_CHILDREN", "_ATTRIBUTES", "_INDEXES", "_SIZE"])
def test_ddl_in_between_does_not_tear_the_snapshot(db: Database, monkeypatch: pytest.MonkeyPatch, query: str) -> None:
    db.execute("create table t (a int primary key, b text, c int not null); insert into t values (1, 'b', 1)")
    db.execute("create unique index i on t (c); alter table t replica identity using index i")
    before = db.one("t")

    def alter() -> None:
        db.execute("""alter table t add d text default 'd', drop column b, replica identity full;
            drop index i; alter table t drop constraint t_pkey, alter a drop not null; alter table t rename to u;
            alter table u rename a to z; create schema s; alter table u set schema s""")

    calls = _before(monkeypatch, getattr(sql, query), alter)
    assert db.one("t") == before
    assert len(calls) == 1
    monkeypatch.undo()
    after = db.one("s.u")
    assert (after.oid, after.locator, after.key_names) == (before.oid, before.locator, ())
    assert [a.name for a in after.columns] == ["z", "c", "d"]


@pytest.mark.parametrize("statement", ["vacuum full t", "truncate t", "alter table t alter a type bigint"])
def test_a_rewrite_in_between_is_looked_at_again(db: Database, monkeypatch: pytest.MonkeyPatch, statement: str) -> None:
    db.execute("create table t (a int, b text); insert into t select g from generate_series(1, 5000) g")
    before = db.one("t")
    todo = [statement]
    calls = _before(monkeypatch, sql._ATTRIBUTES, lambda: db.execute(todo.pop()) and None if todo else None)
    after = db.one("t")
    assert len(calls) == 2
    assert after.locator != before.locator
    assert after.locator.number == db.value("select pg_relation_filenode('t')::int8")
    assert after.size_bytes == db.value("select pg_relation_size('t')")
    assert after.attributes[0].type_name == ("bigint" if "bigint" in statement else "integer")


def test_a_table_dropped_in_between_is_not_there(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.execute("create table t (a int); create table stays (a int)")
    _before(monkeypatch, sql._ATTRIBUTES, lambda: db.execute("drop table if exists t") and None)
    snapshot = db.catalog("t", "stays")
    assert [r.name for r in snapshot.relations] == ["stays"]
    assert [name for name, _ in snapshot.refused] == ["t"] and "no such table" in snapshot.refused[0].reason


def test_a_table_rewritten_without_end_is_refused(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.execute("create table t (a int); create table stays (a int)")
    calls = _before(monkeypatch, sql._ATTRIBUTES, lambda: db.execute("truncate t") and None)
    snapshot = db.catalog("t", "stays")
    assert len(calls) == 3
    assert [r.name for r in snapshot.relations] == ["stays"]
    assert "again and again" in snapshot.refused[0].reason


def test_a_locked_table_is_refused_and_the_others_are_not(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.execute("create table t (a int); create table stays (a int)")
    monkeypatch.setattr(sql, "_SETTINGS", sql._SETTINGS.replace(sql._LOCK_TIMEOUT, "50ms"))
    with db.server.connect(db.name, autocommit=False) as other:
        other.execute("lock table t in access exclusive mode")
        snapshot = db.catalog("t", "stays")
    assert [r.name for r in snapshot.relations] == ["stays"]
    assert "exclusive lock" in snapshot.refused[0].reason
    assert db.one("t").name == "t"


# ------------------------------------------------------------------------------------------ connecting


def _fails(dsn: str) -> str:
    with pytest.raises(SourceError) as error:
        read_catalog(dsn, [])
    text = str(error.value)
    assert "\n" not in text and "hunter2" not in text and "; " in text
    return text


def test_connections_that_are_refused(db: Database, role: str) -> None:
    assert "name an existing database" in _fails(db.dsn(dbname="nope", password="hunter2"))
    assert "create the role" in _fails(db.dsn(user="nope", password="hunter2"))
    assert "sslmode=" in _fails(db.dsn(sslmode="require", password="hunter2"))
    db.execute(f"alter role {role} nologin")
    assert "ALTER ROLE … LOGIN" in _fails(db.dsn(user=role))
    db.execute(f"alter role {role} login; revoke connect on database {db.name} from public")
    assert "GRANT CONNECT" in _fails(db.dsn(user=role))


def test_a_connection_lost_in_the_middle(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.execute("create table t (a int)")
    _before(monkeypatch, sql._ATTRIBUTES, lambda: db.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() "
        "and pid <> pg_backend_pid() and backend_type = 'client backend'") and None)  # fmt: skip
    with pytest.raises(SourceError, match="connection was lost") as error:
        db.one("t")
    assert "\n" not in str(error.value)


def test_authentication(pg_newest: PostgresServer, tmp_path: Path) -> None:
    """pg_hba.conf is the server's own affair: a server of its own."""
    with PostgresServer(pg_newest.major) as server:
        server.execute("create role u login password 'right'; create role v login password 'right'")
        hba = server.data / "pg_hba.conf"
        hba.write_text("host all u 127.0.0.1/32 scram-sha-256\nhost all postgres 127.0.0.1/32 trust\n")
        server.execute("select pg_reload_conf()")
        assert read_catalog(server.dsn(user="u", password="right"), []).cluster.database == "postgres"
        assert "user and password" in _fails(server.dsn(user="u", password="hunter2"))
        assert "user and password" in _fails(server.dsn(user="u"))
        assert "pg_hba.conf" in _fails(server.dsn(user="v", password="hunter2"))
        server.stop()
        assert "listen_addresses" in _fails(server.dsn(user="u", password="hunter2"))
