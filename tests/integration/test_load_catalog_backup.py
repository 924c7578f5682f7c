"""``walshadow load --catalog backup``: no SQL connection, and what happens to tables meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.conftest import EmbeddedClickHouse
from tests.integration.support import Run, assert_equal, database, load
from tests.integration.test_load_sources import hba
from walshadow_core.cli.catalogs import FilesReader
from walshadow_core.testing.postgres import PostgresServer

TABLES = """
create table plain (id int primary key, note text, amount numeric(10,2));
insert into plain select i, 'n' || i, i / 7.0 from generate_series(1, 3000) i; delete from plain where id % 9 = 0;
alter table plain add added text not null default 'there'; update plain set note = null where id % 5 = 0;
create table root (id int, part int, v text, primary key (id, part)) partition by list (part);
create table leaf_1 partition of root for values in (1);
create table leaf_2 (v text, gone int, part int not null, id int not null); alter table leaf_2 drop column gone;
alter table root attach partition leaf_2 for values in (2);
insert into root select i, 1 + i % 2, 'v' || i from generate_series(1, 1000) i;
create table toasted (id int primary key, long text);
insert into toasted select i, string_agg(md5(i::text || j), '') from generate_series(1, 20) i,
  generate_series(1, 300) j group by i
"""


@pytest.fixture
def db(pg_newest: PostgresServer) -> Iterator[str]:
    with database(pg_newest) as name:
        pg_newest.execute(TABLES, database=name)
        yield name


def meanwhile(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """Do something between the reading of the catalog and the load's own backup."""
    read = FilesReader.read

    def hooked(self: FilesReader, tables: list[str]) -> object:
        snapshot = read(self, tables)
        action()
        return snapshot

    monkeypatch.setattr(FilesReader, "read", hooked)


def test_with_nothing_but_a_replication_connection(
    pg: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    with database(pg) as db:
        pg.execute(TABLES, database=db)
        rules = ["host replication copier all trust", "host all copier all reject", "host all all all trust"]
        words = ["--source", pg.dsn(db, "copier"), "--to", clickhouse.url, "--json", "--no-progress"]
        tables = ["--table", "plain", "--table", f"{db}.public.root", "--table", "public.toasted"]
        pg.execute("create role copier login replication")
        try:
            with hba(pg, "\n".join(rules) + "\n"):
                refused = walshadow("load", *words, *tables)
                assert refused.code == 1 and "pg_hba.conf rejects connection" in refused.err
                done = walshadow("load", *words, *tables, "--catalog", "backup")
        finally:
            pg.execute("drop role copier")
        assert done.code == 0, done.err
        assert [t["rows_written"] for t in done.json["tables"]] == [3000 - 3000 // 9, 1000, 20]
        assert done.json["exact"] is True, done.json
        for table in ("plain", "root", "toasted"):
            assert_equal(walshadow, pg, db, clickhouse, table)


def test_what_is_planned_is_what_sql_plans(
    pg_newest: PostgresServer, db: str, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    words = ["--table", "plain", "--table", "root", "--table", "toasted", "--dry-run"]
    sql = load(walshadow, pg_newest, db, clickhouse, *words).json
    backup = load(walshadow, pg_newest, db, clickhouse, *words, "--catalog", "backup").json
    assert backup["tables"] == sql["tables"] and backup["bytes_wanted"] == sql["bytes_wanted"]
    missing = load(walshadow, pg_newest, db, clickhouse, "--table", "plane", "--catalog", "backup")
    assert missing.code == 1 and "did you mean public.plain?" in missing.err
    assert load(walshadow, pg_newest, db, clickhouse, "--table", "plain", "--catalog", "magic").code == 2


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("alter table plain add extra int", "was altered while the backup ran"),
        ("alter table plain rename to other", "was dropped or renamed while the backup ran"),
        ("drop table plain", "was dropped or renamed while the backup ran"),
        ("truncate plain", "was rewritten while the backup ran"),
        ("alter table plain alter id type bigint", "was rewritten while the backup ran"),
        ("delete from plain; vacuum plain", "shrank from"),
    ],
)
def test_ddl_between_the_two_backups(
    pg_newest: PostgresServer,
    db: str,
    clickhouse: EmbeddedClickHouse,
    walshadow: Run,
    monkeypatch: pytest.MonkeyPatch,
    statement: str,
    reason: str,
) -> None:
    def act() -> None:
        for part in statement.split(";"):
            pg_newest.execute(part, database=db)

    meanwhile(monkeypatch, act)
    words = ["--no-wal", "--catalog", "backup", "--table", "plain", "--table", "toasted"]
    done = load(walshadow, pg_newest, db, clickhouse, *words)
    assert done.code == 3, done.err
    plain, toasted = done.json["tables"]
    assert plain["status"] == "failed" and reason in plain["error"]
    assert toasted["status"] == "done" and toasted["exact"] is True
    assert clickhouse.tables() == {"toasted"}


def test_catalogs_that_move_between_the_two_backups(
    pg_newest: PostgresServer, db: str, clickhouse: EmbeddedClickHouse, walshadow: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act() -> None:
        for catalog in ("pg_class", "pg_attribute", "pg_namespace"):
            pg_newest.execute(f"vacuum full {catalog}", database=db)

    meanwhile(monkeypatch, act)
    done = load(walshadow, pg_newest, db, clickhouse, "--catalog", "backup", "--table", "plain")
    assert done.code == 0, done.err
    assert_equal(walshadow, pg_newest, db, clickhouse, "plain")


def test_a_table_that_grew_by_empty_pages_is_in_doubt(
    pg_newest: PostgresServer, db: str, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    """As a table that was cut off while it was copied has them too."""
    (path,) = pg_newest.execute("select pg_relation_filepath('plain')", database=db)[0]
    pg_newest.execute("checkpoint", database=db)
    with (pg_newest.data / path).open("ab") as file:
        file.write(bytes(8192))
    done = load(walshadow, pg_newest, db, clickhouse, "--no-wal", "--catalog", "backup", "--table", "plain")
    assert done.code == 0, done.err
    assert done.json["exact"] is False and "1 of its pages are empty" in done.err
