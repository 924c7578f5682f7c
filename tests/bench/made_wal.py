"""WAL for the benchmark, as a real server writes it: pgbench's transactions by several clients, then rows in bulk."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from walshadow_core.api import Lsn, RelFileLocator
from walshadow_core.catalog.sql import read_catalog
from walshadow_core.testing.postgres import PostgresServer

CLIENTS = 4
SCALE, TRANSACTIONS, BULK_ROWS = 20, 100_000, 400_000
TABLES = ("pgbench_accounts", "pgbench_tellers", "pgbench_branches", "pgbench_history", "bulk")
SETTINGS = {
    "shared_buffers": "'1GB'", "max_wal_size": "'64GB'", "checkpoint_timeout": "'1d'", "autovacuum": "off",
    "synchronous_commit": "off", "full_page_writes": "on", "bgwriter_lru_maxpages": "0",
}  # fmt: skip
BULK = """
create table bulk (id bigint primary key, customer text, amount numeric(12,2), note text);
alter table bulk alter note set storage external;
copy bulk from program 'for i in $(seq 1 {rows}); do echo "$i	customer $i	$i.25	note number $i"; done';
insert into bulk select {rows} + i, 'customer ' || i, i, repeat('n', 50) from generate_series(1, {rows}) i;
insert into bulk select -i, 'toasted', i, repeat('t', 9000) from generate_series(1, {rows} / 100) i;
update bulk set amount = amount + 1;
delete from bulk where id % 10 = 0;
vacuum bulk;
"""


@dataclass(frozen=True)
class MadeWal:
    """What a server wrote from a checkpoint's redo point on, and its data directory as of that checkpoint.

    ``crashed`` is a copy of the directory at the checkpoint, with the WAL since; ``files`` are its segments;
    ``filter_set`` numbers the heap and TOAST files of the tables that were written to; ``port`` was the server's.
    """

    major: int
    first: Lsn
    last: Lsn
    crashed: Path
    files: tuple[Path, ...]
    filter_set: dict[RelFileLocator, int]
    port: int

    @property
    def size(self) -> int:
        """Bytes of WAL between ``first`` and ``last``."""
        return self.last - self.first


def pgbench(server: PostgresServer, *words: str) -> subprocess.Popen[str]:
    """Start the server's own pgbench."""
    command = [server.bin / "pgbench", "-h", "127.0.0.1", "-p", str(server.port), "-U", "postgres", *words, "postgres"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def run_pgbench(server: PostgresServer, *words: str) -> None:
    """Run it to its end."""
    process = pgbench(server, *words)
    said, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"pgbench failed: {said[-2000:]}")


def copy_folder(source: Path, target: Path, *leave_out: str) -> None:
    """A data directory's copy, owned as the source is."""
    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns(*leave_out))
    for path in (target, *target.rglob("*")):
        owner = source.stat()
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def make_wal(server: PostgresServer) -> MadeWal:
    """Write it, and crash the server. Nothing is written between the checkpoint and the copy of the directory."""
    run_pgbench(server, "-i", "-q", "-s", str(SCALE))
    for statement in filter(str.strip, BULK.format(rows=1000).split(";\n")):
        server.execute(statement)
    server.execute("truncate bulk")
    server.execute("vacuum analyze")
    server.execute("checkpoint")
    redo_point = server.execute("select redo_lsn::text from pg_control_checkpoint()")[0][0]
    copy = server.data.parent / "crashed"
    copy_folder(server.data, copy, "postmaster.pid", "postmaster.opts")
    run_pgbench(server, "-n", "-c", str(CLIENTS), "-t", str(TRANSACTIONS // CLIENTS))
    for statement in filter(str.strip, BULK.format(rows=BULK_ROWS).split(";\n")[2:]):
        server.execute(statement)
    catalog = read_catalog(server.dsn(), [f"public.{name}" for name in TABLES])
    filter_set: dict[RelFileLocator, int] = {}
    for relation in catalog.relations:
        for locator in (relation.locator, relation.toast_locator):
            if locator is not None:
                filter_set[locator] = len(filter_set)
    last, segment = server.execute(
        "select pg_current_wal_insert_lsn()::text, setting::bigint from pg_settings where name = 'wal_segment_size'"
    )[0]
    # An asynchronous commit waits to be written: this one takes it along.
    server.execute("set synchronous_commit = on; select txid_current()")
    server.stop("immediate")
    shutil.rmtree(copy / "pg_wal")
    copy_folder(server.data / "pg_wal", copy / "pg_wal")
    first, last = Lsn.parse(redo_point), Lsn.parse(last)
    files = sorted(f for f in (copy / "pg_wal").iterdir() if re.fullmatch("[0-9A-F]{24}", f.name))
    numbers = {f: (int(f.name[8:16], 16) << 32) + int(f.name[16:], 16) * segment for f in files}
    kept = tuple(f for f in files if numbers[f] + segment > first and numbers[f] < last)
    return MadeWal(server.major, first, last, copy, kept, filter_set, server.port)
