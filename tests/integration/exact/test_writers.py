"""A load while clients never pause: its rows are exactly those that were committed at the moment that it names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import MAJORS, EmbeddedClickHouse
from tests.integration.exact.writers import SCHEMA, TABLES, Writers
from tests.integration.support import Run, database, load
from walshadow_core.api import Lsn
from walshadow_core.backfill.watch import Watch
from walshadow_core.testing.postgres import PostgresServer

ServerOf = Callable[[int], PostgresServer]
SMALL, LARGE = 4000, 90_000
"""Rows: what is kept until the backup's end in any case, and what is not, with 32 MiB of memory."""


def load_while_written(
    pg: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, seed: int, rows: int, passes: set[int]
) -> None:
    pg.execute("alter system set wal_keep_size = '2GB'")
    pg.execute("select pg_reload_conf()")
    with database(pg) as db:
        pg.execute(SCHEMA.format(rows=rows), database=db)
        with Writers(pg, db, seed, count=4, rows=rows) as writers:
            words = [word for table in TABLES for word in ("--table", table)]
            done = load(walshadow, pg, db, clickhouse, "--memory", "32", *words)
        assert done.code == 0, done.err + done.out
        assert done.json["exact"] is True
        assert writers.done > 50
        assert {t["passes"] for t in done.json["tables"]} <= passes, done.json
        begun, ended = (writers.expected(Lsn.parse(done.json[moment])) for moment in ("b_redo", "b_end"))
        assert begun != ended, "nobody wrote while the backup ran"
        for table in done.json["tables"]:
            assert table["warnings"] == [] or "key" in str(table["warnings"])
            name = table["table"].removeprefix("public.")
            expected = writers.expected(Lsn.parse(table["exact_at"]))[name]
            rows_there = clickhouse.rows(f"SELECT {', '.join(TABLES[name][1])} FROM {clickhouse.database}.{name}")
            assert len(rows_there) == len(expected), name
            assert sorted(rows_there) == expected, name


@pytest.mark.parametrize("major", MAJORS)
def test_small_tables_take_one_pass(
    major: int, server_of: ServerOf, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    load_while_written(server_of(major), clickhouse, walshadow, major, SMALL, {1})


@pytest.mark.parametrize("seen", [True, False])
def test_large_tables_take_one_where_the_wal_tells_and_two_otherwise(
    pg_newest: PostgresServer,
    clickhouse: EmbeddedClickHouse,
    walshadow: Run,
    monkeypatch: pytest.MonkeyPatch,
    seen: bool,
) -> None:
    if not seen:
        monkeypatch.setattr(Watch, "feed", lambda self, data: None)
    load_while_written(pg_newest, clickhouse, walshadow, 1, LARGE, {1, 2})


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_twenty_seeds(seed: int, server_of: ServerOf, clickhouse: EmbeddedClickHouse, walshadow: Run) -> None:
    rows, passes = (SMALL, {1}) if seed % 2 else (LARGE, {1, 2})
    load_while_written(server_of(MAJORS[seed // 2 % len(MAJORS)]), clickhouse, walshadow, seed, rows, passes)
