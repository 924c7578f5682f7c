"""The catalog out of a backup's files against the catalog from SQL, field by field."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.integration.catalog import test_missing_values as missing_values
from tests.integration.catalog.backups import MadeBackup, MadeFile, MadeSource
from tests.integration.catalog.support import Database
from walshadow_core.api import BackupRequest, BackupSource, RelationDescriptor, SourceError
from walshadow_core.catalog.files.read import Asked, FoundCatalog, read_backup
from walshadow_core.catalog.names import printable_name
from walshadow_core.catalog.sql import CatalogSnapshot, read_catalog
from walshadow_core.decode.table import TableDecoder
from walshadow_core.decode.types import DecodeOptions
from walshadow_core.decode.warmup import sample_page
from walshadow_core.pgformat.heap import PageWalker
from walshadow_core.plugins import Plugins
from walshadow_core.testing.postgres import PostgresServer

KINDS = """
create schema app; create schema "Odd Schema"; create schema types;
create type types.mood as enum ('sad', 'ok', 'happy');
alter type types.mood add value 'meh' before 'ok';
alter type types.mood rename value 'sad' to 'Très triste';
create domain types.positive as int check (value > 0);
create domain types.short as varchar(5)[];
create domain types.shorter as types.short;
create type types.point3 as (x int, y numeric(9,3), gone text, tags text[]);
alter type types.point3 drop attribute gone;
create type types.nest as (p types.point3, m types.mood, r int4range);
create type types.span as range (subtype = types.positive);
create type types."Strange, type" as (a "char");

create table app.plain (a int primary key, b text not null, c numeric(10,2), d varchar(10), e char(3), f timestamptz(3),
  g interval day to second(2), h bit(7), i varbit, j "char", k name, l oid, m xid, n bytea, o uuid, p json, q jsonb,
  r float4, s float8, t money, u inet, v xml, w tsvector, x int2vector, y oidvector, z point);
create table app.made (a int[], b text[][], c types.mood, d types.mood[], e types.positive, f types.shorter,
  g types.point3, h types.nest[], i int4range, j tstzmultirange, k types.span, l types."Strange, type",
  m regclass, n app.plain, o numeric(5,-2)[], p app.plain[]);
create table "Odd Schema"."Zürich ""x"".y" ("a b" int, "ÄÖ" text unique, "select" int);

create table app.dropped (a int, b text, c numeric(9,1) not null default 1, d int);
alter table app.dropped drop column b, drop column c;
alter table app.dropped add e text default 'e', add f int default 5;
alter table app.dropped drop column e;

create table app.missing (id int); insert into app.missing select generate_series(1, 10);
alter table app.missing add a int default 5, add b text default 'some text', add c numeric(12,3) default 123456.789,
  add d timestamptz default '2020-02-03 04:05:06+07', add e "char" default 'x', add f name default 'a name',
  add g float8 default 'NaN', add h bytea default '\\x0001', add i uuid default '00112233445566778899aabbccddeeff',
  add j text default repeat('long ', 30), add k bool default true, add l json default '{"a": 1}',
  add m date default 'infinity', add n interval default '1 day 2 hours', add o char(5) default 'ab',
  add p int8 default 1e15, add q numeric default '-0.00001', add r text default '';

create table app.root (k int, v text, at date, primary key (k, at)) partition by range (at);
create table app.root_a partition of app.root for values from ('2020-01-01') to ('2021-01-01');
create table app.root_b (at date not null, junk int, v text, k int not null);
alter table app.root_b drop column junk;
alter table app.root attach partition app.root_b for values from ('2021-01-01') to ('2022-01-01');
create table app.root_c partition of app.root for values from ('2022-01-01') to ('2023-01-01') partition by list (k);
create table app.root_c1 partition of app.root_c for values in (1, 2) partition by hash (at);
create table app.root_c10 partition of app.root_c1 for values with (modulus 2, remainder 0);
create table app.root_c11 partition of app.root_c1 for values with (modulus 2, remainder 1);
create table app.root_c2 partition of app.root_c default;
create table app.empty_root (a int) partition by list (a);

create table app.parent (id int primary key, a text);
create table app.child (b int) inherits (app.parent);
create table app.grandchild (c int) inherits (app.child);
alter table app.child add primary key (id);

create table app.identity_full (a int, b int not null unique); alter table app.identity_full replica identity full;
create table app.identity_nothing (a int primary key); alter table app.identity_nothing replica identity nothing;
create table app.identity_index (a int primary key, b int not null, c int not null, d int);
create unique index identity_index_key on app.identity_index (c, b) include (d);
create unique index identity_partial on app.identity_index (b) where d > 5;
create unique index identity_expression on app.identity_index ((b + 1));
alter table app.identity_index replica identity using index identity_index_key;
create table app.deferrable (a int primary key deferrable initially deferred, b int);
create table app.excluded (r int4range, exclude using gist (r with &&));

create table app.generated (id int generated always as identity primary key, a int,
  b int generated by default as identity, c int generated always as (a * 2) stored);
create materialized view app.matview as select id, a from app.generated;
create unique index on app.matview (id);
create table app.none ();
create table app.wide (%s);
create table app.storage (a text, b text, c text compression pglz);
alter table app.storage alter a set storage plain, alter b set storage external, alter c set storage main;
create unlogged table app.unlogged (a int);
create view app.view as select 1 as a;
create sequence app.seq;
create table app.cascade_type (a types.mood[], b int);
alter table app.cascade_type alter a type text[] using a::text[];
comment on table app.plain is 'rows in other catalogs';
analyze;
"""
VIRTUAL = """
create table app.virtual (a int, b int generated always as (a + 1) virtual, c text);
create table app.unvalidated (a int, b int primary key); insert into app.unvalidated values (null, 1);
alter table app.unvalidated add constraint later not null a not valid;
create table app.not_enforced (a int constraint c check (a > 0) not enforced);
create table app.no_inherit (a int constraint n not null no inherit)
"""


def make(db: Database) -> None:
    db.execute(KINDS % ", ".join(f"c{i} int" for i in range(300)))
    if db.server.major >= 18:
        db.execute(VIRTUAL)
    db.execute("vacuum analyze")


def every_relation(db: Database) -> list[str]:
    """Whatever has a name, tables or not."""
    rows = db.execute("""select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname in ('app', 'Odd Schema', 'types', 'public') order by c.oid""")
    return [printable_name(*row) for row in rows]


def base_backup(db: Database) -> MadeSource:
    """A base backup that is at hand, to be read again and again."""
    source = Plugins.load().source("base_backup", {"dsn": db.dsn()})
    with source.open(BackupRequest(frozenset(), everything=True)) as backup:
        files = [MadeFile(f.path, b"".join(map(bytes, f.chunks()))) for part in backup.parts() for f in part.files()]
        return MadeSource([MadeBackup(files, backup.start.server_version, dict(backup.start.tablespaces))])


def assert_same(backup: CatalogSnapshot, sql: CatalogSnapshot) -> None:
    """Field by field: what differs is shown by name."""
    assert [r.qualified_name for r in backup.relations] == [r.qualified_name for r in sql.relations]
    for ours, theirs in zip(backup.relations, sql.relations, strict=True):
        for name in RelationDescriptor.__dataclass_fields__:
            assert getattr(ours, name) == getattr(theirs, name), f"{ours.qualified_name}: {name}"
    assert backup.refused == sql.refused
    assert backup.notices == sql.notices


def compare(db: Database, source: BackupSource, tables: list[str], *, with_children: bool = False) -> FoundCatalog:
    sql = read_catalog(db.dsn(), tables, with_children=with_children)
    found = read_backup(source, Asked(db.name, tables, ("pg_catalog", "postgres", "public"), with_children))
    assert_same(found.snapshot, sql)
    return found


def test_every_kind_of_table(db: Database) -> None:
    make(db)
    names = every_relation(db)
    trees = [n for n in names if n.startswith(("app.root", "app.parent", "app.child", "app.grandchild"))]
    source = base_backup(db)
    found = compare(db, source, names)
    assert {r.name for r in found.snapshot.refused} >= {"app.view", "app.seq", "app.unlogged", "app.root", "app.root_b"}
    apart = [n for n in names if n not in trees]
    asked_for = [apart, [n for n in trees if n not in ("app.root", "app.root_c", "app.root_c1")],
                 ["app.root", "app.plain"], ["app.root_c"], ["app.root_c1"]]  # fmt: skip
    loaded: set[str] = set()
    for tables in asked_for:
        loaded |= {r.qualified_name for r in compare(db, source, tables).snapshot.relations}
    for tables in asked_for[1:]:
        compare(db, source, tables, with_children=True)
    assert len(loaded) == 28 + (4 if db.server.major >= 18 else 0), "whatever is a table in one way or the other"
    for catalog in ("pg_class", "pg_attribute", "pg_index", "pg_type", "pg_inherits"):
        db.execute(f"vacuum full {catalog}")
    moved = compare(db, base_backup(db), apart)
    assert len(moved.locators - found.locators) == 5


def test_a_predicate_that_is_out_of_line(db: Database) -> None:
    """In 18, pg_index has a TOAST relation: that there is a predicate is all that matters of it."""
    if db.server.major < 18:
        return
    numbers = ", ".join(str(n * 7919 % 10**9) for n in range(1, 3000))
    db.execute("create table long (id int primary key, v int not null)")
    db.execute(f"create unique index part on long (v) where v in ({numbers})")
    assert db.value("select count(*) from pg_index where pg_column_toast_chunk_id(indpred) is not null") == 1
    compare(db, base_backup(db), ["long"])


def test_missing_values_of_every_type(db: Database) -> None:
    """As the catalog has them, in on-disk form; SQL gives the texts of a few types instead."""
    cases = [(t, v) for t, values in missing_values._DEFAULTS.items() for v in values]
    db.execute(missing_values._MADE)
    db.execute("create table t (a int); insert into t values (1)")
    db.execute("alter table t " + ", ".join(f"add c{i} {t} default {v}" for i, (t, v) in enumerate(cases)))
    db.execute("create table u (a int); insert into u values (1)")
    texts = missing_values._TEXTS.items()
    db.execute("alter table u " + ", ".join(f"add c{i} {t} default {v}" for i, (t, v) in enumerate(texts)))
    source = base_backup(db)
    compare(db, source, ["t"])
    (ours,) = read_backup(source, Asked(db.name, ["u"])).snapshot.relations
    (theirs,) = read_catalog(db.dsn(), ["u"]).relations
    shown = missing_as_text(ours)
    for column in ours.attributes[1:]:
        assert column.missing is not None and column.missing_text is None
    assert shown == [a.missing_text for a in theirs.attributes[1:]]
    plain = replace(ours, attributes=tuple(replace(a, missing=None) for a in ours.attributes))
    assert plain == replace(theirs, attributes=tuple(replace(a, missing_text=None) for a in theirs.attributes))


def missing_as_text(relation: RelationDescriptor) -> list[str]:
    """The values of a row that ends after the first column."""
    decoder = TableDecoder(relation, DecodeOptions(), forms=dict.fromkeys((a.name for a in relation.columns), "text"))
    page = sample_page(bytes(4))
    decoder.append(page, PageWalker(max_pages=1).walk(page, 0).data)
    batch = decoder.finish()
    assert batch is not None
    return [batch.column(a.name)[0].as_py() for a in relation.columns[1:]]


def test_ddl_that_has_not_ended_or_was_rolled_back(db: Database) -> None:
    """What is not committed is not there, whatever it wrote into the catalogs."""
    db.execute("""create table plain (a int primary key, b text); create table altered (a int, b text default 'x');
        create table renamed (a int); create type mood as enum ('a', 'b'); create table moody (m mood);
        create table root (a int) partition by list (a); create table leaf partition of root for values in (1);
        create table gone (a int); create table rewritten (a int); insert into rewritten values (1);
        create table attached (a int not null); create table prepared (a int)""")
    names = every_relation(db)
    asked_for = [[n for n in names if n not in ("root", "leaf", "attached")], ["root"], ["leaf", "attached"]]
    before = [read_catalog(db.dsn(), tables) for tables in asked_for]
    ddl = (
        "alter table public.altered add c int default 5, drop column b; alter table public.renamed rename to other",
        "alter type public.mood add value 'c'; alter type public.mood rename value 'a' to 'z'",
        "truncate public.rewritten; drop table public.gone; create table public.born (a int)",
        "alter table public.plain replica identity full",
        "alter table public.root attach partition public.attached for values in (2)",
        "savepoint s; alter table public.prepared add b int; rollback to s; alter table public.prepared add c int",
    )
    db.execute(f"begin; {'; '.join(ddl)}; rollback")
    with db.server.connect(db.name, autocommit=False) as waits, db.server.connect(db.name, autocommit=False) as ready:
        for statements in ddl:
            waits.execute(statements.encode())
        ready.execute("create table public.of_prepared (a int)")
        ready.execute(f"prepare transaction '{db.name}'".encode())
        try:
            source = base_backup(db)
        finally:
            ready.rollback()
            ready.autocommit = True
            ready.execute(f"rollback prepared '{db.name}'".encode())
            waits.rollback()
    for tables, sql in zip(asked_for, before, strict=True):
        assert_same(read_backup(source, Asked(db.name, tables)).snapshot, sql)
    (refusal,) = read_backup(source, Asked(db.name, ["born"])).snapshot.refused
    assert "no such table" in refusal.reason


def test_tablespaces_of_tables_and_of_the_database(db: Database) -> None:
    server = db.server
    with tablespace(server) as space, tablespace(server) as other:
        db.execute(f"create table here (a int, x text); create table there (a int, x text) tablespace {space}")
        compare(db, base_backup(db), ["here", "there"])
        server.execute(f"alter database {db.name} set tablespace {other}")
        found = compare(db, base_backup(db), ["here", "there"])
        assert {r.locator.tablespace for r in found.snapshot.relations}.isdisjoint({1663})
        db.execute("vacuum full pg_type")
        db.execute("vacuum full pg_namespace")
        compare(db, base_backup(db), ["here", "there"])
        server.execute(f"drop database {db.name} with (force)")
    server.execute(f"create database {db.name}")


@contextmanager
def tablespace(server: PostgresServer) -> Iterator[str]:
    assert server.root is not None
    name = f"space_{uuid.uuid4().hex[:8]}"
    folder = server.root / name
    folder.mkdir()
    os.chown(folder, server.data.stat().st_uid, server.data.stat().st_gid)
    server.execute(f"create tablespace {name} location '{folder}'")
    yield name
    server.execute(f"drop tablespace {name}")


def test_names_as_people_write_them(make_database: Callable[..., Database]) -> None:
    """Long, quoted and misspelt ones, in three encodings, and what is said of those that are not there."""
    for options in (
        "",
        "encoding 'LATIN1' locale 'C' template template0",
        "encoding 'SQL_ASCII' locale 'C' template template0",
    ):
        db = make_database(options)
        long = "ü" * 62 + "x" * 10 if "SQL_ASCII" not in options else "x" * 70
        db.execute(
            f'create schema "Schéma"; create table "Schéma"."Straße" ("größe" int); create table "{long}" (a int); create table orders (a int)'
        )
        names = ['"Schéma"."Straße"', f'"{long}"', f'public."{long}"', "Orders", "order", '"Orders"', "nowhere.orders",
                 "public.ordres", '"Schéma".orders', "pg_class", "pg_catalog.pg_class", "elsewhere.public.orders",
                 f"{db.name}.public.orders", "information_schema.tables"]  # fmt: skip
        sql = read_catalog(db.dsn(), names)
        found = read_backup(base_backup(db), Asked(db.name, names)).snapshot
        assert found.relations == sql.relations and len(found.relations) == 3
        assert [r.name for r in found.refused] == [r.name for r in sql.refused]
        for ours, theirs in zip(found.refused, sql.refused, strict=True):
            assert ours.reason.split(";")[0] == theirs.reason.split(", which the source DSN")[0].split(";")[0]


def test_a_rewritten_catalog_that_is_too_large_to_guess_takes_another_backup(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.execute("create table t (a int primary key, b text default 'b')")
    for catalog in ("pg_class", "pg_attribute", "pg_index"):
        db.execute(f"vacuum full {catalog}")
    source = base_backup(db)
    monkeypatch.setattr("walshadow_core.catalog.files.collect.GUESS_FILE_BYTES", 8192)
    files = source.backups[0].made
    # The map after what it speaks of: it is not known yet which number matters.
    files.sort(key=lambda file: file.path.endswith("pg_filenode.map"))
    compare(db, source, ["t"])
    assert [len(request.locators) for request in source.opened] == [0, 1, 3], "pg_class tells the others"
    files.sort(key=lambda file: not file.path.endswith("pg_filenode.map"))
    source.opened.clear()
    compare(db, source, ["t"])
    assert [len(request.locators) for request in source.opened] == [0, 1], "the map does not know pg_index"


def test_another_database_and_none(db: Database) -> None:
    source = base_backup(db)
    with pytest.raises(SourceError, match=r"no database 'nix'; it has .*postgres"):
        read_backup(source, Asked("nix", ["t"]))


def test_the_cluster_facts(db: Database) -> None:
    sql = read_catalog(db.dsn(), []).cluster
    source = base_backup(db)
    facts = read_backup(source, Asked(db.name, [])).snapshot.cluster
    same = ("server_version", "system_identifier", "database", "database_oid", "encoding", "data_checksums",
            "block_size", "segment_blocks", "wal_level", "max_wal_senders", "in_recovery", "tablespaces")  # fmt: skip
    assert {name: getattr(facts, name) for name in same} == {name: getattr(sql, name) for name in same}
    assert facts.insert_lsn == facts.flush_lsn == source.backups[0].start.b_redo
    assert facts.oldest_running_xid >= sql.oldest_running_xid
    assert facts.cluster_bytes == source.backups[0].size
