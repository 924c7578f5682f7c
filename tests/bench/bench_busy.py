"""The load of a table that pgbench writes to, beside the same load of it quiet."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from made_wal import CLIENTS, pgbench, run_pgbench
from running import contend, machine, say
from tables import bench_tables

from walshadow_core.testing.postgres import PostgresServer, available_majors

BAR_BUSY = 4 / 3
RATE = 200
"""Transactions per second of all clients together."""
TRANSACTION = """
\\set aid random(1, {rows})
\\set tid random(1, 100)
\\set delta random(-5000, 5000)
begin;
update bench set abalance = abalance + :delta where aid = :aid;
select abalance from bench where aid = :aid;
update pgbench_tellers set tbalance = tbalance + :delta where tid = :tid;
update pgbench_branches set bbalance = bbalance + :delta where bid = 1 + :tid / 11;
insert into pgbench_history (tid, bid, aid, delta, mtime) values (:tid, 1, :aid, :delta, current_timestamp);
end;
"""


@dataclass
class Busy:
    """Seconds per load, by kind, and how many passes the busy ones took; ``cpu`` is our process's own."""

    rows: int
    machine: str = ""
    rate: int = RATE
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    cpu: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    passes: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    @property
    def ratio(self) -> float:
        """The busy load's median time over the quiet one's."""
        return statistics.median(self.seconds["busy"]) / statistics.median(self.seconds["quiet"])

    def below(self) -> list[str]:
        """What is not reached, a line each."""
        if self.ratio > BAR_BUSY:
            return [f"busy: a busy load takes {self.ratio:.2f} times a quiet one, to stay under {BAR_BUSY:.2f}"]
        return []

    def report(self) -> list[str]:
        """Its part of docs/benchmarks.md."""
        lines = [
            "## A load while the table is written to",
            "",
            f"{self.rows:,} rows of pgbench_accounts, quiet, and while {CLIENTS} clients run pgbench's transaction on it and",
            f"on its neighbours, {self.rate} a second together (they share the CPUs with the load). Both are exact. The",
            "table's pages are kept until the backup's end where it was seen to be written to, so that one pass does.",
            "",
            "| | seconds | our CPU seconds | passes |",
            "|---|---:|---:|---:|",
        ]
        for kind in ("quiet", "busy"):
            lines.append(
                f"| {kind} | {statistics.median(self.seconds[kind]):.2f} | {statistics.median(self.cpu[kind]):.2f} | "
                f"{max(self.passes[kind])} |"
            )
        return [*lines, "", f"Busy over quiet: **{self.ratio:.2f}**, to stay under {BAR_BUSY:.2f}."]


def measure_busy(rows: int, runs: int) -> Busy:
    """Alternate quiet and busy loads of one table."""
    out = Busy(rows, machine())
    [table] = [t for t in bench_tables(rows) if t.name == "pgbench_accounts"]
    settings = {"shared_buffers": "'1GB'", "max_wal_size": "'8GB'", "autovacuum": "off"}
    with PostgresServer(available_majors()[-1], settings=settings) as server, tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "transaction.sql")
        script.write_text(TRANSACTION.format(rows=rows))
        say(f"[bold]busy[/]: making {rows:,} rows")
        run_pgbench(server, "-i", "-q", "-s", "10")
        server.execute(table.sql)
        server.execute("vacuum (freeze off, analyze) bench")
        server.execute("checkpoint")
        for run in range(runs + 1):
            for kind in ("quiet", "busy"):
                result = _one(server, table, script, busy=kind == "busy")
                say(f"  {run}: {kind}: {result['seconds']:.2f} s, {result['passes']} passes")
                if run > 0:
                    out.seconds[kind].append(result["seconds"])
                    out.cpu[kind].append(result["cpu"])
                    out.passes[kind].append(result["passes"])
    return out


def _one(server: PostgresServer, table: Any, script: Path, *, busy: bool) -> dict[str, Any]:
    """One load. A server that has just made a checkpoint has no WAL to tell of what was before."""
    server.execute("checkpoint")
    if not busy:
        return contend("walshadow", table, server)
    writers = pgbench(server, "-n", "-c", str(CLIENTS), "-R", str(RATE), "-T", "600", "-f", str(script))
    try:
        time.sleep(2)
        result = contend("walshadow", table, server)
        if writers.poll() is not None:
            raise SystemExit(f"pgbench ended early: {writers.stdout.read()[-2000:] if writers.stdout else ''}")
        return result
    finally:
        writers.terminate()
        writers.communicate()
