"""The edges of a window: commits right at its ends, and writes to what is none of its business."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count

import pytest
from walshadow_source_basebackup.source import BaseBackup

from tests.conftest import MAJORS, EmbeddedClickHouse
from tests.integration.exact.conftest import rarely
from tests.integration.exact.meddler import Meddler, table
from tests.integration.exact.oracle import committed, current_lsn
from tests.integration.support import Run, assert_equal, database, load
from walshadow_core.api import BackupEnd, Lsn
from walshadow_core.testing.postgres import PostgresServer

MOST_LOADS = 40


@pytest.fixture(autouse=True)
def kept_wal(server_of: Callable[[int], PostgresServer]) -> None:
    """For pg_waldump, when the loads are over."""
    server = server_of(MAJORS[-1])
    server.execute("alter system set wal_keep_size = '2GB'")
    server.execute("select pg_reload_conf()")


@pytest.mark.parametrize(("before", "expected"), [(0, {8001}), (8, set())], ids=["right at it", "just past it"])
def test_a_commit_at_the_end(
    pg: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, small: bool, monkeypatch: pytest.MonkeyPatch,
    before: int, expected: set[int],
) -> None:  # fmt: skip
    """The end is moved to where we want it: to the end of a commit record, and to a moment before that."""
    real = BaseBackup.end
    ends: list[Lsn] = []

    def later(backup: BaseBackup) -> BackupEnd:
        end = real(backup)
        if ends:
            return end
        for id_ in (8001, 8002):
            pg.execute(
                f"insert into t values ({id_}, 'late'); update t set v = 'late' where id = {id_ - 8000}", database=db
            )
            ends.append(current_lsn(pg))
        return BackupEnd(Lsn(ends[0] - before), end.timeline)

    monkeypatch.setattr(BaseBackup, "end", later)
    with table(pg) as db:
        first = current_lsn(pg)
        done = load(walshadow, pg, db, clickhouse, "--table", "t")
        assert done.code == 0, done.err
        there = {row[0] for row in clickhouse.rows(f"SELECT id FROM {clickhouse.database}.t WHERE v = 'late'")}
        if not small:
            # A second pass ends where its own backup does.
            assert (done.json["tables"][0]["passes"], there) == (2, {1, 2, 8001, 8002})
            return
        moment = Lsn.parse(done.json["exact_at"])
        assert moment == ends[0] - before
        assert len(committed(pg, first, moment)) + 2 - len(expected) == len(committed(pg, first, ends[1]))
        assert there == expected | {id_ - 8000 for id_ in expected}
        [(rows,)] = clickhouse.rows(f"SELECT count() FROM {clickhouse.database}.t")
        assert rows == 3000 + len(expected)


def test_a_commit_that_ends_where_the_window_begins(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    """Its record is not in the window, so that the copied status tells of it. The redo point is right behind the record
    that happens to be the last: loads until that is a commit."""
    pg = pg_newest
    stop = threading.Event()
    written: dict[int, int] = {}

    def write() -> None:
        with pg.connect(db) as connection:
            for id_ in count(10_000):
                if stop.is_set():
                    return
                [(xid,)] = connection.execute(
                    "insert into t values (%s, 'written') returning pg_current_xact_id()::text", (id_,)
                ).fetchall()
                written[int(xid) & 0xFFFFFFFF] = id_

    with table(pg) as db:
        first = current_lsn(pg)
        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(MOST_LOADS):
                done = load(walshadow, pg, db, clickhouse, "--table", "t")
                assert done.code == 0, done.err
                begins, moment = Lsn.parse(done.json["b_redo"]), Lsn.parse(done.json["exact_at"])
                expected = sorted(written[xid] for xid in committed(pg, first, moment) if xid in written)
                rows = clickhouse.rows(f"SELECT id FROM {clickhouse.database}.t WHERE id >= 10000 ORDER BY id")
                assert [id_ for (id_,) in rows] == expected
                if len(committed(pg, first, begins)) > len(committed(pg, first, Lsn(begins - 8))):
                    break
            else:
                pytest.fail(f"no commit ended at a redo point in {MOST_LOADS} loads")
        finally:
            stop.set()
            writer.join()


@pytest.mark.parametrize("pg", [rarely(major) for major in MAJORS], indirect=True)
def test_writes_elsewhere(
    pg: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, small: bool, meddler: Meddler
) -> None:
    """In a database whose files have the same numbers, in one that is made meanwhile, to what all databases share, and
    to tables that are not in the WAL: one pass does, and nothing of it is in the rows."""
    with table(pg) as db, database(pg, f"template {db}") as twin:
        number = "select pg_relation_filenode('t')"
        assert pg.execute(number, database=db) == pg.execute(number, database=twin)
        pg.execute("create unlogged table u (id int primary key, v text)", database=db)
        other = f"{db}_made"

        def write() -> None:
            pg.execute("update t set v = 'twin' where id % 2 = 0; delete from t where id % 3 = 0", database=twin)
            pg.execute("vacuum t", database=twin)
            pg.execute("vacuum full t", database=twin)
            pg.execute("insert into t select i, 'twin' from generate_series(5000, 6000) i", database=twin)
            pg.execute("truncate t", database=twin)
            pg.execute(f"create database {other} template {twin} strategy wal_log")
            pg.execute(f"create role r_{db}; comment on role r_{db} is 'x'; drop role r_{db}")
            pg.execute("insert into u select i, 'u' from generate_series(1, 1000) i; update u set v = 'w'", database=db)
            pg.execute(
                "create temp table t (id int, v text); insert into t select i, 'temp' from generate_series(1, 1000) i;"
                "update t set v = 'x'; delete from t",
                database=db,
            )

        meddler.begun = write
        done = load(walshadow, pg, db, clickhouse, "--table", "public.t")
        # Not meanwhile: it waits for every process of the server, and the one that sends the backup waits for us.
        pg.execute(f"drop database {other}")
        assert done.code == 0, done.err
        assert (done.json["exact"], done.json["tables"][0]["passes"]) == (True, 1)
        assert_equal(walshadow, pg, db, clickhouse, "public.t")
