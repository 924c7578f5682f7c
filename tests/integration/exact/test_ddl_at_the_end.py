"""DDL about the end of the window: committed before it and not to be seen yet, after it, or under way."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.conftest import EmbeddedClickHouse
from tests.integration.exact.meddler import Meddler, table
from tests.integration.support import Run, assert_equal, load
from walshadow_core.catalog import moment
from walshadow_core.testing.postgres import PostgresServer


@contextmanager
def held_up(pg: PostgresServer, db: str, statement: str, seconds: float) -> Iterator[Meddler]:
    """Runs ``statement`` when a backup has begun. It commits, and is seen by nobody until ``seconds`` after the backup's
    end, or after this: it waits for a standby that is not there."""

    def work() -> None:
        with pg.connect(db) as connection:
            connection.execute("set synchronous_commit = on")
            connection.execute(statement.encode())

    def wait_for_nobody(name: str) -> None:
        pg.execute(f"alter system set synchronous_standby_names = '{name}'")
        pg.execute("select pg_reload_conf()")

    def begun() -> None:
        wait_for_nobody("nobody")
        thread.start()
        while not pg.execute("select 1 from pg_stat_activity where wait_event = 'SyncRep'"):
            time.sleep(0.02)

    thread = threading.Thread(target=work)
    release = threading.Timer(seconds, wait_for_nobody, [""])
    try:
        yield Meddler(begun=begun, ended=release.start)
    finally:
        release.cancel()
        wait_for_nobody("")
        thread.join()


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("alter table t add column more int default 7", "was altered"),
        ("truncate t", None),
        ("drop table t", "was dropped"),
    ],
)
def test_ddl_that_committed_in_the_window_and_is_seen_late(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, meddler: Meddler, statement: str,
    reason: str | None,
) -> None:  # fmt: skip
    with table(pg_newest) as db:
        assert load(walshadow, pg_newest, db, clickhouse, "--table", "t").code == 0
        with held_up(pg_newest, db, statement, 1.0) as held:
            meddler.backups, meddler.begun, meddler.ended = 0, held.begun, held.ended
            done = load(walshadow, pg_newest, db, clickhouse, "--table", "t")
        [t] = done.json["tables"]
        if reason is None:
            assert (done.code, t["exact"], t["passes"], t["rows_written"]) == (0, True, 2, 0)
            return
        assert done.code == 1
        assert reason in t["error"]
        assert clickhouse.rows(f"SELECT count() FROM {clickhouse.database}.t") == [(3000,)]


def test_a_commit_that_is_never_seen(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, meddler: Meddler,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Nobody knows whether it was of the table; it was before the catalog was read, even before the window."""
    monkeypatch.setattr(moment, "_PATIENCE_SECONDS", 0.3)
    with table(pg_newest) as db, held_up(pg_newest, db, "create table other ()", 60) as held:
        held.begun()
        done = load(walshadow, pg_newest, db, clickhouse, "--table", "t")
        assert done.code == 1
        assert "others can't see it yet" in done.err + str(done.json["error"])
        assert clickhouse.tables() == set()


@pytest.mark.parametrize("late", ["vacuum full t", pytest.param("truncate t", marks=pytest.mark.slow)])
def test_a_rewrite_after_the_window(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, small: bool, meddler: Meddler, late: str
) -> None:
    with table(pg_newest) as db:
        meddler.begun = lambda: pg_newest.execute("update t set v = 'new' where id % 3 = 0", database=db)
        meddler.ended = lambda: pg_newest.execute(late, database=db)
        done = load(walshadow, pg_newest, db, clickhouse, "--table", "t")
        assert done.code == 0, done.err
        assert (done.json["exact"], done.json["tables"][0]["passes"]) == (True, 2)
        assert_equal(walshadow, pg_newest, db, clickhouse, "t")


def test_an_alteration_after_the_window(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, meddler: Meddler
) -> None:
    """It can't be told from one within."""
    with table(pg_newest) as db:
        meddler.ended = lambda: pg_newest.execute("alter table t add column more int", database=db)
        done = load(walshadow, pg_newest, db, clickhouse, "--table", "t")
        assert done.code == 1
        assert "was altered" in done.json["tables"][0]["error"]
        assert clickhouse.tables() == set()


def test_a_table_that_is_locked_at_the_end(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, meddler: Meddler
) -> None:
    """What has not committed does not count, and nothing waits for it."""
    with table(pg_newest) as db, pg_newest.connect(db, autocommit=False) as other:
        meddler.begun = lambda: other.execute("alter table t add column more int default 7; delete from t")
        done = load(walshadow, pg_newest, db, clickhouse, "--table", "t")
        other.rollback()
        assert done.code == 0, done.json["tables"]
        assert (done.json["exact"], done.json["tables"][0]["rows_written"]) == (True, 3000)
        assert done.json["seconds"] < 8
