"""``--catalog backup`` on a busy source: the catalog of the moment that the rows are of, out of the backup and its WAL."""

from __future__ import annotations

import pytest

from tests.conftest import EmbeddedClickHouse
from tests.integration.exact.meddler import Meddler, table
from tests.integration.support import Run, assert_equal, load
from walshadow_core.testing.postgres import PostgresServer

WORDS = ("--catalog", "backup", "--table", "t")
SECOND = 2
"""The first backup is for the definitions; what happens in the load's own is what matters."""


def in_window(meddler: Meddler, pg: PostgresServer, db: str, *statements: str, times: int = SECOND) -> None:
    """Run ``statements`` when the load's own backup has begun, and those after it up to ``times``."""

    def run() -> None:
        if meddler.backups >= SECOND:
            for statement in statements:
                pg.execute(statement, database=db)

    meddler.times, meddler.begun = times, run


def test_rewritten_in_the_window(
    pg: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, meddler: Meddler
) -> None:
    """With the catalogs that tell of it moved as well."""
    with table(pg) as db:
        vacuums = [f"vacuum full {c}" for c in ("pg_class", "pg_attribute", "pg_index", "pg_type", "pg_namespace")]
        in_window(meddler, pg, db, "vacuum full t", *vacuums, "insert into t values (9000, 'later')")
        done = load(walshadow, pg, db, clickhouse, *WORDS)
        assert done.code == 0, done.err
        [t] = done.json["tables"]
        assert (t["exact"], t["passes"], meddler.backups) == (True, 2, 3)
        assert t["exact_at"] == done.json["exact_at"] == done.json["b_end"]
        assert_equal(walshadow, pg, db, clickhouse, "t")
