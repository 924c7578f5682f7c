"""What happens to a table while its backup runs, forced at the moment that matters."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from walshadow_source_basebackup import plugin
from walshadow_source_basebackup.source import BaseBackupSource

from tests.conftest import EmbeddedClickHouse
from tests.integration.support import Run, assert_equal, database, load
from walshadow_core.api import Backup, BackupEnd, BackupFile, BackupPart, BackupRequest, BackupStart, WalStream
from walshadow_core.backfill.keeping import Keeping
from walshadow_core.backfill.options import LoadOptions
from walshadow_core.backfill.watch import Watch
from walshadow_core.pgformat.heap import PAGE_SIZE
from walshadow_core.pgformat.relpath import parse_relation_path
from walshadow_core.testing.postgres import PostgresServer

Change = Callable[[str, bytes], bytes]


@dataclass
class Meddler:
    """Runs ``before`` when the WAL is streamed and the backup has not begun, ``begun`` when it has, ``during`` when the
    first MiB of a table was read, and gives the main forks of tables as ``change`` makes them. Each is done in the first
    ``times`` backups alone."""

    begun: Callable[[], Any] = lambda: None
    before: Callable[[], Any] = lambda: None
    during: Callable[[], Any] | None = None
    change: Change | None = None
    times: int = 1
    backups: int = field(default=0, init=False)


@dataclass
class _File:
    path: str
    content: bytes
    during: Callable[[], Any] | None = None

    @property
    def size(self) -> int:
        return len(self.content)

    def chunks(self) -> Iterator[memoryview]:
        for at in range(0, len(self.content), 1 << 20):
            if at and self.during is not None:
                self.during()
            yield memoryview(self.content)[at : at + (1 << 20)]


class _Part:
    name = "meddled"
    paths = None
    size = None

    def __init__(self, part: BackupPart, meddler: Meddler) -> None:
        self._part = part
        self._meddler = meddler

    @property
    def bytes_read(self) -> int:
        return self._part.bytes_read

    def files(self) -> Iterator[BackupFile]:
        for file in self._part.files():
            relation = parse_relation_path(file.path)
            if relation is not None and relation.fork == "main" and relation.locator.number >= 16384:
                content = b"".join(file.chunks())
                change = self._meddler.change
                yield _File(file.path, change(file.path, content) if change else content, self._meddler.during)
            else:
                yield file


class _Backup:
    def __init__(self, backup: Backup, meddler: Meddler) -> None:
        self._backup = backup
        self._meddler = meddler
        self.start: BackupStart = backup.start

    def parts(self) -> list[BackupPart]:
        return [_Part(part, self._meddler) for part in self._backup.parts()]

    def end(self) -> BackupEnd:
        return self._backup.end()


@pytest.fixture
def meddler(monkeypatch: pytest.MonkeyPatch) -> Meddler:
    """What stands between the program and its backups."""
    meddler = Meddler()

    class Source:
        def __init__(self, settings: Any) -> None:
            self._real = BaseBackupSource(settings)

        def preflight(self) -> None:
            self._real.preflight()

        def stream(self, *words: Any) -> AbstractContextManager[WalStream]:
            return self._real.stream(*words)

        @contextmanager
        def open(self, request: BackupRequest) -> Iterator[Backup]:
            if meddler.backups < meddler.times:
                meddler.before()
            with self._real.open(request) as backup:
                meddler.backups += 1
                if meddler.backups > meddler.times:
                    yield backup
                    return
                meddler.begun()
                untouched = meddler.change is None and meddler.during is None
                yield backup if untouched else _Backup(backup, meddler)

    monkeypatch.setattr("walshadow_source_basebackup.source.BaseBackupSource", Source)
    if hasattr(plugin, "BaseBackupSource"):
        monkeypatch.setattr(plugin, "BaseBackupSource", Source)
    return meddler


@pytest.fixture(params=["kept", "as they come"])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether pages are kept until the backup's end in the first pass."""
    if request.param == "as they come":
        monkeypatch.setattr(LoadOptions, "spool_below", -1)
        # Nor are they when the WAL was seen to change them: it is not looked at before the end.
        monkeypatch.setattr(Watch, "feed", lambda self, data: None)
    return bool(request.param == "kept")


SCHEMA = (
    "create table t (id int primary key, v text); alter table t alter v set storage external;"
    "insert into t select i, repeat('v', case when i % 50 = 0 then 5000 else 50 end) from generate_series(1, 3000) i;"
    "vacuum (freeze) t"
)


@contextmanager
def table(pg: PostgresServer) -> Iterator[str]:
    with database(pg) as db:
        for statement in SCHEMA.split(";"):
            pg.execute(statement, database=db)
        yield db


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
