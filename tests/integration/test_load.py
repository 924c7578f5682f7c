"""``walshadow load`` from a real Postgres into a real ClickHouse, through the program itself."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import EmbeddedClickHouse
from tests.integration.support import Run, assert_equal, database, load
from walshadow_core.backfill import onepass
from walshadow_core.backfill.channel import Channel
from walshadow_core.backfill.publish import publish
from walshadow_core.backfill.worker import TableBatch
from walshadow_core.backfill.writer import WriterLoop
from walshadow_core.catalog import sql
from walshadow_core.plugins import Plugins
from walshadow_core.testing.postgres import PostgresServer


def test_rows_come_over_and_a_second_load_replaces_them(
    pg: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    with database(pg) as db:
        pg.execute(
            "create schema app; create table app.orders (id bigint primary key, note text, amount numeric(10,2));"
            "insert into app.orders select i, nullif('note ' || i % 7, 'note 3'), i / 3.0 from generate_series(1, 20000) i;"
            "delete from app.orders where id % 10 = 0; update app.orders set note = 'new' where id % 11 = 0; checkpoint",
            database=db,
        )
        first = load(walshadow, pg, db, clickhouse, "--table", "app.orders")
        assert first.code == 0, first.err
        table = first.json["tables"][0]
        assert (table["status"], table["rows_emitted"], table["rows_written"]) == ("done", 18000, 18000)
        assert table["rows_walked"] == table["rows_emitted"] + table["rows_gated"]
        assert table["exact"] is True
        assert_equal(walshadow, pg, db, clickhouse, "app.orders")
        tags = clickhouse.rows(f"SELECT DISTINCT _lsn, _xid, _is_deleted FROM {clickhouse.database}.orders")
        high, low = first.json["b_redo"].split("/")
        assert tags == [((int(high, 16) << 32) + int(low, 16), 0, False)]
        pg.execute(
            "delete from app.orders where id < 100; insert into app.orders values (1, 'again', 'NaN')", database=db
        )
        second = load(walshadow, pg, db, clickhouse, "--table", "app.orders")
        assert second.code == 0, second.err
        assert second.json["tables"][0]["adjusted"] == {"amount": 1}
        assert_equal(walshadow, pg, db, clickhouse, "app.orders")
        assert clickhouse.tables() == {"orders"}


def test_names_that_need_quoting(pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run) -> None:
    with database(pg_newest) as db:
        pg_newest.execute(
            """create schema "sch.e""ma";
            create table "sch.e""ma"."Weird ""name"" é.`x\\" ("select" int primary key, "a.b `c`" text, "back\\slash" int,
                "quo'te" text, "{c}" text, "%s" text, "Ж" text);
            insert into "sch.e""ma"."Weird ""name"" é.`x\\" select i, 'x', i, 'y', 'z', 'p', 'ж' from generate_series(1, 50) i""",
            database=db,
        )
        name = '"sch.e""ma"."Weird ""name"" é.`x\\"'
        done = load(walshadow, pg_newest, db, clickhouse, "--table", name)
        assert done.code == 0, done.err
        assert clickhouse.tables() == {'Weird "name" é.`x\\'}
        assert_equal(walshadow, pg_newest, db, clickhouse, name)


def test_dropped_columns_and_columns_added_later(
    pg: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    with database(pg) as db:
        pg.execute(
            "create table t (id int primary key, gone text, kept smallint, gone2 numeric);"
            "insert into t select i, repeat('x', i % 40), i % 100, i from generate_series(1, 5000) i;"
            "alter table t drop column gone, add column later numeric(8,3) not null default 12.5,"
            " add column words text default 'a default', add column stamp timestamptz default '2024-02-29 12:00+00',"
            " add column nothing int; insert into t select i, 1, 2, 3 from generate_series(5001, 6000) i;"
            "alter table t drop column gone2, add column pause interval default '1 mon -3 days', add column u uuid default"
            " '61f0c404-5cb3-11e7-907b-a6006ad3dba0', add column b bytea default '\\x00ff', add column f float4 default '-0'",
            database=db,
        )
        done = load(walshadow, pg, db, clickhouse, "--table", "t")
        assert done.code == 0, done.err
        assert_equal(walshadow, pg, db, clickhouse, "t")


def test_a_table_in_a_tablespace(pg: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run) -> None:
    assert pg.root is not None
    folder = pg.root / f"ts_{uuid.uuid4().hex[:8]}"
    folder.mkdir()
    os.chown(folder, pg.root.stat().st_uid, pg.root.stat().st_gid)
    space = folder.name
    pg.execute(f"create tablespace {space} location '{folder}'")
    try:
        with database(pg) as db:
            pg.execute(
                f"create table t (id int primary key, v text) tablespace {space};"
                "insert into t select i, 'v' || i from generate_series(1, 3000) i",
                database=db,
            )
            done = load(walshadow, pg, db, clickhouse, "--table", "t")
            assert done.code == 0, done.err
            assert done.json["tables"][0]["rows_written"] == 3000
            assert_equal(walshadow, pg, db, clickhouse, "t")
    finally:
        pg.execute(f"drop tablespace {space}")


def test_a_table_without_a_key(pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run) -> None:
    with database(pg_newest) as db:
        pg_newest.execute(
            "create table log (at timestamp(3), line text);"
            "insert into log select '2024-01-01', 'twice' from generate_series(1, 2); insert into log values (null, null)",
            database=db,
        )
        done = load(walshadow, pg_newest, db, clickhouse, "--table", "log")
        assert done.code == 0, done.err
        engine = f"SELECT engine, sorting_key FROM system.tables WHERE database = '{clickhouse.database}'"
        assert clickhouse.rows(engine) == [("MergeTree", "")]
        assert_equal(walshadow, pg_newest, db, clickhouse, "log")


def test_what_a_snapshot_would_show(pg: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run) -> None:
    """Deleted, updated, aborted, rolled back to a savepoint, in progress, prepared, locked, multixacts with and
    without an updater: the rows are those that a snapshot shows at that moment."""
    with database(pg) as db:
        pg.execute(
            "create table t (id int primary key, v text); insert into t select i, 'old' from generate_series(1, 1000) i;"
            "update t set v = 'new' where id between 1 and 100; delete from t where id between 101 and 200",
            database=db,
        )
        aborted = "begin; delete from t where id between 201 and 300; update t set v = 'no' where id < 50; rollback"
        rolled_back = (
            "begin; insert into t values (2001, 'yes'); savepoint s; insert into t values (2002, 'no');"
            " rollback to s; insert into t values (2003, 'yes'); commit"
        )
        pg.execute(aborted, database=db)
        pg.execute(rolled_back, database=db)
        with (
            pg.connect(db, autocommit=False) as one,
            pg.connect(db, autocommit=False) as two,
            pg.connect(db, autocommit=False) as three,
        ):
            # Multixacts: two lockers; a locker and an updater that aborts; a locker and one that commits.
            for conn in (one, two):
                conn.execute("select 1 from t where id between 301 and 320 for key share")
            two.execute("update t set v = 'by a locker' where id between 311 and 315")
            two.commit()
            one.execute("select 1 from t where id between 321 and 330 for key share")
            three.execute("update t set v = 'never' where id between 321 and 330")
            three.rollback()
            one.execute("insert into t values (3001, 'in progress')")
            one.execute("delete from t where id between 401 and 410")
            three.execute("insert into t values (3002, 'prepared')")
            three.execute("delete from t where id between 411 and 420")
            three.execute(f"prepare transaction '{db}'")
            try:
                expected = pg.execute("select id, v from t order by id", database=db)
                done = load(walshadow, pg, db, clickhouse, "--table", "t", "--no-wal")
            finally:
                with pg.connect(db) as ender:
                    ender.execute(f"rollback prepared '{db}'")
        assert done.code == 0, done.err
        assert clickhouse.rows(f"SELECT id, v FROM {clickhouse.database}.t FINAL ORDER BY id") == expected
        assert done.json["tables"][0]["rows_gated"] > 0
        assert done.json["tables"][0]["rows_deferred"] > 0


def test_one_table_that_fails_does_not_stop_the_others(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    with database(pg_newest, "encoding 'SQL_ASCII' locale 'C' template template0") as db:
        pg_newest.execute(
            "create table good (id int primary key); insert into good values (1), (2);"
            r"create table bad (id int primary key, v text); insert into bad values (1, 'ok'), (2, E'\xff')",
            database=db,
        )
        done = load(walshadow, pg_newest, db, clickhouse, "--table", "good", "--table", "bad")
        assert done.code == 3
        states = {t["table"]: (t["status"], t["error"]) for t in done.json["tables"]}
        assert states["public.good"] == ("done", None)
        assert states["public.bad"][0] == "failed"
        assert 'column "v": text is not valid in' in states["public.bad"][1]
        assert clickhouse.tables() == {"good"}


def test_refused_before_any_byte_is_read(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    with database(pg_newest) as db:
        pg_newest.execute(
            "create table good (id int primary key); create table odd (id int primary key, p aclitem, ok text);"
            "create view v as select 1; insert into good values (1)",
            database=db,
        )
        checkpoints = "select num_timed + num_requested from pg_stat_checkpointer"
        before = pg_newest.execute(checkpoints)
        done = load(walshadow, pg_newest, db, clickhouse, "--table", "good", "--table", "odd", "--table", "v")
        assert done.code == 1
        assert done.err.count("\n") == 1
        assert "aclitem" in done.err
        assert '"p"' in done.err
        assert "view" in done.err
        assert pg_newest.execute(checkpoints) == before, "a backup was started"
        skipped = load(
            walshadow, pg_newest, db, clickhouse, "--table", "good", "--table", "odd", "--table", "v", "--skip-refused"
        )
        assert skipped.code == 3
        assert {t["table"]: t["status"] for t in skipped.json["tables"]} == {
            "public.good": "done",
            "public.odd": "refused",
            "v": "refused",
        }
        assert clickhouse.tables() == {"good"}


def test_into(pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run) -> None:
    with database(pg_newest) as db:
        pg_newest.execute(
            "create schema a; create schema b; create table a.t (id int primary key); create table b.t (id int primary key);"
            "insert into a.t values (1); insert into b.t values (2)",
            database=db,
        )
        tables = ("--table", "a.t", "--table", "b.t")
        clash = load(walshadow, pg_newest, db, clickhouse, *tables)
        assert clash.code == 2
        assert "a.t" in clash.err
        assert "b.t" in clash.err
        done = load(walshadow, pg_newest, db, clickhouse, *tables, "--into", "{schema}_{table}", "--into", "b.t=other")
        assert done.code == 0, done.err
        assert clickhouse.tables() == {"a_t", "other"}
        assert_equal(walshadow, pg_newest, db, clickhouse, "b.t", "--into", "other")


def test_without_the_wal_a_table_written_to_during_the_backup_is_not_exact(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    with database(pg_newest) as db:
        pg_newest.execute(
            "create table busy (id int primary key, v text); create table quiet (id int primary key);"
            "insert into quiet values (1); insert into busy select i, 'v' from generate_series(1, 50000) i",
            database=db,
        )
        stop = threading.Event()

        def write() -> None:
            with pg_newest.connect(db) as conn:
                while not stop.is_set():
                    conn.execute("update busy set v = v || 'x' where id % 97 = (random() * 96)::int")

        writer = threading.Thread(target=write)
        writer.start()
        try:
            done = load(walshadow, pg_newest, db, clickhouse, "--table", "busy", "--table", "quiet", "--no-wal")
        finally:
            stop.set()
            writer.join()
        assert done.code in (0, 3), done.err
        busy, quiet = done.json["tables"]
        assert busy["exact"] is False
        assert len(busy["warnings"]) == (1 if busy["status"] == "done" else 0)
        assert quiet["exact"] is True
        assert done.json["exact"] is False


@pytest.mark.parametrize("ends", ["commit", "rollback", "nothing"])
def test_without_the_wal_a_transaction_that_commits_while_the_load_runs_makes_it_not_exact(
    pg: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """No page tells of it: what it wrote was written out before the backup began, and its commit is in pg_xact."""
    with database(pg) as db:
        pg.execute("create table t (id int primary key); insert into t select generate_series(1, 100)", database=db)
        with pg.connect(db, autocommit=False) as writer:
            writer.execute("delete from t where id <= 10")

            def read_then_end(dsn: str, tables: list[str], **more: Any) -> sql.CatalogSnapshot:
                snapshot = read_catalog(dsn, tables, **more)
                if ends != "nothing":
                    writer.execute(ends)
                return snapshot

            read_catalog = sql.read_catalog
            monkeypatch.setattr(sql, "read_catalog", read_then_end)
            done = load(walshadow, pg, db, clickhouse, "--table", "t", "--no-wal")
        assert done.code == 0, done.err
        [table] = done.json["tables"]
        assert (table["rows_written"], table["exact"]) == ((90, False) if ends == "commit" else (100, True))
        assert len(table["warnings"]) == (1 if ends == "commit" else 0)


@pytest.mark.parametrize(
    ("ddl", "reason"),
    [
        ("alter table t alter id type bigint", "was rewritten"),
        ("alter table t add column more int default 1", "was altered"),
        ("alter table t drop column v", "was altered"),
        ("alter table t drop constraint t_pkey", "was altered"),
        ("drop table t; create table t (id int primary key, v text)", "was dropped or renamed"),
        ("alter table t rename to u", "was dropped or renamed"),
    ],
)
def test_ddl_while_the_backup_runs_ends_the_table_and_changes_nothing(
    pg_newest: PostgresServer,
    clickhouse: EmbeddedClickHouse,
    walshadow: Run,
    monkeypatch: pytest.MonkeyPatch,
    ddl: str,
    reason: str,
) -> None:
    """A rewrite leaves the old file empty or missing in the copy, with no error: no rows over good rows."""
    with database(pg_newest) as db:
        pg_newest.execute(
            "create table t (id int primary key, v text); insert into t select i, 'v' from generate_series(1, 100) i;"
            "create table other (id int primary key); insert into other values (1)",
            database=db,
        )
        assert load(walshadow, pg_newest, db, clickhouse, "--table", "t", "--table", "other").code == 0
        before = clickhouse.rows(f"SELECT * FROM {clickhouse.database}.t ORDER BY ALL")
        owed = [ddl]

        def read_then_alter(dsn: str, tables: list[str], **more: Any) -> sql.CatalogSnapshot:
            snapshot = read_catalog(dsn, tables, **more)
            if owed:
                pg_newest.execute(owed.pop(), database=db)
            return snapshot

        read_catalog = sql.read_catalog
        monkeypatch.setattr(sql, "read_catalog", read_then_alter)
        done = load(walshadow, pg_newest, db, clickhouse, "--table", "t", "--table", "other")
        assert done.code == 3, done.err
        t, other = done.json["tables"]
        assert (t["status"], other["status"]) == ("failed", "done")
        assert reason in t["error"]
        assert clickhouse.rows(f"SELECT * FROM {clickhouse.database}.t ORDER BY ALL") == before
        assert clickhouse.tables() == {"t", "other"}


def test_values_out_of_range_in_a_key_are_an_error(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    """Clamped, two keys would be one, and a row would be lost."""
    with database(pg_newest) as db:
        pg_newest.execute(
            "create table t (at timestamp primary key, v timestamp);"
            "insert into t values ('infinity', 'infinity'), ('3000-01-01', null), ('2024-01-01', null)",
            database=db,
        )
        done = load(walshadow, pg_newest, db, clickhouse, "--table", "t")
        assert done.code == 1
        assert "'at' has 2 values that ClickHouse can't hold" in done.json["tables"][0]["error"]
        assert clickhouse.tables() == set()
        pg_newest.execute("delete from t where at > '2024-06-01'; update t set v = 'infinity'", database=db)
        assert load(walshadow, pg_newest, db, clickhouse, "--table", "t").code == 0
        checked = assert_equal(walshadow, pg_newest, db, clickhouse, "t")
        assert checked.json["adjusted"] == {"v": 1}


def test_adjusted_values_are_counted_and_warned_of_once_per_column(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    """However many there are."""
    with database(pg_newest) as db:
        pg_newest.execute(
            "create table t (id int primary key, at timestamp, day date, plain date);"
            "insert into t select i, 'infinity', case when i % 2 = 0 then '-infinity'::date end, '2024-01-01'"
            " from generate_series(1, 30000) i",
            database=db,
        )
        words = ["--source", pg_newest.dsn(db), "--to", clickhouse.url, "--table", "t", "--memory", "64"]
        done = walshadow("load", *words, "--json", "--no-progress")
        assert done.code == 0, done.err
        assert done.json["tables"][0]["adjusted"] == {"at": 30000, "day": 15000}
        warned = [line for line in done.err.splitlines() if "were adjusted" in line]
        assert len(warned) == 2, done.err
        assert sum("t.at: 30,000 values" in line for line in warned) == 1
        assert sum("t.day: 15,000 values" in line for line in warned) == 1


def test_two_loads_of_one_table_at_once_double_nothing(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second begins while the first has its rows in staging: neither publishes a mix."""
    with database(pg_newest) as db:
        pg_newest.execute("create table log (v int); insert into log select generate_series(1, 1000)", database=db)
        assert load(walshadow, pg_newest, db, clickhouse, "--table", "log").code == 0
        inner: list[int] = []

        def another_first(*given: Any) -> str | None:
            if not inner:
                inner.append(0)
                inner[0] = load(walshadow, pg_newest, db, clickhouse, "--table", "log").code
            return publish(*given)

        monkeypatch.setattr(onepass, "publish", another_first)
        outer = load(walshadow, pg_newest, db, clickhouse, "--table", "log")
        assert inner == [0]
        assert outer.code == 1
        assert "another load of log" in outer.json["tables"][0]["error"]
        assert clickhouse.rows(f"SELECT count() FROM {clickhouse.database}.log") == [(1000,)]
        assert clickhouse.tables() == {"log"}


def test_a_load_that_begins_while_another_writes_doubles_nothing(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second makes the staging table anew, under the name that the first inserts into."""
    with database(pg_newest) as db:
        pg_newest.execute("create table log (v int); insert into log select generate_series(1, 1000)", database=db)
        assert load(walshadow, pg_newest, db, clickhouse, "--table", "log").code == 0
        write = WriterLoop.run

        def another_first(self: WriterLoop, batches: Channel[TableBatch]) -> None:
            monkeypatch.setattr(WriterLoop, "run", write)
            destination = plugins.destination(clickhouse.url, {})
            relation = sql.read_catalog(pg_newest.dsn(db), ["log"]).relations[0]
            destination.create_staging(destination.plan(relation, "log"))
            destination.close()
            write(self, batches)

        plugins = Plugins.load()
        monkeypatch.setattr(WriterLoop, "run", another_first)
        outer = load(walshadow, pg_newest, db, clickhouse, "--table", "log")
        assert outer.code == 1
        assert "another load of log" in outer.json["tables"][0]["error"]
        assert clickhouse.rows(f"SELECT count() FROM {clickhouse.database}.log") == [(1000,)]


def test_rows_that_someone_else_put_in_are_replaced_only_on_request(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    with database(pg_newest) as db:
        pg_newest.execute("create table t (id int primary key); insert into t values (1)", database=db)
        assert load(walshadow, pg_newest, db, clickhouse, "--table", "t").code == 0
        clickhouse.client.command(f"INSERT INTO {clickhouse.database}.t (id) VALUES (77)")
        refused = load(walshadow, pg_newest, db, clickhouse, "--table", "t")
        assert refused.code == 1
        assert "--replace" in refused.err
        assert load(walshadow, pg_newest, db, clickhouse, "--table", "t", "--replace").code == 0
        assert_equal(walshadow, pg_newest, db, clickhouse, "t")


def test_virtual_generated_columns_are_named(
    server_of: Callable[[int], PostgresServer], clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    pg = server_of(18)
    with database(pg) as db:
        pg.execute(
            "create table t (id int primary key, s int generated always as (id + 1) stored, v int generated always as (id))",
            database=db,
        )
        for words in (("--dry-run",), ()):
            done = load(walshadow, pg, db, clickhouse, "--table", "t", *words)
            assert done.code == 0, done.err
            assert "virtual generated columns" in done.json["tables"][0]["warnings"][0]
        assert_equal(walshadow, pg, db, clickhouse, "t")


def test_what_is_refused_is_named_before_what_is_wrong_with_its_options(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    with database(pg_newest) as db:
        gone = load(walshadow, pg_newest, db, clickhouse, "--table", "ren", "--into", "ren=x")
        assert (gone.code, gone.err.startswith("error: ren: ")) == (1, True), gone.err
        pg_newest.execute("create table t (id int primary key)", database=db)
        unknown = load(walshadow, pg_newest, db, clickhouse, "--table", "t", "--resolver", "nobody", "--dry-run")
        assert unknown.code == 2
        assert "nobody" in unknown.err


def test_dry_run_changes_nothing(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, tmp_path: Path
) -> None:
    with database(pg_newest) as db:
        pg_newest.execute(
            "create table t (id int primary key, v numeric(5,2)); insert into t values (1, 2)", database=db
        )
        done = load(walshadow, pg_newest, db, clickhouse, "--table", "t", "--dry-run")
        assert done.code == 0, done.err
        planned = done.json["tables"][0]
        assert "CREATE TABLE" in planned["create"]
        assert planned["columns"][1] == {
            "name": "v",
            "postgres": "numeric(5,2)",
            "destination": "Nullable(Decimal(5, 2))",
            "nullable": True,
            "form": "own",
        }
        assert planned["bytes"] == 8192
        assert done.json["bytes_to_read"] > 1 << 20
        assert clickhouse.tables() == set()


@pytest.mark.parametrize("encoding", ["LATIN1", "EUC_JP", "SQL_ASCII"])
def test_databases_of_other_encodings(
    encoding: str, pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    with database(pg_newest, f"encoding '{encoding}' template template0 lc_collate 'C' lc_ctype 'C'") as db:
        letters = "日本" if encoding == "EUC_JP" else "é"
        with pg_newest.connect(db) as conn:
            conn.execute("set client_encoding = 'UTF8'")
            conn.execute("create table t (id int primary key, v text, w varchar(9), b char(5), n name)")
            conn.execute(
                "insert into t select i, %s || i, 'plain', %s, %s from generate_series(1, 300) i", [letters] * 3
            )
        done = load(walshadow, pg_newest, db, clickhouse, "--table", "t")
        assert done.code == 0, done.err
        got = clickhouse.rows(f"SELECT v, w, n FROM {clickhouse.database}.t WHERE id = 7")
        assert got == [(f"{letters}7", "plain", letters)]
        assert_equal(walshadow, pg_newest, db, clickhouse, "t")
