"""Tables of unusual shape, through the whole program: as wide as they get, with hardly anything in them, or full of
what was."""

from __future__ import annotations

from tests.conftest import EmbeddedClickHouse
from tests.integration.support import Run, assert_equal, database, load
from walshadow_core.testing.postgres import PostgresServer

MOST_COLUMNS = 1600
"""MaxHeapAttributeNumber (``access/htup_details.h``)."""
MOST_BYTES = 8160
"""MaxHeapTupleSize: a page without its header and one line pointer, aligned; the tuple's own header is in it."""


def test_as_many_columns_as_there_can_be(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    """1600, of several types, some of them NULL in each row, one row of NULLs alone but for its key."""
    kinds = ("smallint", "boolean", "int", '"char"', "date")
    values = ("7", "true", "i", "'x'", "date '2024-01-01' + i")
    columns = ", ".join(f"c{k} {kinds[k % 5]}" for k in range(MOST_COLUMNS - 1))
    row = ", ".join(f"case when (i + {k}) % 3 = 0 then {values[k % 5]} end" for k in range(MOST_COLUMNS - 1))
    with database(pg_newest) as db:
        pg_newest.execute(f"create table wide (id int primary key, {columns})", database=db)
        pg_newest.execute(f"insert into wide select i, {row} from generate_series(1, 50) i", database=db)
        pg_newest.execute("insert into wide (id) values (51)", database=db)
        done = load(walshadow, pg_newest, db, clickhouse, "--table", "wide")
        assert done.code == 0, done.err
        assert done.json["tables"][0]["rows_written"] == 51
        found = clickhouse.rows(f"SELECT count() FROM system.columns WHERE database = '{clickhouse.database}'")
        assert found[0][0] == MOST_COLUMNS + 4
        for k in (0, 1, 2, 4, 797, MOST_COLUMNS - 3):
            ours = clickhouse.rows(f"SELECT id, toString(c{k}) FROM {clickhouse.database}.wide ORDER BY id")
            theirs = pg_newest.execute(f"select id, c{k}::text from wide order by id", database=db)
            assert [tuple(r) for r in ours] == theirs, k


def test_shapes_on_every_major(pg: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run) -> None:
    """100 dropped columns, no columns, rows of NULLs, almost empty pages, HOT chains, tuples of a whole page."""
    dropped = ", ".join(f"d{k} {'text' if k % 2 else 'bigint'} default {k}" for k in range(100))
    with database(pg) as db:
        for statement in (
            f"create table dropped (id int primary key, {dropped}, kept text)",
            "insert into dropped (id, kept) select i, 'before ' || i from generate_series(1, 300) i",
            "alter table dropped " + ", ".join(f"drop column d{k}" for k in range(100)),
            "insert into dropped select i, 'after ' || i from generate_series(301, 600) i",
            "alter table dropped add column later int default 5",
            "insert into dropped select i, null, null from generate_series(601, 700) i",
            "create table without ()",
            "insert into without default values; insert into without default values",
            "create table nulls (a int, b text, c numeric, d timestamptz)",
            "insert into nulls select null, null, null, null from generate_series(1, 500)",
            "insert into nulls values (1, 'b', 2.5, '2024-01-01'), (null, '', null, null)",
            "create table sparse (id int primary key, v text) with (fillfactor = 10)",
            "insert into sparse select i, repeat('x', 100) from generate_series(1, 800) i",
            "create table chains (id int primary key, n int) with (fillfactor = 50)",
            "insert into chains select i, 0 from generate_series(1, 200) i",
            *["update chains set n = n + 1"] * 4,
            "select count(*) from chains",
            *["update chains set n = n + 1 where id % 2 = 0"] * 5,
            "delete from chains where id % 7 = 0",
            "create table full_pages (id int primary key, v text); alter table full_pages alter v set storage plain",
            f"insert into full_pages select i, repeat(chr(96 + i), {MOST_BYTES} - 24 - 4 - 4)"
            " from generate_series(1, 20) i",
        ):
            pg.execute(statement, database=db)
        tables = ("dropped", "without", "nulls", "sparse", "chains", "full_pages")
        assert pg.execute("select pg_relation_size('full_pages') / 8192", database=db)[0][0] == 20
        done = load(walshadow, pg, db, clickhouse, *(word for t in tables for word in ("--table", t)))
        assert done.code == 0, done.err
        rows = {t["table"]: t["rows_written"] for t in done.json["tables"]}
        assert rows == {
            "public.dropped": 700, "public.without": 2, "public.nulls": 502, "public.sparse": 800,
            "public.chains": 172, "public.full_pages": 20,
        }  # fmt: skip
        for table in tables:
            assert_equal(walshadow, pg, db, clickhouse, table)
