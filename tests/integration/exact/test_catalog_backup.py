"""``--catalog backup`` on a busy source: the catalog of the rows' own moment, out of the backup and its WAL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from tests.conftest import EmbeddedClickHouse
from tests.integration.catalog.test_from_backup import assert_same, tablespace
from tests.integration.exact.meddler import Meddler, table
from tests.integration.support import Run, assert_equal, database, load
from tests.integration.work import statements
from walshadow_core.api import BackupFile, Lsn, RelationDescriptor
from walshadow_core.backfill.catalogwal import wal_beside
from walshadow_core.backfill.options import LoadOptions
from walshadow_core.backfill.recheck import BackupRecheck
from walshadow_core.catalog.files.collect import CatalogFiles
from walshadow_core.catalog.files.read import Asked, read_backup
from walshadow_core.catalog.sql import CatalogSnapshot, read_catalog
from walshadow_core.cli.catalogs import FilesReader
from walshadow_core.plugins import Plugins
from walshadow_core.testing.postgres import PostgresServer

WORDS = ("--catalog", "backup", "--table", "t")
VACUUMS = [f"vacuum full {c}" for c in ("pg_class", "pg_attribute", "pg_index", "pg_type", "pg_namespace")]
SECOND = 2
"""The first backup is for the definitions; what happens in the load's own is what matters."""


def in_window(meddler: Meddler, pg: PostgresServer, db: str, *statements: str, times: int = SECOND) -> None:
    """Run ``statements`` when the load's own backup has begun, and those after it up to ``times``."""

    def run() -> None:
        if meddler.backups >= SECOND:
            for statement in statements:
                pg.execute(statement, database=db)

    meddler.times, meddler.begun = times, run


def between(monkeypatch: pytest.MonkeyPatch, pg: PostgresServer, db: str, *statements: str) -> None:
    """Run ``statements`` in ``db`` between the reading of the catalog and the load's own backup."""
    read = FilesReader.read

    def hooked(self: FilesReader, tables: Sequence[str]) -> CatalogSnapshot:
        snapshot = read(self, tables)
        for statement in statements:
            pg.execute(statement, database=db)
        return snapshot

    monkeypatch.setattr(FilesReader, "read", hooked)


def test_rewritten_in_the_window(
    pg: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, meddler: Meddler
) -> None:
    """With the catalogs that tell of it moved as well."""
    with table(pg) as db:
        in_window(meddler, pg, db, "vacuum full t", *VACUUMS, "insert into t values (9000, 'later')")
        done = load(walshadow, pg, db, clickhouse, *WORDS)
        assert done.code == 0, done.err
        [t] = done.json["tables"]
        assert (t["exact"], t["passes"], meddler.backups) == (True, 2, 3)
        assert t["exact_at"] == done.json["exact_at"] == done.json["b_end"]
        assert_equal(walshadow, pg, db, clickhouse, "t")


@pytest.mark.parametrize(
    ("ddl", "kept"), [("truncate t", True), ("vacuum full t", False), ("cluster t using t_pkey", True)]
)
def test_a_table_that_is_rewritten_is_read_again(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, meddler: Meddler,
    monkeypatch: pytest.MonkeyPatch, ddl: str, kept: bool,
) -> None:  # fmt: skip
    if not kept:
        monkeypatch.setattr(LoadOptions, "spool_below", -1)
    with table(pg_newest) as db:
        in_window(meddler, pg_newest, db, ddl, "insert into t values (9000, 'later')")
        done = load(walshadow, pg_newest, db, clickhouse, *WORDS)
        assert done.code == 0, done.err
        [t] = done.json["tables"]
        assert (t["exact"], t["passes"], t["exact_at"]) == (True, 2, done.json["b_end"])
        assert_equal(walshadow, pg_newest, db, clickhouse, "t")


@pytest.mark.parametrize(
    ("ddl", "reason"),
    [
        ("drop table t", "was dropped or renamed"),
        ("alter table t rename to u", "was dropped or renamed"),
        ("alter table t add column more int default 3", "was altered"),
        ("alter table t rename v to w", "was altered"),
        ("alter table t alter id type bigint", "was rewritten"),
    ],
)
def test_a_table_that_means_something_else_fails(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, meddler: Meddler, ddl: str, reason: str
) -> None:
    with table(pg_newest) as db:
        pg_newest.execute("create table quiet as select 1 as a", database=db)
        words = (*WORDS, "--table", "quiet")
        assert load(walshadow, pg_newest, db, clickhouse, *words).code == 0
        meddler.backups = 0
        in_window(meddler, pg_newest, db, ddl, "insert into quiet values (2)")
        done = load(walshadow, pg_newest, db, clickhouse, *words)
        assert done.code == 3
        t, quiet = done.json["tables"]
        assert t["status"] == "failed" and reason in t["error"]
        assert (quiet["exact"], quiet["rows_written"], meddler.backups) == (True, 2, 2)
        assert clickhouse.rows(f"SELECT count() FROM {clickhouse.database}.t") == [(3000,)]
        assert clickhouse.tables() == {"t", "quiet"}


@pytest.mark.parametrize("ends", ["rollback", "nothing", "commit"])
def test_ddl_that_was_open_when_the_backup_began(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, meddler: Meddler, ends: str
) -> None:
    """Committed in the window it counts, though its rows of the catalog were written before."""
    with table(pg_newest) as db, pg_newest.connect(db, autocommit=False) as writer:
        writer.execute("alter table t add column more int; alter table t alter id set default 5")
        pg_newest.execute("checkpoint")

        def go_on() -> None:
            if meddler.backups == SECOND:
                writer.execute("alter table t drop column v")
                if ends != "nothing":
                    writer.execute(ends)

        meddler.times, meddler.begun = SECOND, go_on
        done = load(walshadow, pg_newest, db, clickhouse, *WORDS)
        if ends == "commit":
            assert done.code == 1
            assert "was altered" in done.json["tables"][0]["error"]
            assert clickhouse.tables() == set()
            return
        assert done.code == 0, done.err
        assert (done.json["exact"], done.json["tables"][0]["passes"]) == (True, 1)
        writer.rollback()
        assert_equal(walshadow, pg_newest, db, clickhouse, "t")


def test_rewritten_between_the_two_backups(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first backup has told is old when the second begins; the catalogs are elsewhere as well."""
    with table(pg_newest) as db:
        between(monkeypatch, pg_newest, db, "vacuum full t", *VACUUMS, "insert into t values (9000, 'later')")
        done = load(walshadow, pg_newest, db, clickhouse, *WORDS)
        assert done.code == 0, done.err
        assert (done.json["exact"], done.json["tables"][0]["passes"]) == (True, 2)
        assert_equal(walshadow, pg_newest, db, clickhouse, "t")


# -- the catalog of that moment, field by field

BEFORE = """
create schema app; create type app.mood as enum ('sad', 'happy'); create type app.pair as (x int, y text);
create domain app.small as int check (value < 1000);
create table app.a (id int primary key, m app.mood, p app.pair, s app.small, t text, n numeric(10,2));
create table app.b (like app.a including all); create table app.c (like app.a including all);
create table app.open (id int primary key, t text); create table app.undone (id int primary key, t text);
create table app.gone (id int); create table app.prepared (id int); create table app.late (id int, k int not null);
create table app.root (id int, k int) partition by list (k);
create table app.root_1 partition of app.root for values in (1);
create table app.root_2 (k int, junk text, id int); alter table app.root_2 drop column junk;
insert into app.a (id, t) select i, 'a' from generate_series(1, 100) i;
begin; alter table app.prepared add c int default 9; prepare transaction '{db}_ends';
begin; alter table app.gone add c int default 9; prepare transaction '{db}_undone';
"""
OPEN = """
alter table app.open add c int default 5, alter t type varchar(7); create table app.never (a int);
alter table app.open rename id to other
"""
DDL = """
alter table app.a add c1 int default 7; alter table app.a add c2 text default 'seven' not null;
alter table app.a rename t to text; alter table app.a drop c1; alter table app.a alter n type numeric(12,2);
commit prepared '{db}_ends'; create unique index late_key on app.late (id, k);
alter table app.late alter id set not null; alter table app.late replica identity using index late_key;
create temp table x1 as select * from pg_class;
begin; alter table app.undone add c int default 1; drop table app.b; create table app.b (z int); rollback;
alter type app.mood add value 'ok' before 'happy'; alter type app.mood rename value 'sad' to 'low';
truncate app.b; vacuum full app.c; rollback prepared '{db}_undone';
drop table app.gone; create table app.gone (other text, id int primary key);
begin; savepoint s; alter table app.c add lost int; rollback to s; alter table app.c add won int; commit;
alter table app.root attach partition app.root_2 for values in (2);
vacuum full pg_namespace; drop table x1; create temp table x2 as select attname from pg_attribute; drop table x2;
vacuum pg_class; vacuum pg_attribute; vacuum (freeze) pg_type; vacuum full pg_attribute; vacuum full pg_index;
alter table app.root add v text default 'v'; vacuum full pg_database; alter type app.small rename to little;
create table app.born (id int generated always as identity primary key, a text collate "C", m app.mood[]);
alter table app.born add d timestamptz default '2020-02-03 04:05:06+07'; analyze app.a, app.born;
vacuum full pg_class; alter table app.a add c3 int default 3; alter table app.b add b1 bigint; vacuum full pg_type;
create table app.unlogged (a int); alter table app.unlogged set unlogged; vacuum full pg_class;
begin; alter table app.late add never int; prepare transaction '{db}_waits';
begin; alter table app.c rename to d; alter table app.b rename to c; commit
"""
NAMES = [
    f"app.{name}"
    for name in ("a", "b", "c", "d", "open", "undone", "gone", "prepared", "late", "root", "born", "never", "unlogged")
]


class Ddl:
    """Statements of DDL, one for ``every`` so many files of a backup that come, while a transaction stays open."""

    def __init__(
        self, connection: psycopg.Connection[Any], waits: psycopg.Connection[Any], db: str, every: int
    ) -> None:
        self.statements = list(statements(DDL.format(db=db)))
        self.last = Lsn(0)
        self._connection = connection
        self._waits = waits
        self._every = every
        self._seen = 0
        connection.execute("set lock_timeout = '2s'")
        for statement in statements(BEFORE.format(db=db)):
            connection.execute(statement.encode())
        for statement in statements(OPEN):
            waits.execute(statement.encode())

    def tick(self) -> None:
        """A file comes. The server has sent, and copied, only some more than that."""
        self._seen += 1
        if self.statements and self._seen % self._every == 0:
            self._connection.execute(self.statements.pop(0).encode())
            if not self.statements:
                (lsn,) = self._connection.execute("select pg_current_wal_insert_lsn()::text").fetchone() or ("",)
                self.last = Lsn.parse(lsn)

    def undo(self) -> None:
        """End what was left open: it was nothing. SQL can't look at a table that is locked."""
        for (name,) in self._connection.execute(
            "select gid from pg_prepared_xacts where database = current_database()"
        ).fetchall():
            self._connection.execute(f"rollback prepared '{name}'".encode())
        self._waits.rollback()


@contextmanager
def ddl(pg: PostgresServer, monkeypatch: pytest.MonkeyPatch, of: Any, every: int = 10) -> Iterator[tuple[str, Ddl]]:
    """A database whose definitions change when ``of`` is offered files."""
    with database(pg) as db, pg.connect(db) as connection, pg.connect(db, autocommit=False) as waits:
        changes = Ddl(connection, waits, db, every)
        offer = of.offer

        def offered(self: Any, file: BackupFile) -> None:
            changes.tick()
            offer(self, file)

        monkeypatch.setattr(of, "offer", offered)
        try:
            yield db, changes
        finally:
            monkeypatch.undo()
            changes.undo()


def without_sizes(relation: RelationDescriptor) -> RelationDescriptor:
    """Those are of the copies."""
    return replace(relation, size_bytes=0, leaves=tuple(without_sizes(leaf) for leaf in relation.leaves))


def same(backup: CatalogSnapshot, sql: CatalogSnapshot) -> None:
    ours, theirs = (replace(s, relations=tuple(without_sizes(r) for r in s.relations)) for s in (backup, sql))
    assert_same(ours, theirs)


@pytest.mark.parametrize("every", [10, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 3, 6, 13))])
def test_ddl_while_the_catalog_is_read(pg: PostgresServer, monkeypatch: pytest.MonkeyPatch, every: int) -> None:
    """From a backup and the WAL beside it comes what SQL shows."""
    with ddl(pg, monkeypatch, CatalogFiles, every) as (db, changes):
        source = Plugins.load().source("base_backup", {"dsn": pg.dsn(db)})
        asked = Asked(db, NAMES, ("pg_catalog", "public"))
        found = read_backup(source, asked, beside=lambda: wal_beside(source, LoadOptions()))
        assert not changes.statements, "all of them ran before the backup's last file came"
        changes.undo()
        sql = read_catalog(pg.dsn(db), NAMES)
        assert len(sql.relations) == 10 and len(sql.refused) == 3
        same(found.snapshot, sql)


def test_ddl_while_the_load_runs(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables that are not touched are exact, others are read again or fail; and the last look is what SQL shows."""
    looks: list[tuple[RelationDescriptor, ...]] = []
    relations = BackupRecheck.relations

    def seen(self: BackupRecheck, *words: Any) -> Sequence[RelationDescriptor]:
        looks.append(tuple(relations(self, *words)))
        return looks[-1]

    monkeypatch.setattr(BackupRecheck, "relations", seen)
    names = ["app.a", "app.b", "app.c", "app.open", "app.undone", "app.gone", "app.late", "app.root"]
    with ddl(pg_newest, monkeypatch, BackupRecheck) as (db, changes):
        words = [word for name in names for word in ("--table", name)]
        done = load(walshadow, pg_newest, db, clickhouse, "--catalog", "backup", *words)
        assert done.code == 3, done.err
        assert not changes.statements and changes.last <= Lsn.parse(done.json["b_end"])
        changes.undo()
        stand = {t["table"] for t in done.json["tables"] if t["status"] == "done" and t["exact"]}
        assert stand == {"app.open", "app.undone"}
        sql = read_catalog(pg_newest.dsn(db), names)
        assert [without_sizes(r) for r in looks[0]] == [without_sizes(r) for r in sql.relations]


def test_a_catalog_that_is_large_and_moves(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, meddler: Meddler,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Its copy is not kept, as nothing tells what it is when it comes. In the window the WAL has all of it; what moved
    between the backups ends the load."""
    with table(pg_newest) as db:
        monkeypatch.setattr("walshadow_core.catalog.files.collect.GUESS_FILE_BYTES", 0)
        in_window(meddler, pg_newest, db, *VACUUMS)
        done = load(walshadow, pg_newest, db, clickhouse, *WORDS)
        assert (done.code, meddler.backups) == (0, 2), done.err
        assert done.json["exact"] is True
        meddler.times = 0
        between(monkeypatch, pg_newest, db, "vacuum full pg_index")
        done = load(walshadow, pg_newest, db, clickhouse, *WORDS)
        assert done.code == 1
        assert "catalogs were rewritten (VACUUM FULL) while the load ran" in done.err
        assert clickhouse.tables() == {"t"}


def test_a_database_that_moves(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To another tablespace: the server copies its files, and the WAL does not have what is in them."""
    with tablespace(pg_newest) as space, table(pg_newest) as db:
        between(monkeypatch, pg_newest, "postgres", f"alter database {db} set tablespace {space}")
        done = load(walshadow, pg_newest, db, clickhouse, *WORDS)
        assert done.code == 1
        assert "moved to another tablespace meanwhile; load again" in done.err
        assert clickhouse.tables() == set()
