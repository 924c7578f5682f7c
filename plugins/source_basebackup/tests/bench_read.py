"""How fast a BASE_BACKUP is read: wall clock, and CPU of this process alone.

    python plugins/source_basebackup/tests/bench_read.py [--major 18] [--megabytes 500] [--rounds 5]

Ways: ``libpq`` takes the messages and does nothing else, which is the most that can be had; ``skip`` walks the
files and takes none; ``take`` takes every byte of every file. On few cores the wall clock is mostly the
server's own.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

from walshadow_source_basebackup.settings import parse_settings
from walshadow_source_basebackup.source import BaseBackupSource

from walshadow_core.api import Backup, BackupRequest, FillingFile
from walshadow_core.testing.postgres import PostgresServer, available_majors

ROW_BYTES = 132


def libpq(backup: Backup) -> int:
    """Only the messages."""
    receive = backup.parts()[0]._receive  # type: ignore[attr-defined]
    size = 0
    while (message := receive()) is not None:
        size += len(message)
    return size


def skip(backup: Backup) -> int:
    """Files, none of which is wanted."""
    [part] = backup.parts()
    for _ in part.files():
        pass
    return part.bytes_read


def take(backup: Backup) -> int:
    """Every byte, into buffers of a megabyte."""
    [part] = backup.parts()
    buffer = memoryview(bytearray(1 << 20))
    for file in part.files():
        assert isinstance(file, FillingFile)
        while file.fill(buffer):
            pass
    return part.bytes_read


WAYS: tuple[Callable[[Backup], int], ...] = (libpq, skip, take)


def main() -> None:
    """Print the medians."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--major", type=int, default=available_majors()[-1])
    options.add_argument("--megabytes", type=int, default=500)
    options.add_argument("--rounds", type=int, default=5)
    chosen = options.parse_args()
    with PostgresServer(chosen.major) as server:
        rows = chosen.megabytes * 1_000_000 // ROW_BYTES
        server.execute(f"create table t as select g, repeat('x', 100) from generate_series(1, {rows}) g")
        server.execute("checkpoint")
        source = BaseBackupSource(parse_settings({"dsn": server.dsn()}))
        results: dict[str, list[tuple[float, float]]] = {way.__name__: [] for way in WAYS}
        size = 0
        for _ in range(chosen.rounds):
            for way in WAYS:
                with source.open(BackupRequest(frozenset())) as backup:
                    wall, cpu = time.perf_counter(), time.process_time()
                    size = way(backup)
                    results[way.__name__].append((time.perf_counter() - wall, time.process_time() - cpu))
        print(f"Postgres {chosen.major}, {size / 1e6:.0f} MB, median of {chosen.rounds}")
        for name, times in results.items():
            wall = statistics.median(t for t, _ in times)
            cpu = statistics.median(t for _, t in times)
            print(f"{name:6} {size / wall / 1e9:5.2f} GB/s wall  {size / cpu / 1e9:5.2f} GB/s of own CPU")


if __name__ == "__main__":
    main()
