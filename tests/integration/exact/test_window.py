"""What happens to a table while its backup runs, forced at the moment that matters."""

from __future__ import annotations

import time

import pytest

from tests.conftest import MAJORS, EmbeddedClickHouse
from tests.integration.exact.conftest import rarely
from tests.integration.exact.meddler import Meddler, table
from tests.integration.support import Run, assert_equal, load
from walshadow_core.backfill.keeping import Keeping
from walshadow_core.backfill.options import LoadOptions
from walshadow_core.pgformat.heap import PAGE_SIZE
from walshadow_core.testing.postgres import PostgresServer


def test_a_quiet_table_takes_one_pass(
    pg: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, small: bool
) -> None:
    with table(pg) as db:
        done = load(walshadow, pg, db, clickhouse, "--table", "t")
        assert done.code == 0, done.err
        [t] = done.json["tables"]
        assert (t["exact"], t["passes"], t["exact_at"]) == (True, 1, done.json["b_end"])
        assert (done.json["exact"], done.json["exact_at"]) == (True, done.json["b_end"])
        assert done.json["wal_bytes"] > 0
        assert_equal(walshadow, pg, db, clickhouse, "t")


@pytest.mark.parametrize("ends", ["commit", "rollback", "nothing"])
def test_a_transaction_that_was_open_before(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, small: bool, ends: str, meddler: Meddler
) -> None:
    """Committed in the window it is whole, with what it wrote before; open at its end it holds nothing up."""
    with table(pg_newest) as db, pg_newest.connect(db, autocommit=False) as writer:
        writer.execute("delete from t where id <= 100")
        writer.execute("insert into t values (5000, 'before')")
        pg_newest.execute("checkpoint")

        def go_on() -> None:
            writer.execute("update t set v = 'after' where id between 200 and 300")
            if ends != "nothing":
                writer.execute(ends)

        meddler.begun = go_on
        done = load(walshadow, pg_newest, db, clickhouse, "--table", "t")
        assert done.code == 0, done.err
        assert done.json["exact"] is True
        assert done.json["tables"][0]["passes"] == (1 if small else 2)
        assert_equal(walshadow, pg_newest, db, clickhouse, "t")


def test_a_transaction_that_only_commits_in_the_window(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, small: bool, meddler: Meddler
) -> None:
    """No page tells of it, so that one pass does."""
    with table(pg_newest) as db, pg_newest.connect(db, autocommit=False) as writer:
        writer.execute("delete from t where id <= 100")
        meddler.begun = lambda: writer.execute("commit")
        done = load(walshadow, pg_newest, db, clickhouse, "--table", "t")
        assert done.code == 0, done.err
        assert (done.json["exact"], done.json["tables"][0]["passes"]) == (True, 1)
        assert done.json["tables"][0]["rows_written"] == 2900
        assert_equal(walshadow, pg_newest, db, clickhouse, "t")


def test_a_large_table_that_was_seen_to_be_written_to_takes_one_pass(
    pg: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, monkeypatch: pytest.MonkeyPatch,
    meddler: Meddler,
) -> None:  # fmt: skip
    """The WAL told of it before its first page came: its pages are kept. Its quiet neighbour's are not."""
    monkeypatch.setattr(LoadOptions, "spool_below", -1)
    with table(pg) as db:
        pg.execute("create table quiet as select * from t", database=db)
        meddler.before = lambda: pg.execute("update t set v = 'before' where id % 3 = 0", database=db)
        meddler.begun = lambda: pg.execute("update t set v = v || ', after' where id % 2 = 0", database=db)
        done = load(walshadow, pg, db, clickhouse, "--table", "t", "--table", "quiet")
        assert done.code == 0, done.err
        assert {t["table"]: (t["exact"], t["passes"]) for t in done.json["tables"]} == {
            "public.t": (True, 1), "public.quiet": (True, 1),
        }  # fmt: skip
        assert done.json["exact_at"] == done.json["b_end"]
        for name in ("t", "quiet"):
            assert_equal(walshadow, pg, db, clickhouse, name)


def test_a_large_table_that_is_written_to_while_its_pages_come_is_left_at_once(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, monkeypatch: pytest.MonkeyPatch,
    meddler: Meddler,
) -> None:  # fmt: skip
    """The rest of the first backup is of no use: it is not read. The second pass keeps the pages."""
    monkeypatch.setattr(LoadOptions, "spool_below", -1)
    left: list[bool] = []
    leave = Keeping.leave
    monkeypatch.setattr(Keeping, "leave", lambda self, table: left.append(leave(self, table)) or left[-1])
    with table(pg_newest) as db:
        pg_newest.execute(
            "insert into t select i, repeat('w', 1000) from generate_series(10001, 18000) i; ", database=db
        )
        pg_newest.execute("vacuum t", database=db)

        def during() -> None:
            """Until it was seen; a change that is not would go on to the window's end."""
            if not any(left):
                pg_newest.execute("update t set v = 'during' where id = 17", database=db)
                time.sleep(0.3)

        meddler.during = during
        done = load(walshadow, pg_newest, db, clickhouse, "--table", "t")
        assert done.code == 0, done.err
        assert (done.json["exact"], done.json["tables"][0]["passes"], meddler.backups) == (True, 2, 2)
        assert left.count(True) == 1
        assert left.index(True) < 9, "it was read on"
        assert_equal(walshadow, pg_newest, db, clickhouse, "t")


def torn(content: bytes) -> bytes:
    """The second half of every page is another's."""
    pages = [content[at : at + PAGE_SIZE] for at in range(0, len(content), PAGE_SIZE)]
    half = PAGE_SIZE // 2
    return b"".join(page[:half] + other[half:] for page, other in zip(pages, pages[1:] + pages[:1], strict=True))


def flipped(path: str, content: bytes) -> bytes:
    """A bit of block 2's tuples is another."""
    at = 2 * PAGE_SIZE + PAGE_SIZE - 10
    return content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :] if len(content) > at else content


def test_torn_pages_that_the_wal_changed(
    pg: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, small: bool, meddler: Meddler
) -> None:
    with table(pg) as db:
        meddler.begun = lambda: pg.execute("update t set v = v || 'new' where id % 3 = 0", database=db)
        file = pg.execute("select pg_relation_filepath('t')", database=db)[0][0]
        meddler.change = lambda path, content: torn(content) if path == file else content
        done = load(walshadow, pg, db, clickhouse, "--table", "t")
        assert done.code == 0, done.err
        assert done.json["exact"] is True
        assert done.json["tables"][0]["passes"] == (1 if small else 2)
        assert_equal(walshadow, pg, db, clickhouse, "t")


def test_a_damaged_page_that_the_wal_did_not_bring(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, small: bool, meddler: Meddler
) -> None:
    """Checksums are on in the newest major."""
    with table(pg_newest) as db:
        assert load(walshadow, pg_newest, db, clickhouse, "--table", "t").code == 0
        rows = clickhouse.rows(f"SELECT * FROM {clickhouse.database}.t ORDER BY ALL")
        meddler.backups, meddler.times, meddler.change = 0, 9, flipped
        meddler.begun = lambda: pg_newest.execute("update t set v = 'x' where id = 1", database=db)
        done = load(walshadow, pg_newest, db, clickhouse, "--table", "t")
        assert done.code == 1
        assert "block 2 fails its checksum" in done.json["tables"][0]["error"]
        assert "base/" in done.json["tables"][0]["error"]
        assert clickhouse.rows(f"SELECT * FROM {clickhouse.database}.t ORDER BY ALL") == rows
        assert clickhouse.tables() == {"t"}


@pytest.mark.parametrize("ddl", ["truncate t", "vacuum full t", "cluster t using t_pkey"])
def test_a_table_that_is_rewritten_is_read_again(
    pg: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, small: bool, meddler: Meddler, ddl: str
) -> None:
    with table(pg) as db:

        def rewrite() -> None:
            pg.execute(ddl, database=db)
            pg.execute("insert into t values (9000, 'later')", database=db)

        meddler.begun = rewrite
        done = load(walshadow, pg, db, clickhouse, "--table", "t")
        assert done.code == 0, done.err
        assert (done.json["exact"], done.json["tables"][0]["passes"]) == (True, 2)
        assert_equal(walshadow, pg, db, clickhouse, "t")


@pytest.mark.parametrize(
    ("ddl", "reason"),
    [
        ("drop table t", "was dropped"),
        ("alter table t add column more int default 3", "was altered"),
        ("alter table t alter id type bigint", "was rewritten"),
    ],
)
def test_a_table_that_means_something_else_fails(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, small: bool, meddler: Meddler,
    ddl: str, reason: str,
) -> None:  # fmt: skip
    with table(pg_newest) as db:
        assert load(walshadow, pg_newest, db, clickhouse, "--table", "t").code == 0
        meddler.backups, meddler.begun = 0, lambda: pg_newest.execute(ddl, database=db)
        done = load(walshadow, pg_newest, db, clickhouse, "--table", "t")
        assert done.code == 1
        assert reason in done.json["tables"][0]["error"]
        assert clickhouse.rows(f"SELECT count() FROM {clickhouse.database}.t") == [(3000,)]
        assert clickhouse.tables() == {"t"}


def test_a_table_that_is_rewritten_in_every_pass(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, meddler: Meddler
) -> None:
    with table(pg_newest) as db:
        meddler.times, meddler.begun = 9, lambda: pg_newest.execute("vacuum full t", database=db)
        done = load(walshadow, pg_newest, db, clickhouse, "--table", "t")
        assert done.code == 1
        assert "in each of 3 passes" in done.json["tables"][0]["error"]
        assert meddler.backups == 3
        assert clickhouse.tables() == set()


@pytest.mark.parametrize(
    ("pg", "small"),
    [*((major, "kept") for major in MAJORS), *(rarely(major, "as they come") for major in MAJORS)],
    indirect=True,
)
def test_vacuum_cuts_the_table_off(
    pg: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, small: bool, meddler: Meddler
) -> None:
    with table(pg) as db:

        def shrink() -> None:
            for statement in ("delete from t where id > 500", "vacuum t", "insert into t values (9000, 'again')"):
                pg.execute(statement, database=db)

        meddler.begun = shrink
        done = load(walshadow, pg, db, clickhouse, "--table", "t")
        assert done.code == 0, done.err
        assert done.json["exact"] is True
        assert_equal(walshadow, pg, db, clickhouse, "t")


def test_without_a_second_connection(clickhouse: EmbeddedClickHouse, walshadow: Run, pg_newest: PostgresServer) -> None:
    with PostgresServer(pg_newest.major, settings={"max_wal_senders": "1"}) as server:
        server.execute("create table t (id int primary key); insert into t select generate_series(1, 10)")
        done = load(walshadow, server, "postgres", clickhouse, "--table", "t")
        assert done.code == 1
        assert "max_wal_senders" in done.err and "--no-wal" in done.err
        done = load(walshadow, server, "postgres", clickhouse, "--table", "t", "--no-wal")
        assert done.code == 0, done.err
        assert (done.json["exact"], done.json["exact_at"]) == (True, None)
