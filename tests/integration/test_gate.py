"""The gate on real pages: what it emits is what a fresh snapshot sees, on every path that a server can take."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from walshadow_core.api import DEFER, EMIT
from walshadow_core.pgformat.control import parse_control
from walshadow_core.pgformat.heap import PAGE_SIZE, SPECULATIVE_OFFSET, PageWalker
from walshadow_core.testing.postgres import PostgresServer, available_majors
from walshadow_core.visibility.gate import Gate
from walshadow_core.visibility.spool import DeferredSpool
from walshadow_core.visibility.status import CopiedStatus

DATABASE = "gate"
Connection = psycopg.Connection[tuple[Any, ...]]

IMPOSSIBLE_NOW = {
    # tuples of a Postgres before 9.3 or 9.4, kept by pg_upgrade
    "xmin.permanent", "xmax.permanent", "xmax.lock_old", "xmax.lock_upgraded",
    # only for a moment in the middle of a commit whose transaction tree spans pages of pg_xact
    "xmin.status.sub_committed", "xmax.status.sub_committed", "xmax.multi.updater_sub_committed",
    # states that Postgres allows for and does not make: the xmin's hint bit comes before the xmax's,
    # no xmax is XMAX_INVALID, and a multixact without an updater is lockers only
    "xmin.not_asked", "xmax.zero", "xmax.multi.no_updater",
}  # fmt: skip
"""Paths that no server takes today: the unit test has them."""

EXPECTED = {
    "deferred",
    "xmin.hint_invalid", "xmin.hint_frozen", "xmin.hint_committed", "xmin.zero",
    "xmin.status.in_progress", "xmin.status.committed", "xmin.status.aborted",
    "xmax.not_asked", "xmax.hint_invalid", "xmax.lock_only", "xmax.hint_committed",
    "xmax.multi.updater_in_progress", "xmax.multi.updater_committed", "xmax.multi.updater_aborted",
    "xmax.status.in_progress", "xmax.status.committed", "xmax.status.aborted",
}  # fmt: skip


class Cluster:
    """A server of one test, with helpers to make transactions and to look at its files."""

    def __init__(self, server: PostgresServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.sessions = ExitStack()
        self.paths: Counter[str] = Counter()
        server.execute(f"create database {DATABASE}")
        # by index a statement looks at its own rows only, so that the others keep what hint bits they have
        for method in ("seqscan", "bitmapscan"):
            server.execute(f"alter database {DATABASE} set enable_{method} = off")

    def sql(self, *statements: str) -> None:
        """Each statement a transaction of its own."""
        with self.server.connect(DATABASE) as conn:
            for statement in statements:
                conn.execute(statement.encode())

    def transaction(self, *statements: str, end: str = "commit") -> None:
        """All statements in one transaction, which then ends so."""
        self.sql("begin", *statements, end)

    def session(self, *statements: str) -> Connection:
        """A transaction that goes on until someone ends it, or the test its connection."""
        conn = self.server.connect(DATABASE, autocommit=False)
        self.sessions.callback(conn.close)
        for statement in statements:
            conn.execute(statement.encode())
        return conn

    def check(self, *tables: str) -> Counter[str]:
        """The gate's rows of each table equal those of a fresh snapshot. Gives the paths of all of them."""
        with self.server.connect(DATABASE) as conn:
            conn.execute("checkpoint")
            locate = "select pg_relation_filepath(%s::regclass)"
            files = {t: self.server.data / conn.execute(locate, (t,)).fetchone()[0] for t in tables}  # type: ignore[index]
        pages = {table: np.fromfile(file, np.uint8) for table, file in files.items()}
        copies = {
            f"{folder}/{file.name}": file.read_bytes()
            for folder in ("pg_xact", "pg_multixact/offsets", "pg_multixact/members")
            for file in (self.server.data / folder).iterdir()
        }
        control = parse_control((self.server.data / "global/pg_control").read_bytes())
        # from here on it does not matter that looking sets hint bits

        status = CopiedStatus()
        gate = Gate(status)
        rows: dict[str, list[tuple[int, int]]] = {}
        spools = {}
        for table in tables:
            rows[table], spools[table] = self.walk(pages[table], gate)
        for path, data in copies.items():
            assert status.wants(path)
            status.add(path, data)
        status.complete_with(control)
        for table, spool in spools.items():
            for batch in spool.batches():
                emitted = gate.decide(batch.headers) == EMIT
                rows[table] += zip(batch.block[emitted].tolist(), batch.offnum[emitted].tolist(), strict=True)
            seen = self.server.execute(f"select ctid::text from {table}", database=DATABASE)
            expected = sorted(tuple(map(int, ctid.strip("()").split(","))) for (ctid,) in seen)
            assert sorted(rows[table]) == expected, f"{table}: {gate.paths}"
        self.paths += gate.paths
        return gate.paths

    def walk(self, pages: Any, gate: Gate) -> tuple[list[tuple[int, int]], DeferredSpool]:
        """What the gate emits while the status is not complete, and what it puts off."""
        spool = DeferredSpool(1 << 20, self.folder)
        walker = PageWalker()
        rows: list[tuple[int, int]] = []
        step = walker.max_pages * PAGE_SIZE
        for at in range(0, len(pages), step):
            part = pages[at : at + step]
            walk = walker.walk(part, at // PAGE_SIZE)
            assert not walk.damage
            decision = gate.decide(walk.headers)
            emitted = decision == EMIT
            rows += zip(walk.block[emitted].tolist(), walk.offnum[emitted].tolist(), strict=True)
            spool.add(walk, part, np.flatnonzero(decision == DEFER))
        return rows, spool

    def headers(self, table: str) -> Any:
        """The tuple headers of a small table as they are on disk now."""
        path = self.server.execute("select pg_relation_filepath(%s::regclass)", (table,), DATABASE)[0][0]
        return PageWalker().walk(np.fromfile(self.server.data / path, np.uint8), 0).headers


@pytest.fixture(params=available_majors(), ids=lambda m: f"pg{m}")
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """A server of the test's own: it is crashed, and transactions hang in it."""
    with PostgresServer(request.param) as server:
        made = Cluster(server, tmp_path)
        with made.sessions:
            yield made


def plain_life(cluster: Cluster, table: str) -> None:
    """Rows that were inserted, deleted, updated, locked and rolled back, all of it ended, nothing looked at."""
    cluster.sql(
        f"create table {table} (id int primary key, v text, w int)",
        f"insert into {table} select g, 'v' || g, 0 from generate_series(1, 200) g",
        f"delete from {table} where id between 1 and 10",
        f"update {table} set v = 'hot' where id between 11 and 20",  # v is not indexed: HOT
        f"update {table} set id = id + 1000 where id between 21 and 30",  # not HOT
    )
    cluster.transaction(f"insert into {table} values (2001, 'aborted'), (2002, 'aborted')", end="rollback")
    cluster.transaction(f"delete from {table} where id between 31 and 40", end="rollback")
    cluster.transaction(f"update {table} set v = 'aborted' where id between 41 and 50", end="rollback")
    # subtransactions: their own xids
    cluster.transaction(
        f"insert into {table} values (2010, 'kept')",
        "savepoint a",
        f"insert into {table} values (2011, 'rolled back')",
        f"delete from {table} where id between 51 and 55",
        "rollback to a",
        "savepoint b",
        f"insert into {table} values (2012, 'released')",
        f"update {table} set w = 1 where id between 56 and 60",
        "release b",
    )
    # the same transaction inserts and changes: combo command ids
    cluster.transaction(
        f"insert into {table} values (2020, 'combo'), (2021, 'combo'), (2022, 'combo')",
        f"update {table} set v = 'again' where id = 2020",
        f"update {table} set v = 'and again' where id = 2020",
        f"delete from {table} where id = 2021",
    )
    cluster.transaction(
        f"insert into {table} values (2030, 'combo')", f"delete from {table} where id = 2030", end="rollback"
    )
    for number, strength in enumerate(("update", "no key update", "share", "key share")):
        one = 61 + 5 * number
        cluster.transaction(f"select from {table} where id = {one} for {strength}")
        cluster.transaction(f"select from {table} where id = {one + 1} for {strength}", end="rollback")
        cluster.transaction(
            f"select from {table} where id = {one + 2} for {strength}",
            f"update {table} set w = 2 where id = {one + 2}",
        )
        cluster.transaction(
            f"select from {table} where id = {one + 3} for {strength}",
            f"delete from {table} where id = {one + 3}",
            end="rollback",
        )
        cluster.transaction(
            f"select from {table} where id = {one + 4} for {strength}",
            "savepoint a",
            f"delete from {table} where id = {one + 4}",
            "rollback to a",
        )
    cluster.sql(
        f"insert into {table} values (2040, 'new') on conflict (id) do nothing",
        f"insert into {table} values (2040, 'old') on conflict (id) do nothing",
        f"insert into {table} values (2040, 'upsert') on conflict (id) do update set v = excluded.v",
    )


def ended_transactions(cluster: Cluster) -> None:
    plain_life(cluster, "pruned")
    plain_life(cluster, "frozen")
    cluster.sql("vacuum freeze frozen")
    # a page is not pruned, which would set hint bits, while someone may still want what is on it
    old = cluster.session("set transaction isolation level repeatable read", "select 1")
    plain_life(cluster, "unseen")
    plain_life(cluster, "seen")
    cluster.sql("set enable_seqscan = on", "select count(*) from seen")
    cluster.sql("delete from frozen where id < 45", "update frozen set v = 'thawed' where id < 90")
    unseen = cluster.check("unseen")
    assert unseen["xmin.status.committed"] > 100 and unseen["xmax.status.aborted"] > 20
    assert not any("status" in path for path in cluster.check("seen") if not path.startswith("xmax.multi"))
    assert cluster.check("frozen")["xmin.hint_frozen"]
    # and again, now that the checks themselves have looked
    old.rollback()
    cluster.check("pruned", "unseen", "seen", "frozen")


def transactions_in_progress(cluster: Cluster) -> None:
    plain_life(cluster, "busy")
    cluster.session(
        "insert into busy values (3001, 'open'), (3002, 'open')",
        "delete from busy where id = 101",
        "update busy set v = 'open' where id = 102",
        "update busy set id = 3003 where id = 103",
        "select from busy where id = 104 for update",
        "savepoint a",
        "delete from busy where id in (105, 3001)",
        "insert into busy values (3004, 'open in a savepoint')",
        "rollback to a",
        "savepoint b",
        "update busy set v = 'open in a savepoint' where id = 105",
    )
    for gid, end in (("held", None), ("done", "commit prepared 'done'"), ("undone", "rollback prepared 'undone'")):
        at = {"held": 110, "done": 120, "undone": 130}[gid]
        cluster.transaction(
            f"insert into busy values ({4000 + at}, 'prepared')",
            f"delete from busy where id = {at}",
            f"update busy set v = 'prepared' where id = {at + 1}",
            f"select from busy where id = {at + 2} for share",
            end=f"prepare transaction '{gid}'",
        )
        if end:
            cluster.sql(end)
    paths = cluster.check("busy")
    assert paths["xmin.status.in_progress"] and paths["xmax.status.in_progress"]
    # a prepared transaction outlives a crash, an open one does not, and leaves no record of its end
    cluster.server.restart("immediate")
    after = cluster.check("busy")
    assert after["xmin.status.in_progress"] or after["xmin.hint_invalid"]
    cluster.sql("commit prepared 'held'")
    cluster.check("busy")


def killed_transactions(cluster: Cluster) -> None:
    plain_life(cluster, "killed")
    cluster.session("insert into killed values (3001, 'doomed')", "delete from killed where id = 101", "checkpoint")
    cluster.session("update killed set v = 'doomed' where id = 102", "select from killed where id = 103 for key share")
    cluster.server.restart("immediate")
    paths = cluster.check("killed")
    assert paths["xmin.status.in_progress"] and paths["xmax.status.in_progress"]
    cluster.check("killed")


def multixacts(cluster: Cluster) -> None:
    """Row by row: who locks beside whom, and how the one that updates ends."""
    plain_life(cluster, "multi")
    lockers = {
        "open": cluster.session("select from multi where id between 101 and 199 for key share"),
        "open too": cluster.session("select from multi where id between 150 and 199 for key share"),
    }
    # lockers only, of both kinds
    cluster.session("select from multi where id between 190 and 199 for share")
    cluster.session("select from multi where id between 180 and 185 for no key update")
    # beside the lockers an update of other columns than the key
    cluster.sql("update multi set w = 10 where id = 101")
    cluster.transaction("update multi set w = 10 where id = 102", end="rollback")
    cluster.session("update multi set w = 10 where id in (103, 153)")
    cluster.transaction("savepoint a", "update multi set w = 10 where id = 104", "rollback to a")
    cluster.transaction("savepoint a", "update multi set w = 10 where id = 105", "release a")
    cluster.transaction("update multi set w = 10 where id in (106, 156)", end="prepare transaction 'multi'")
    cluster.sql(
        "update multi set w = 10 where id between 160 and 164", "update multi set w = 11 where id between 160 and 162"
    )
    cluster.transaction("update multi set w = 10 where id between 165 and 169", end="rollback")
    # the updater is there first, the locker comes later
    first = cluster.session("update multi set w = 20 where id between 51 and 60")
    cluster.session("select from multi where id between 51 and 55 for key share")
    paths = cluster.check("multi")
    assert {p for p in paths if p.startswith("xmax.multi")} == {
        "xmax.multi.updater_in_progress",
        "xmax.multi.updater_committed",
        "xmax.multi.updater_aborted",
    }
    first.commit()
    lockers["open"].rollback()
    cluster.check("multi")
    lockers["open too"].commit()
    cluster.sql("rollback prepared 'multi'")
    cluster.check("multi")
    cluster.server.restart("immediate")
    cluster.check("multi")
    cluster.sql("vacuum freeze multi")
    cluster.check("multi")


BLOCKING_KEY = """
create function blocking_key(v int) returns int immutable language plpgsql as $$
begin
  if current_setting('gate.looks', true) <> '' then
    perform set_config('gate.looks', (current_setting('gate.looks')::int + 1)::text, false);
    perform pg_advisory_xact_lock(current_setting('gate.looks')::int);
  end if;
  return v;
end $$
"""
"""Waits for advisory lock n at the n-th look at a key. INSERT ON CONFLICT looks for a conflict (1), inserts
speculatively, looks for the index entry (2), and if there is a conflict now takes the tuple back and begins
again (3)."""


@contextmanager
def blocked(cluster: Cluster, conn: Connection, statement: str) -> Iterator[None]:
    """``statement`` waits for a lock while the body goes on, which lets go of it. Raises what the statement raised."""
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(conn.execute, statement.encode())
        try:
            wait_for_waiting(cluster, conn, "true")
            yield
        except BaseException:
            conn.cancel()
            raise
        done.result()


def wait_for_waiting(cluster: Cluster, conn: Connection, which: str) -> None:
    """Until ``conn`` waits for a lock of pg_locks that is ``which``."""
    waiting = f"select 1 from pg_locks where pid = {conn.info.backend_pid} and not granted and {which}"
    deadline = time.monotonic() + 60
    while not cluster.server.execute(waiting):
        assert time.monotonic() < deadline, "it does not wait"
        time.sleep(0.02)


def speculative_insertions(cluster: Cluster) -> None:
    cluster.sql(
        BLOCKING_KEY,
        "create table spec (k int, u int unique, v text)",
        "create unique index on spec (blocking_key(k))",
        "insert into spec select g, g, 'old' from generate_series(1, 10) g",
        "insert into spec values (11, 11, 'confirmed') on conflict (blocking_key(k)) do nothing",
    )
    second, third = (cluster.session(f"select pg_advisory_xact_lock({n})") for n in (2, 3))
    speculator = cluster.session("set gate.looks = 0")
    upsert = "insert into spec values (20, 20, 'speculative') on conflict (blocking_key(k)) do nothing"
    with blocked(cluster, speculator, upsert):
        # between insertion and confirmation
        paths = cluster.check("spec")
        assert SPECULATIVE_OFFSET in cluster.headers("spec").ctid_offset
        assert paths["xmin.status.in_progress"] == 1
        # someone else takes the key meanwhile: the tuple is taken back
        cluster.sql("insert into spec values (20, 21, 'winner')")
        second.rollback()
        wait_for_waiting(cluster, speculator, "objid = 3")
        paths = cluster.check("spec")
        assert SPECULATIVE_OFFSET not in cluster.headers("spec").ctid_offset
        assert paths["xmin.zero"] == 1
        third.rollback()
    speculator.commit()
    cluster.check("spec")

    # an insertion that fails at another index stays speculative for ever, of an aborted transaction
    holder = cluster.session("insert into spec values (30, 30, 'first')")
    loser = cluster.session("set gate.looks = ''")
    doomed = "insert into spec values (31, 30, 'doomed') on conflict (blocking_key(k)) do nothing"
    with pytest.raises(psycopg.errors.UniqueViolation), blocked(cluster, loser, doomed):
        holder.commit()
    loser.rollback()
    assert cluster.check("spec")["xmin.status.aborted"] == 1
    assert SPECULATIVE_OFFSET in cluster.headers("spec").ctid_offset


def test_the_gate_sees_what_a_snapshot_sees(cluster: Cluster) -> None:
    ended_transactions(cluster)
    transactions_in_progress(cluster)
    killed_transactions(cluster)
    multixacts(cluster)
    speculative_insertions(cluster)
    hit = set(cluster.paths)
    assert hit >= EXPECTED, f"not hit: {EXPECTED - hit}"
    assert not hit & IMPOSSIBLE_NOW, f"thought impossible: {hit & IMPOSSIBLE_NOW}"
    assert hit <= EXPECTED, f"paths that no list has: {hit - EXPECTED}"


def write_empty_segment(server: PostgresServer, path: str) -> None:
    """A whole segment of an SLRU that Postgres finds there when it starts."""
    file = server.data / path
    file.write_bytes(bytes(32 * PAGE_SIZE))
    owner = (server.data / "PG_VERSION").stat()
    os.chown(file, owner.st_uid, owner.st_gid)


@pytest.mark.parametrize("major", available_majors(), ids=lambda m: f"pg{m}")
def test_numbers_may_wrap_around(major: int, tmp_path: Path) -> None:
    """Transactions, multixacts and member offsets all start over in the middle of it."""
    with PostgresServer(major) as server:
        cluster = Cluster(server, tmp_path)
        for database in ("postgres", DATABASE):
            server.execute("vacuum freeze", database=database)
        server.stop()
        first_xid, first_multi, first_offset = 2**32 - 50, 2**32 - 12, 2**32 - 20
        server.run(
            "pg_resetwal", "-f", "-D", str(server.data), "-x", str(first_xid), "-u", str(first_xid - 10_000_000),
            "-m", f"{first_multi},{first_multi}", "-O", str(first_offset),
        )  # fmt: skip
        for path in ("pg_xact/0FFF", "pg_multixact/offsets/FFFF", "pg_multixact/members/14078"):
            write_empty_segment(server, path)
        server.start()
        with cluster.sessions:
            plain_life(cluster, "before")
            multixacts(cluster)
            cluster.check("before")
        control = parse_control((server.data / "global/pg_control").read_bytes())
        assert control.next_xid > 2**32 and control.next_multi < 1000 and control.next_multi_offset < 1000
