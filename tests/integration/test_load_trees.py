"""Roots, inheritance trees and other kinds of tables, from a real Postgres into a real ClickHouse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import EmbeddedClickHouse
from tests.integration.support import Run, assert_equal, database, load
from walshadow_core.catalog import sql
from walshadow_core.testing.postgres import PostgresServer

_TREE = """
    create table root (id int not null, region text not null, at date not null, big text, doc jsonb)
        partition by list (region);
    create table north partition of root for values in ('n');
    create table south (junk int, doc jsonb, big text, at date not null, other text, region text not null,
        id int not null);
    alter table south drop column junk; alter table south drop column other;
    alter table root attach partition south for values in ('s');
    create table rest partition of root default partition by range (at);
    create table rest_old partition of rest for values from (minvalue) to ('2024-01-01') partition by hash (id);
    create table rest_old_0 partition of rest_old for values with (modulus 2, remainder 0);
    create table rest_old_1 partition of rest_old for values with (modulus 2, remainder 1);
    create table rest_new partition of rest default;
    alter table rest_new alter big set storage external;
    insert into root select i, (array['n', 's', 'x', 'y'])[i % 4 + 1], date '2023-06-01' + i % 500,
        case i % 3 when 0 then repeat(md5(i::text), i % 300) when 1 then repeat('x', 40 * (i % 300)) end,
        jsonb_build_object('i', i, 'a', array[i, i + 1]) from generate_series(1, 6000) i;
    delete from root where id % 10 = 0; update root set big = 'new' where id % 11 = 0;"""


def test_a_partitioned_table(pg: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run) -> None:
    """All leaves in one table: other column orders, values out of line, and a key that the root checks."""
    with database(pg) as db:
        pg.execute(_TREE + "alter table root add primary key (region, at, id); checkpoint", database=db)
        done = load(walshadow, pg, db, clickhouse, "--table", "root", "--jobs", "2")
        assert done.code == 0, done.err
        (table,) = done.json["tables"]
        assert (table["rows_written"], table["exact"], table["warnings"]) == (5400, True, [])
        assert_equal(walshadow, pg, db, clickhouse, "root")
        assert clickhouse.tables() == {"root"}
        again = load(walshadow, pg, db, clickhouse, "--table", "rest", "--table", "south")
        assert again.code == 0, again.err
        for name in ("rest", "south"):
            assert_equal(walshadow, pg, db, clickhouse, name)


def test_columns_added_with_other_defaults_per_leaf(
    pg: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    """A leaf that was attached with a column of its own has its own missing value, or its own rows."""
    with database(pg) as db:
        pg.execute(
            """create type mood as enum ('low', 'high');
            create table root (id int not null, k int not null) partition by list (k);
            create table one partition of root for values in (1);
            create table two (k int not null, id int not null);
            create table three (id int not null, k int not null);
            insert into root select i, 1 from generate_series(1, 500) i;
            insert into two select 2, i from generate_series(1, 500) i; insert into three values (1, 3), (2, 3);
            alter table two add doc jsonb default '{"two": [1, 2.50]}', add m mood default 'low', add n int[] default '{1,null}',
                add t tsvector default 'a:1 b:2';
            insert into two values (2, 501, null, null, null, null);
            alter table root add n int[] default '{2,3}', add doc jsonb default '{"root": true}', add t tsvector, add m mood default 'high';
            alter table three add m mood, add n int[] default '{}', add doc jsonb, add t tsvector default 'c';
            alter table root attach partition two for values in (2); alter table root attach partition three for values in (3);
            insert into root (id, k) select i, 1 + i % 3 from generate_series(1000, 1100) i; checkpoint""",
            database=db,
        )
        done = load(walshadow, pg, db, clickhouse, "--table", "root")
        assert done.code == 0, done.err
        assert_equal(walshadow, pg, db, clickhouse, "root")


def test_a_key_that_only_the_leaves_check(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    """The same id in two leaves is two rows: tableoid is in the key."""
    with database(pg_newest) as db:
        pg_newest.execute(
            """create table root (id int not null, k int) partition by list (k);
            create table one partition of root (primary key (id)) for values in (1);
            create table two partition of root (primary key (id)) for values in (2);
            insert into root select i, k from generate_series(1, 1000) i, generate_series(1, 2) k; checkpoint""",
            database=db,
        )
        done = load(walshadow, pg_newest, db, clickhouse, "--table", "root")
        assert done.code == 0, done.err
        (table,) = done.json["tables"]
        assert table["rows_written"] == 2000 and "tableoid joins it" in table["warnings"][0]
        assert_equal(walshadow, pg_newest, db, clickhouse, "root")
        found = clickhouse.rows(f"SELECT tableoid, count() FROM {clickhouse.database}.root FINAL GROUP BY 1 ORDER BY 1")
        oids = pg_newest.execute("select tableoid::int8, count(*) from root group by 1 order by 1", database=db)
        assert found == oids
        text = load(
            walshadow,
            pg_newest,
            db,
            clickhouse,
            "--table",
            "root",
            "--into",
            "root=t",
            "--type",
            "root.tableoid=String",
        )
        assert text.code == 0, text.err
        assert clickhouse.rows(f"SELECT DISTINCT tableoid FROM {clickhouse.database}.t ORDER BY 1") == [
            (str(oid),) for oid, _ in oids
        ]


def test_a_root_without_rows(pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run) -> None:
    with database(pg_newest) as db:
        pg_newest.execute(
            "create table empty (id int primary key) partition by range (id); create table bare (id int) partition by range (id);"
            "create table bare_leaf partition of bare default",
            database=db,
        )
        done = load(walshadow, pg_newest, db, clickhouse, "--table", "empty", "--table", "bare")
        assert done.code == 0, done.err
        assert [t["rows_written"] for t in done.json["tables"]] == [0, 0]
        for name in ("empty", "bare"):
            assert_equal(walshadow, pg_newest, db, clickhouse, name)


def test_inheritance(pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run) -> None:
    with database(pg_newest) as db:
        pg_newest.execute(
            """create table parent (id int primary key, x text not null);
            create table child (y int, primary key (id)) inherits (parent);
            create table other (own int, x text not null, id int primary key); alter table other inherit parent;
            insert into parent select i, 'p' from generate_series(1, 100) i;
            insert into child select i, 'c', i from generate_series(1, 100) i;
            insert into other select i, 'o', i from generate_series(1, 50) i; checkpoint""",
            database=db,
        )
        alone = load(walshadow, pg_newest, db, clickhouse, "--table", "parent")
        assert alone.code == 0, alone.err
        assert alone.json["tables"][0]["rows_written"] == 100
        assert "public.child, public.other" in alone.json["tables"][0]["warnings"][0]
        assert_equal(walshadow, pg_newest, db, clickhouse, "parent")
        words = ("--table", "parent", "--with-children")
        planned = load(walshadow, pg_newest, db, clickhouse, *words, "--into", "parent=tree", "--dry-run")
        assert [c["name"] for c in planned.json["tables"][0]["columns"]] == ["id", "x", "tableoid"]
        assert planned.json["tables"][0]["key"] == ["id", "tableoid"]
        tree = load(walshadow, pg_newest, db, clickhouse, *words, "--into", "parent=tree")
        assert tree.code == 0, tree.err
        assert tree.json["tables"][0]["rows_written"] == 250
        assert_equal(walshadow, pg_newest, db, clickhouse, "parent", "--into", "tree", "--with-children")


def test_materialized_views_and_tables_without_a_key(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    with database(pg_newest) as db:
        pg_newest.execute(
            """create table keyless (a int, b text); insert into keyless select i % 7, 'x' from generate_series(1, 300) i;
            create materialized view m as select a, count(*) as n from keyless group by a;
            create table by_index (a int not null, b int generated always as identity, c int generated always as (a * 2) stored,
                constraint i unique (a, b));
            alter table by_index replica identity using index i;
            insert into by_index (a) select i from generate_series(1, 300) i;
            create table whole (a int primary key, b text); alter table whole replica identity full;
            insert into whole values (1, 'x'); checkpoint""",
            database=db,
        )
        names = ("keyless", "m", "by_index", "whole")
        done = load(walshadow, pg_newest, db, clickhouse, *(w for n in names for w in ("--table", n)))
        # An identity column is NOT NULL.
        assert done.code == 0, done.err
        tables = {t["table"]: t for t in done.json["tables"]}
        assert "no key" in tables["public.keyless"]["warnings"][0]
        assert "REFRESH" in tables["public.m"]["warnings"][0]
        assert tables["public.by_index"]["warnings"] == [] == tables["public.whole"]["warnings"]
        assert "warning: public.m: a materialized view" in done.err
        for name in names:
            assert_equal(walshadow, pg_newest, db, clickhouse, name)
        key = clickhouse.rows(
            f"SELECT sorting_key FROM system.tables WHERE database = '{clickhouse.database}' AND name = 'by_index'"
        )
        assert key == [("a, b",)]


@pytest.fixture
def after_the_catalog(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], list[int]]:
    """Runs something when the catalog has been read, and gives the list of its readings."""

    def arrange(work: Callable[[], object]) -> list[int]:
        read = sql.read_catalog
        calls: list[int] = []

        def read_then_work(*arguments: Any, **more: Any) -> sql.CatalogSnapshot:
            snapshot = read(*arguments, **more)
            if not calls:
                work()
            calls.append(1)
            return snapshot

        monkeypatch.setattr(sql, "read_catalog", read_then_work)
        return calls

    return arrange


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("alter table root detach partition rest", "came or went"),
        ("create table late partition of root for values in ('late')", "came or went"),
        ("alter table south alter big set not null", "was altered"),
    ],
)
def test_a_leaf_that_changes_while_the_backup_runs_ends_the_table(
    pg_newest: PostgresServer,
    clickhouse: EmbeddedClickHouse,
    walshadow: Run,
    after_the_catalog: Callable[[Callable[[], object]], list[int]],
    statement: str,
    reason: str,
) -> None:
    with database(pg_newest) as db:
        pg_newest.execute(_TREE + "update root set big = 'x'; checkpoint", database=db)
        calls = after_the_catalog(lambda: pg_newest.execute(statement, database=db))
        done = load(walshadow, pg_newest, db, clickhouse, "--table", "root")
        assert done.code == 1 and len(calls) == 2
        assert reason in done.json["tables"][0]["error"], done.err
        assert clickhouse.tables() == set()


def test_a_leaf_that_is_truncated_while_the_backup_runs_is_read_again(
    pg_newest: PostgresServer,
    clickhouse: EmbeddedClickHouse,
    walshadow: Run,
    after_the_catalog: Callable[[Callable[[], object]], list[int]],
) -> None:
    with database(pg_newest) as db:
        pg_newest.execute(_TREE + "update root set big = 'x'; checkpoint", database=db)
        after_the_catalog(lambda: pg_newest.execute("truncate rest_new", database=db))
        done = load(walshadow, pg_newest, db, clickhouse, "--table", "root")
        assert done.code == 0, done.err
        assert (done.json["exact"], done.json["tables"][0]["passes"]) == (True, 2)
        assert_equal(walshadow, pg_newest, db, clickhouse, "root")
