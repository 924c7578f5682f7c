"""Reading WAL to record arrays beside ``pg_waldump --stats``, and redo beside Postgres's own recovery of the same WAL.

Run as a program it is one run of ours in a process of its own, which prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

from made_wal import BULK_ROWS, CLIENTS, SCALE, SETTINGS, TRANSACTIONS, MadeWal, copy_folder, make_wal
from running import machine, say

from walshadow_core.api import Lsn, RelFileLocator
from walshadow_core.testing.postgres import PostgresServer, available_majors

BAR_READ = BAR_REDO = 1.0
READ, DUMP = "walshadow", "pg_waldump --stats"
REDO, SPILLED, RECOVERY = "walshadow", "walshadow, 48 MiB", "Postgres"
ROOMY, TIGHT = 1024, 48
"""MiB of the page store: as much as the server's shared_buffers, and a tenth of what the pages take."""
_DONE = re.compile(r"redo done at .* CPU: user: ([0-9.]+) s, system: ([0-9.]+) s, elapsed: ([0-9.]+) s")


@dataclass
class WalFigures:
    """Wall and CPU seconds of every run, per contender, of reading (``read``) and of redo (``redo``)."""

    records: int = 0
    applied: int = 0
    pages: int = 0
    bytes: int = 0
    machine: str = ""
    read: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    redo: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))

    def read_ratio(self, clock: int) -> float:
        """pg_waldump's median time over ours; ``clock`` 0 wall, 1 CPU."""
        return _median(self.read[DUMP], clock) / _median(self.read[READ], clock)

    def redo_ratio(self, clock: int, ours: str = REDO) -> float:
        """Postgres's median time over ours."""
        return _median(self.redo[RECOVERY], clock) / _median(self.redo[ours], clock)

    def below(self) -> list[str]:
        """What is not reached, a line each. CPU time counts: it is nearly the same whatever else the machine does."""
        out = []
        if self.read and self.read_ratio(1) < BAR_READ:
            out.append(f"WAL: read at {self.read_ratio(1):.2f} times pg_waldump's speed, to reach {BAR_READ}")
        if self.redo and self.redo_ratio(1) < BAR_REDO:
            out.append(f"WAL: redo at {self.redo_ratio(1):.2f} times the speed of recovery, to reach {BAR_REDO}")
        return out

    def report(self) -> list[str]:
        """Its part of docs/benchmarks.md."""
        lines = [
            "## WAL",
            "",
            f"{self.bytes >> 20} MiB of WAL of Postgres {available_majors()[-1]} in {self.records:,} records: {CLIENTS} clients run",
            f"{TRANSACTIONS:,} of pgbench's transactions (scale {SCALE}), then COPY, INSERT, UPDATE, DELETE and VACUUM of a table of",
            f"{2 * BULK_ROWS:,} rows, a checkpoint before it all. Records and bytes per second of wall and of CPU time.",
        ]
        if self.read:
            lines += [
                "",
                "Reading: from files (in the page cache) to whole, checked records in arrays, in one thread.",
                "",
                "| | records/s | MiB/s | records/s of CPU | MiB/s of CPU | ratio (wall) | ratio (CPU) |",
                "|---|---:|---:|---:|---:|---:|---:|",
                self._row(READ, self.read[READ], f"**{self.read_ratio(0):.2f}** | **{self.read_ratio(1):.2f}**"),
                self._row(DUMP, self.read[DUMP], "1 | 1"),
            ]
        if self.redo:
            lines += [
                "",
                f"Redo: ours reads all records and applies the {self.applied:,} that change a page of the tables and their",
                f"TOAST, {self.pages:,} pages in all; Postgres also brings indexes, the visibility map and transaction status",
                "forward, and has 1 GiB of shared buffers (its figures are those that it logs at `redo done`). Our page store",
                "has 1 GiB too, or 48 MiB, with the other pages in a file (a load has a sixteenth of `--memory`).",
                "",
                "| | records/s | MiB/s | records/s of CPU | MiB/s of CPU | ratio (wall) | ratio (CPU) |",
                "|---|---:|---:|---:|---:|---:|---:|",
            ]
            for name in (REDO, SPILLED):
                ratios = f"**{self.redo_ratio(0, name):.2f}** | **{self.redo_ratio(1, name):.2f}**"
                lines.append(self._row(name, self.redo[name], ratios))
            lines.append(self._row(RECOVERY, self.redo[RECOVERY], "1 | 1"))
            lines += [
                "",
                f"Per record applied, ours comes to {self.applied / _median(self.redo[REDO], 1):,.0f} records/s of CPU.",
            ]
        return lines

    def _row(self, name: str, runs: Sequence[tuple[float, float]], ratios: str) -> str:
        wall, cpu = _median(runs, 0), _median(runs, 1)
        rates = " | ".join(f"{self.records / s:,.0f} | {(self.bytes >> 20) / s:,.0f}" for s in (wall, cpu))
        return f"| {name} | {rates} | {ratios} |"


def _median(runs: Sequence[tuple[float, float]], clock: int) -> float:
    return statistics.median(run[clock] for run in runs)


def measure_wal(runs: int, *, read: bool, redo: bool) -> WalFigures:
    """Write the WAL, run everybody in turn."""
    out = WalFigures(machine=machine())
    with tempfile.TemporaryDirectory(prefix="walshadow-bench-wal-") as folder:
        root = Path(folder, "server")
        root.mkdir()
        Path(folder).chmod(0o755)
        server = PostgresServer(available_majors()[-1], settings=SETTINGS, root=root)
        try:
            say("[bold]WAL[/]: having a server write it")
            made = make_wal(server.start())
            out.bytes = made.size
            for run in range(runs + 1):
                if read:
                    _note(out.read, READ, run, _ours("read", made, out))
                    _note(out.read, DUMP, run, _dump(server, made))
                if redo:
                    _note(out.redo, REDO, run, _ours("redo", made, out, ROOMY))
                    _note(out.redo, SPILLED, run, _ours("redo", made, out, TIGHT))
                    _note(out.redo, RECOVERY, run, _recovery(made, Path(folder, "recovery")))
        finally:
            server.remove()
    return out


def _note(to: dict[str, list[tuple[float, float]]], name: str, run: int, times: tuple[float, float]) -> None:
    say(f"  {run}: {name}: {times[0]:.2f} s, {times[1]:.2f} s of CPU")
    if run > 0:
        to[name].append(times)


def _ours(what: str, made: MadeWal, out: WalFigures, memory: int = 0) -> tuple[float, float]:
    places = [[*astuple(at), index] for at, index in made.filter_set.items()]
    words = {"major": made.major, "first": made.first, "last": made.last, "places": places, "memory": memory}
    command = [sys.executable, __file__, what, json.dumps(words), *map(str, made.files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise SystemExit(f"{what} failed: {done.stderr[-2000:]}")
    result = json.loads(done.stdout.splitlines()[-1])
    out.records = result["records"]
    out.applied, out.pages = result.get("applied", out.applied), result.get("pages", out.pages)
    return result["wall"], result["cpu"]


def _dump(server: PostgresServer, made: MadeWal) -> tuple[float, float]:
    """pg_waldump ends with an error where the WAL does, when it has said what it found."""
    command = [server.bin / "pg_waldump", "--stats", made.files[0], made.files[-1]]
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if "Total" not in done.stdout:
        raise SystemExit(f"pg_waldump failed: {done.stderr}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _recovery(made: MadeWal, root: Path) -> tuple[float, float]:
    """Crash recovery of a copy of the data directory."""
    root.mkdir()
    server = PostgresServer(made.major, settings=SETTINGS, root=root)
    try:
        copy_folder(made.crashed, server.data)
        server.data.chmod(0o700)
        with (server.data / "postgresql.auto.conf").open("a") as conf:
            conf.write(f"unix_socket_directories = '{root}'\nport = {made.port}\n")
        server.port = made.port
        server.start()
        match = _DONE.search(server.log.read_text())
        if match is None:
            raise SystemExit(f"no recovery in the log: {server.log.read_text()[-2000:]}")
        user, system, elapsed = map(float, match.groups())
        return elapsed, user + system
    finally:
        server.stop("immediate")
        shutil.rmtree(root)


def _run(what: str, words: dict[str, Any], files: list[Path]) -> dict[str, Any]:
    """One run in this process: what it needs is loaded before the clock starts."""
    from walshadow_core.redo.store import PageStore
    from walshadow_core.redo.warmup import warmup
    from walshadow_core.redo.window import Redo
    from walshadow_core.stream.files import StretchReader, stretches

    warmup()
    places = {RelFileLocator(*at): index for *at, index in words["places"]}
    first, last = Lsn(words["first"]), Lsn(words["last"])
    records = applied = pages = 0
    with tempfile.TemporaryDirectory(prefix="walshadow-bench-redo-") as folder:
        store = PageStore(words["memory"] << 20, Path(folder))
        redo = Redo(words["major"], places, store)
        wall, cpu = time.perf_counter(), time.process_time()
        for stretch in stretches(files):
            for batch in StretchReader(stretch).records():
                if what == "redo":
                    redo.apply(batch.between(first, last))
                records += len(batch)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        if what == "redo":
            applied, pages = redo.applied, len(store)
        store.close()
    return {"records": records, "applied": applied, "pages": pages, "wall": wall, "cpu": cpu}


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("read", "redo"))
    parser.add_argument("words")
    parser.add_argument("files", nargs="+", type=Path)
    args = parser.parse_args()
    print(json.dumps(_run(args.what, json.loads(args.words), args.files)), flush=True)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
