"""Memory of a load whose window is long."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import clickhouse_connect
import pytest
from walshadow_sink_clickhouse.engine import EngineProcess

from tests.integration.support import with_peak
from walshadow_core.testing.postgres import PostgresServer

BUDGET = 192
"""MiB: the default of --memory."""
WINDOW = 2 << 30
"""Bytes of WAL that are written while the backup runs."""
ROWS = 150_000
RATE = "1500kB"
"""What the server may send per second: the backup goes on for longer than the writers."""


def write_a_window(server: PostgresServer) -> int:
    """Update every row, again and again, from when the backup sends its files on, with as many bytes of WAL between that
    change no page; the count of rounds."""

    def position() -> int:
        return int(server.execute("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn")[0][0])

    sending = "select count(*) from pg_stat_progress_basebackup where phase = 'streaming database files'"
    while not server.execute(sending)[0][0]:
        time.sleep(0.1)
    first, rounds = position(), 0
    while position() - first < WINDOW:
        rounds += 1
        server.execute(f"update big set n = {rounds}, v = repeat(md5((id + {rounds})::text), 35)")
        server.execute("vacuum (truncate off) big")
        server.execute(
            "select pg_logical_emit_message(false, 'walshadow', repeat('m', 1 << 20)) from generate_series(1, 160)"
        )
    return rounds


@pytest.mark.slow
def test_memory_does_not_grow_with_the_window(tmp_path: Path) -> None:
    """The whole process stays under the budget and 200 MiB while 2 GiB of WAL come beside the backup, and are applied
    to more pages than the page store has in memory."""
    settings = {"max_wal_size": "'8GB'", "wal_keep_size": "'4GB'", "synchronous_commit": "off"}
    with PostgresServer(18, settings=settings) as server, EngineProcess(tmp_path / "engine") as engine:
        server.execute("create table big (id int primary key, n int, v text)")
        server.execute(f"insert into big select i, 0, repeat(md5(i::text), 35) from generate_series(1, {ROWS}) i")
        server.execute("vacuum big")
        words = ("load", "--source", server.dsn(), "--to", engine.url("big"), "--table", "big", "--json")
        with ThreadPoolExecutor(1) as pool:
            written = pool.submit(write_a_window, server)
            ran, peak = with_peak(*words, "--no-progress", "--from-option", f"max_rate={RATE}")
            rounds = written.result()
        assert ran.code == 0, ran.err
        summary = json.loads(ran.out)
        print(f"peak: {peak:.0f} MiB, WAL: {summary['wal_bytes'] >> 20} MiB in {rounds} rounds, {summary['seconds']} s")
        assert summary["exact"] is True
        assert summary["wal_bytes"] >= WINDOW, "the backup was over before the writers were: lower RATE"
        client = clickhouse_connect.get_client(dsn=engine.url("big"))
        rows = client.query("SELECT count(), min(n), max(n), uniqExact(id) FROM big").result_rows
        client.close()
        assert list(rows) == [(ROWS, rounds, rounds, ROWS)]
        assert peak < BUDGET + 200
