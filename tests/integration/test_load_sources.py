"""What ``walshadow load`` makes of the source that it is given: a standby, and servers that let nobody copy them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.conftest import MAJORS, EmbeddedClickHouse
from tests.integration.support import Run, assert_equal, database, load
from walshadow_core.testing.postgres import PostgresServer

SECRET = "s3cr3t-w0rd"


@contextmanager
def hba(server: PostgresServer, text: str) -> Iterator[None]:
    """Another pg_hba.conf for a while."""
    file = server.data / "pg_hba.conf"
    original = file.read_text()
    try:
        file.write_text(text)
        server.execute("select pg_reload_conf()")
        yield
    finally:
        file.write_text(original)
        server.execute("select pg_reload_conf()")


FILL = (
    "create table t (id int primary key, note text); insert into t select i, 'n' || i from generate_series(1, 5000) i;"
    " delete from t where id % 7 = 0; update t set note = null where id % 5 = 0"
)


@pytest.fixture
def standby() -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """A primary with a table, and a standby that has replayed all of it and written none of it to its files."""
    with PostgresServer(MAJORS[-1]) as primary, PostgresServer(MAJORS[-1], standby_of=primary) as server:
        primary.execute(FILL)
        server.wait_replayed(primary.execute("select pg_current_wal_lsn()::text")[0][0])
        yield primary, server


def test_a_standby_is_a_source(
    standby: tuple[PostgresServer, PostgresServer], clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    """After a checkpoint of the primary and one of its own, a copy of it has every row."""
    primary, server = standby
    primary.execute("checkpoint")
    server.wait_replayed(primary.execute("select pg_current_wal_lsn()::text")[0][0])
    server.execute("checkpoint")
    done = load(walshadow, server, "postgres", clickhouse, "--table", "t")
    assert done.code == 0, done.err
    assert done.json["tables"][0]["rows_written"] == 5000 - 5000 // 7
    assert done.json["exact"] is True
    assert_equal(walshadow, server, "postgres", clickhouse, "t")


@pytest.mark.parametrize("catalog", ["sql", "backup"])
def test_what_a_standby_has_replayed_and_not_written_out_comes_from_the_wal(
    standby: tuple[PostgresServer, PostgresServer], clickhouse: EmbeddedClickHouse, walshadow: Run, catalog: str
) -> None:
    """Its backup begins at its last restartpoint, and the pages are in its memory: neither the rows nor the table's
    definition are in the copy."""
    done = load(walshadow, standby[1], "postgres", clickhouse, "--table", "t", "--catalog", catalog)
    assert done.code == 0, done.err
    assert done.json["exact"] is True
    assert_equal(walshadow, standby[1], "postgres", clickhouse, "t")


def test_without_the_wal_a_standby_that_has_not_written_out_what_it_replayed_is_not_exact(
    standby: tuple[PostgresServer, PostgresServer], clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    """The rows are not in the copy."""
    done = load(walshadow, standby[1], "postgres", clickhouse, "--table", "t", "--no-wal")
    assert done.code == 0, done.err
    [table] = done.json["tables"]
    assert table["exact"] is False
    assert "CHECKPOINT at the primary, then at the standby" in table["warnings"][0]


@pytest.mark.parametrize(
    ("words", "rules", "remedy"),
    [
        ("", "host all all 127.0.0.1/32 trust\nhost replication all 127.0.0.1/32 trust\n", "ALTER ROLE"),
        ("replication", "host all all 127.0.0.1/32 trust\n", "add this line to "),
    ],
    ids=["no right", "no line in pg_hba.conf"],
)
def test_a_backup_that_is_not_to_be_had(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, words: str, rules: str, remedy: str
) -> None:
    """One line with the remedy, exit code 1, no password in it; the table that was there is as it was."""
    with database(pg_newest) as db:
        pg_newest.execute("create table t (id int primary key); insert into t values (1)", database=db)
        assert load(walshadow, pg_newest, db, clickhouse, "--table", "t").code == 0
        before = clickhouse.rows(f"SELECT * FROM {clickhouse.database}.t")
        pg_newest.execute(
            f"insert into t values (2); create role copier login password '{SECRET}' {words}", database=db
        )
        try:
            with hba(pg_newest, rules):
                dsn = pg_newest.dsn(db, user="copier", password=SECRET)
                ran = walshadow("load", "--source", dsn, "--table", "t", "--to", clickhouse.url, "--no-progress")
        finally:
            pg_newest.execute("drop role copier")
        assert ran.code == 1
        [error] = [line for line in ran.err.splitlines() if line.startswith("error: ")]
        assert remedy in error and "copier" in error and SECRET not in ran.err + ran.out
        assert clickhouse.rows(f"SELECT * FROM {clickhouse.database}.t") == before
        assert clickhouse.tables() == {"t"}


def test_the_source_can_come_from_a_service_file(
    pg_newest: PostgresServer,
    clickhouse: EmbeddedClickHouse,
    walshadow: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``service=`` is found by the catalog's connection, by the backup's, and by verify's."""
    with database(pg_newest) as db:
        pg_newest.execute(FILL, database=db)
        words = conninfo_to_dict(pg_newest.dsn(db))
        file = tmp_path / "pg_service.conf"
        file.write_text("[shop]\n" + "".join(f"{k}={v}\n" for k, v in words.items()))
        monkeypatch.setenv("PGSERVICEFILE", str(file))
        common = ["--source", "service=shop", "--table", "t", "--to", clickhouse.url]
        done = walshadow("load", *common, "--json", "--no-progress")
        assert done.code == 0, done.err
        assert done.json["tables"][0]["rows_written"] == 5000 - 5000 // 7
        assert walshadow("verify", *common).code == 0


def test_max_rate_holds_the_server_back(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    """At 16 MB/s a cluster takes at least as long as its bytes say (a bound from below: no machine is too slow)."""
    with database(pg_newest) as db:
        pg_newest.execute(FILL, database=db)
        done = load(
            walshadow, pg_newest, db, clickhouse, "--table", "t", "--from-option", "max_rate=16MB",
        )  # fmt: skip
        assert done.code == 0, done.err
        assert done.json["seconds"] > 0.8 * done.json["bytes_read"] / (16 << 20) - 1
