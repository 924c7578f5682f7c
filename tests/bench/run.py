"""The benchmark: ``make bench`` and ``make bench-check``.

For each table a cluster of its own, caches warm; contenders in turn, each load in a process of its own, the median of
several. Ratios are between medians of one run. When something is done, its figures go to ``docs/benchmarks.json`` in place
of what was there of it, and ``docs/benchmarks.md`` is made anew of all that is in there: ``--only`` and ``--tables``
measure some again, and a run that is broken off leaves what it has.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench_busy import Busy, measure_busy
from bench_wal import WalFigures, measure_wal
from contender import LOADS, READS
from rich.table import Table
from running import HERE, console, contend, machine
from tables import BenchTable, bench_tables, sized_tables

from walshadow_core.testing.postgres import PostgresServer, available_majors

PARTS = ("tables", "wal", "redo", "busy")
BAR_LOAD, BAR_DECODE, BAR_MEMORY = 2.0, 4.0, 500 << 20


@dataclass
class Measured:
    """All runs of one table: seconds per contender, peak bytes, and the stages of the last walshadow run."""

    name: str
    rows: int
    heap_bytes: int = 0
    machine: str = ""
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    peak: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    stages: dict[str, float] = field(default_factory=dict)

    def rate(self, name: str) -> float:
        """Median rows per second."""
        return self.rows / statistics.median(self.seconds[name])

    @property
    def best_peer(self) -> str:
        """The fastest of the others."""
        return max((n for n in LOADS if n != "walshadow"), key=self.rate)

    @property
    def load_ratio(self) -> float:
        """walshadow's rows/s over the best peer's."""
        return self.rate("walshadow") / self.rate(self.best_peer)

    @property
    def decode_ratio(self) -> float:
        """decode alone over ADBC's read."""
        return self.rate("decode alone") / self.rate("adbc alone")


def measure(table: BenchTable, runs: int) -> Measured:
    """Make the table, run everybody in turn."""
    out = Measured(table.name, table.rows, machine=machine())
    settings = {"shared_buffers": "'1GB'", "max_wal_size": "'8GB'", "autovacuum": "off"}
    with PostgresServer(available_majors()[-1], settings=settings) as server:
        console.print(f"[bold]{table.name}[/]: making {table.rows:,} rows")
        server.execute(table.sql)
        server.execute("vacuum (freeze off, analyze) bench")
        server.execute("checkpoint")
        out.heap_bytes = server.execute("select pg_relation_size('bench')")[0][0]
        server.execute("select count(*) from bench")
        for run in range(runs + 1):
            for name in (*LOADS, *READS):
                result = contend(name, table, server)
                if run == 0:
                    continue
                out.seconds[name].append(result["seconds"])
                out.peak[name] = max(out.peak[name], result.get("peak_bytes", 0))
                out.stages = result.get("stages", out.stages)
                console.print(f"  {run}: {name}: {table.rows / result['seconds']:,.0f} rows/s")
        with EngineProcess() as engine:
            out.peak["walshadow, engine elsewhere"] = contend("walshadow", table, server, engine.url)["peak_bytes"]
    return out


class EngineProcess:
    """``walshadow engine serve`` in a process of its own."""

    def __enter__(self) -> EngineProcess:
        import socket
        import tempfile
        import time
        import urllib.request

        self._folder = tempfile.TemporaryDirectory(prefix="walshadow-bench-engine-")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        program = Path(sys.executable).parent / "walshadow"
        self._process = subprocess.Popen(
            [program, "engine", "serve", f"{self._folder.name}/engine", "--port", str(port)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for _ in range(200):
            try:
                urllib.request.urlopen(f"{self.url}/ping", timeout=1)
                return self
            except OSError:
                time.sleep(0.1)
        raise SystemExit("the engine did not start")

    def __exit__(self, *exc: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()


@dataclass
class Results:
    """All that is known, a part may be missing."""

    tables: list[Measured] = field(default_factory=list)
    wal: WalFigures | None = None
    busy: Busy | None = None

    @classmethod
    def read(cls, path: Path) -> Results:
        """What the file has."""
        if not path.exists():
            return cls()
        known = json.loads(path.read_text())
        return cls(
            [Measured(**m) for m in known["tables"]],
            WalFigures(**known["wal"]) if known.get("wal") else None,
            Busy(**known["busy"]) if known.get("busy") else None,
        )

    def write(self, path: Path) -> None:
        """To ``path``, and the same with the ending .md to be read."""
        path.parent.mkdir(exist_ok=True)
        parts = {"tables": [vars(m) for m in self.tables]}
        others = {name: vars(part) for name, part in (("wal", self.wal), ("busy", self.busy)) if part is not None}
        path.write_text(json.dumps({**parts, **others}, indent=1) + "\n")
        path.with_suffix(".md").write_text(report(self))

    def put(self, measured: Measured) -> None:
        """A table's figures in place of what was there of it, in the usual order."""
        known = {m.name: m for m in self.tables} | {measured.name: measured}
        self.tables = [known[t.name] for t in bench_tables(0) if t.name in known]

    def put_wal(self, figures: WalFigures) -> None:
        """What was measured of it; the other half stays."""
        if self.wal is not None:
            figures.read = figures.read or self.wal.read
            figures.redo = figures.redo or self.wal.redo
            figures.applied, figures.pages = figures.applied or self.wal.applied, figures.pages or self.wal.pages
        self.wal = figures

    def below(self) -> list[str]:
        """What is not reached, a line each."""
        parts = [part.below() for part in (self.wal, self.busy) if part is not None]
        return [*below_the_bar(self.tables), *(line for part in parts for line in part)]


def report(all_: Results) -> str:
    """docs/benchmarks.md."""
    results = all_.tables
    machines = {part.machine for part in (*results, all_.wal, all_.busy) if part is not None}
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`, which makes the tables, runs every contender in turn and in a process of its own, and takes",
        "the median of the runs after one that does not count. Ratios compare medians of one run on one machine; absolute",
        f"figures are of that machine alone ({'; '.join(sorted(machines))}).",
        "",
        "Every contender loads the same table of a Postgres cluster that holds little else into a ReplacingMergeTree of an",
        "embedded ClickHouse (chDB), with `optimize_on_insert = 0`. The clock starts when everything is imported, compiled",
        "kernels included (about a second), and stops when the rows can be read.",
        "",
        "## Whole loads, rows/s",
        "",
        "| table | rows | heap | runs | walshadow | ADBC + Arrow insert | ConnectorX + Arrow insert | postgresql() | ratio to the best |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for m in results:
        rates = " | ".join(f"{m.rate(n):,.0f}" for n in LOADS)
        lines.append(
            f"| {m.name} | {m.rows:,} | {m.heap_bytes >> 20} MiB | {len(m.seconds['walshadow'])} | {rates} | **{m.load_ratio:.2f}** |"
        )
    lines += [
        "",
        "## Decoding alone, rows/s",
        "",
        "| table | heap file to Arrow | ADBC's read | ratio |",
        "|---|---:|---:|---:|",
    ]
    for m in results:
        lines.append(
            f"| {m.name} | {m.rate('decode alone'):,.0f} | {m.rate('adbc alone'):,.0f} | **{m.decode_ratio:.2f}** |"
        )
    lines += [
        "",
        "## Peak memory of the process, MiB",
        "",
        "The engine is in the process, but for the last column.",
        "",
    ]
    names = (*LOADS, "walshadow, engine elsewhere")
    lines += [f"| table | {' | '.join(names)} |", f"|---|{'---:|' * len(names)}"]
    for m in results:
        lines.append(f"| {m.name} | {' | '.join(str(m.peak.get(n, 0) >> 20) for n in names)} |")
    lines += [
        "",
        "## Where walshadow's time goes",
        "",
        "Seconds that each stage's thread was busy; stages overlap.",
        "",
    ]
    for m in results:
        stages = ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in m.stages.items() if seconds >= 0.005)
        lines.append(f"* {m.name}, {statistics.median(m.seconds['walshadow']):.2f} in all: {stages}")
    for part in (all_.wal, all_.busy):
        if part is not None:
            lines += ["", *part.report()]
    return "\n".join(lines) + "\n"


def show(results: list[Measured]) -> None:
    """The same on the terminal, in short."""
    table = Table(
        "table", "walshadow rows/s", "best peer", "its rows/s", "ratio", "decode ratio", "peak MiB (engine elsewhere)"
    )
    for m in results:
        table.add_row(
            m.name,
            f"{m.rate('walshadow'):,.0f}",
            m.best_peer,
            f"{m.rate(m.best_peer):,.0f}",
            f"{m.load_ratio:.2f}",
            f"{m.decode_ratio:.2f}",
            str(m.peak["walshadow, engine elsewhere"] >> 20),
        )
    console.print(table)


def below_the_bar(results: list[Measured]) -> list[str]:
    """What is not reached, a line each."""
    out = []
    for m in results:
        if m.load_ratio < BAR_LOAD:
            out.append(f"{m.name}: load at {m.load_ratio:.2f} times the best peer, to reach {BAR_LOAD}")
        if m.decode_ratio < BAR_DECODE:
            out.append(f"{m.name}: decode at {m.decode_ratio:.2f} times ADBC's read, to reach {BAR_DECODE}")
        peak = m.peak["walshadow, engine elsewhere"]
        if peak > BAR_MEMORY:
            out.append(f"{m.name}: peak memory {peak >> 20} MiB, to stay under {BAR_MEMORY >> 20}")
    return out


def main() -> None:
    """Measure, show, write or check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rows",
        type=int,
        default=2_000_000,
        help="of wide and text; narrow and pgbench_accounts have three times as many",
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--tables",
        nargs="*",
        choices=[t.name for t in bench_tables(0)],
        help="only these; the figures of the others stay",
    )
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS, help="only these; the other figures stay")
    parser.add_argument("--check", action="store_true", help="exit 1 below the bar, write nothing")
    parser.add_argument("--write", type=Path, default=HERE.parent.parent / "docs" / "benchmarks.md")
    args = parser.parse_args()
    path = args.write.with_suffix(".json")
    measured, known = Results(), Results() if args.check else Results.read(path)

    def note(put: Callable[[Results], None]) -> None:
        put(measured)
        if not args.check:
            put(known)
            known.write(path)

    if "tables" in args.only:
        for table in (t for t in sized_tables(args.rows) if not args.tables or t.name in args.tables):
            done = measure(table, args.runs)
            show([done])
            note(lambda to, done=done: to.put(done))  # type: ignore[misc]
    if "wal" in args.only or "redo" in args.only:
        figures = measure_wal(args.runs, read="wal" in args.only, redo="redo" in args.only)
        note(lambda to: to.put_wal(figures))
    if "busy" in args.only:
        busy = measure_busy(args.rows, args.runs)
        note(lambda to: setattr(to, "busy", busy))
    missed = measured.below()
    for line in missed:
        console.print(f"below the bar: {line}")
    if args.check:
        raise SystemExit(1 if missed else 0)
    show(measured.tables)
    console.print(f"written: {args.write}")


if __name__ == "__main__":
    main()
