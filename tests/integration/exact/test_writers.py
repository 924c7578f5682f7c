"""A load while clients never pause: its rows are exactly those that were committed at the moment that it names."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tests.conftest import MAJORS, EmbeddedClickHouse
from tests.integration.exact.alterers import SPACE, Alterer
from tests.integration.exact.meddler import Meddler
from tests.integration.exact.oracle import committed, current_lsn, cut_off, waldump
from tests.integration.exact.transactions import TABLES, made
from tests.integration.exact.writers import Writers
from tests.integration.support import Run, database, load
from walshadow_core.api import Lsn
from walshadow_core.backfill.watch import Watch
from walshadow_core.testing.postgres import PostgresServer

ServerOf = Callable[[int], PostgresServer]
SMALL, LARGE = 4000, 60_000
"""Rows: what is kept until the backup's end in any case, and what is not, with 32 MiB of memory."""
WORDS = ("--memory", "32", *(word for table in TABLES for word in ("--table", table)))
FAILURES = r"was (dropped|altered|rewritten)|came or went|in each of 3 passes"


@pytest.fixture(scope="session")
def busy_server_of() -> Iterator[ServerOf]:
    """Servers whose autovacuum looks as often as it may, with room for prepared transactions, that keep their WAL."""
    running: dict[int, PostgresServer] = {}
    settings = {
        "autovacuum": "on", "autovacuum_naptime": "1s", "max_prepared_transactions": "40", "wal_keep_size": "4GB",
        "deadlock_timeout": "200ms",
    }  # fmt: skip

    def get(major: int) -> PostgresServer:
        if major not in running:
            server = running[major] = PostgresServer(major, settings).start()
            assert server.root is not None
            space = server.root / SPACE
            space.mkdir()
            os.chown(space, server.data.stat().st_uid, server.data.stat().st_gid)
            server.execute(f"create tablespace {SPACE} location '{space}'")
        return running[major]

    yield get
    for server in running.values():
        server.remove()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """What fails says which seed it was."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise


def rows_there(clickhouse: EmbeddedClickHouse, name: str) -> list[tuple[Any, ...]]:
    """In order."""
    return sorted(clickhouse.rows(f"SELECT {', '.join(TABLES[name][1])} FROM {clickhouse.database}.{name}"))


def assert_exact(writers: Writers, clickhouse: EmbeddedClickHouse, table: dict[str, Any]) -> None:
    """The table's rows are those of its moment, and it says so."""
    name = table["table"].removeprefix("public.")
    expected = writers.expected(Lsn.parse(table["exact_at"]))[name]
    found = rows_there(clickhouse, name)
    assert table["exact"] is True
    assert len(found) == len(expected), name
    assert found == expected, name


def load_while_written(
    pg: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, meddler: Meddler, seed: int, rows: int,
    *, again: bool | None,
) -> int:  # fmt: skip
    """``again``: whether some of the tables take a second pass, None where that is open. Gives how often autovacuum came."""
    held = ["rolled back", *(f"in pass {n}" for n in (1, 2)), "after"] if seed % 2 else []
    with seeded(seed), database(pg) as db:
        made(pg, db, rows)
        with Writers(pg, db, seed, 4, rows, held) as writers:

            def begun() -> None:
                if held and meddler.backups == 1:
                    writers.end("rolled back", "rollback")
                if held:
                    writers.end(f"in pass {meddler.backups}", "commit")
                writers.go_on(20)

            meddler.begun, meddler.times = begun, 9
            done = load(walshadow, pg, db, clickhouse, *WORDS)
            assert done.code == 0, done.err + done.out
            end = current_lsn(pg)
            if held:
                writers.end("after", "commit")
        passes = {t["passes"] for t in done.json["tables"]}
        assert done.json["exact"] is True
        assert passes <= {1, 2} and again in (None, 2 in passes), done.json
        b_redo, b_end = (Lsn.parse(done.json[moment]) for moment in ("b_redo", "b_end"))
        assert writers.expected(b_redo) != writers.expected(b_end), "nobody wrote while the backup ran"
        for table in done.json["tables"]:
            assert table["warnings"] == [] or "key" in str(table["warnings"])
            assert_exact(writers, clickhouse, table)
        before, there, after = (set(committed(pg, writers.first, moment)) for moment in (b_redo, b_end, end))
        if held:
            last = writers.held[f"in pass {max(passes)}"]
            assert last in there - before
            assert writers.held["rolled back"] not in after and writers.held["after"] not in after
        tail = pg.execute("select pg_relation_filepath('tail')", database=db)[0][0]
        was_cut = tail in cut_off(pg, b_redo, b_end)
        # What was updated stays while a prepared transaction is older, and may be at the end; of two windows the last one
        # is looked at, and may be short.
        assert was_cut or held or 2 in passes
        passes_of = {t["table"].removeprefix("public."): t["passes"] for t in done.json["tables"]}
        autovacuums = pg.execute("select sum(autovacuum_count) from pg_stat_all_tables", database=db)[0][0]
        print(
            f"seed {seed}, Postgres {pg.major}: passes {passes_of}, {len(there - before)} transactions committed in the last "
            f"window, {len(held)} were prepared before, tail {'cut off' if was_cut else 'kept'}, {autovacuums} autovacuums"
        )
        return int(autovacuums)


def load_while_altered(
    pg: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, meddler: Meddler, seed: int, rows: int
) -> None:
    """Every table is exact, or fails with a reason and is as it was."""
    with seeded(seed), database(pg) as db, ExitStack() as tasks:
        made(pg, db, rows)
        assert load(walshadow, pg, db, clickhouse, *WORDS).code == 0
        before = {name: rows_there(clickhouse, name) for name in TABLES}
        writers = tasks.enter_context(Writers(pg, db, seed, 4, rows))
        alterer = Alterer(writers, seed)

        def streamed() -> None:
            # Not before: a table that is not there when its definition is read ends the load.
            if meddler.backups == 0:
                tasks.enter_context(alterer)

        def begun() -> None:
            left = max(0, alterer.left - 1 - meddler.backups)
            writers.go_on(5, lambda: alterer.left <= left)

        meddler.backups, meddler.streamed, meddler.begun, meddler.times = 0, streamed, begun, 9
        done = load(walshadow, pg, db, clickhouse, *WORDS)
        tasks.close()
        assert done.out and done.json["error"] is None, done.err + done.out
        for table in done.json["tables"]:
            name = table["table"].removeprefix("public.")
            if table["error"] is None:
                assert_exact(writers, clickhouse, table)
            else:
                assert re.search(FAILURES, table["error"]), table["error"]
                assert rows_there(clickhouse, name) == before[name], name
        assert clickhouse.tables() == set(TABLES)
        came_to = {t["table"].removeprefix("public."): t["error"] or t["passes"] for t in done.json["tables"]}
        print(f"seed {seed}, Postgres {pg.major}: {came_to}; {alterer.done}")


def test_pg_waldump_ends_where_it_is_told(busy_server_of: ServerOf) -> None:
    """A record that ends at ``--end`` is the last one that it gives: so `committed` needs no arithmetic."""
    server = busy_server_of(MAJORS[-1])
    first = current_lsn(server)
    for _ in range(20):
        server.execute("drop table if exists waldump; create table waldump (i int)")
    last = current_lsn(server)
    lines = waldump(server, first, last)
    at = [Lsn.parse(re.search(r"lsn: ([0-9A-F/]+)", line)[1]) for line in lines]  # type: ignore[index]
    seen = 0
    for line, end in zip(lines, at[1:], strict=False):
        # The first record of a page begins behind the page's header.
        if "desc: COMMIT" in line and end % 8192 > 64 and seen < 5:
            assert waldump(server, first, end)[-1] == line
            assert waldump(server, first, Lsn(end - 8))[-1] != line
            seen += 1
    assert seen == 5


@pytest.mark.parametrize("major", [m if m == MAJORS[-1] else pytest.param(m, marks=pytest.mark.slow) for m in MAJORS])
def test_small_tables_take_one_pass(
    major: int, busy_server_of: ServerOf, clickhouse: EmbeddedClickHouse, walshadow: Run, meddler: Meddler
) -> None:
    load_while_written(busy_server_of(major), clickhouse, walshadow, meddler, 2 * major + 1, SMALL, again=False)


@pytest.mark.parametrize("seen", [True, False])
def test_large_tables_take_one_where_the_wal_tells_and_two_otherwise(
    busy_server_of: ServerOf, clickhouse: EmbeddedClickHouse, walshadow: Run, meddler: Meddler,
    monkeypatch: pytest.MonkeyPatch, seen: bool,
) -> None:  # fmt: skip
    if not seen:
        monkeypatch.setattr(Watch, "feed", lambda self, data: None)
    again = None if seen else True
    load_while_written(busy_server_of(MAJORS[-1]), clickhouse, walshadow, meddler, 2, LARGE, again=again)


def test_tables_are_altered_meanwhile(
    busy_server_of: ServerOf, clickhouse: EmbeddedClickHouse, walshadow: Run, meddler: Meddler
) -> None:
    load_while_altered(busy_server_of(MAJORS[-1]), clickhouse, walshadow, meddler, 1, SMALL)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_twenty_seeds(
    seed: int, busy_server_of: ServerOf, clickhouse: EmbeddedClickHouse, walshadow: Run, meddler: Meddler,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    # Odd seeds have prepared transactions throughout; both kinds come in both sizes, large ones with the WAL looked at
    # and not.
    large, seen = seed // 2 % 2 == 1, seed // 4 % 2 == 1
    pg = busy_server_of(MAJORS[(seed + seed // 4) % len(MAJORS)])
    if not seen:
        monkeypatch.setattr(Watch, "feed", lambda self, data: None)
    again = None if large and seen else large
    assert load_while_written(pg, clickhouse, walshadow, meddler, seed, LARGE if large else SMALL, again=again) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_twenty_seeds_of_ddl(
    seed: int, busy_server_of: ServerOf, clickhouse: EmbeddedClickHouse, walshadow: Run, meddler: Meddler
) -> None:
    pg = busy_server_of(MAJORS[seed % len(MAJORS)])
    load_while_altered(pg, clickhouse, walshadow, meddler, seed, LARGE if seed // 4 % 3 == 2 else SMALL)
