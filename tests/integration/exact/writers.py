"""Clients that never pause, and what they have written by any moment: their own log, ordered by the server's WAL."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import psycopg

from walshadow_core.api import XID_COMMITTED, Lsn
from walshadow_core.pgformat.walbodies import endings
from walshadow_core.stream.reader import WalReader
from walshadow_core.testing.postgres import PostgresServer

Row = tuple[Any, ...]
Effect = tuple[str, int, list[Row]]
"""(table, the value that tells its rows apart, the rows that it has now)."""

TABLES = {
    "keyed": ("id", ("id", "a", "n")),
    "docs": ("id", ("id", "body", "v")),
    "keyless": ("n", ("n", "w", "note")),
    "parts": ("k", ("k", "p")),
}
"""Per table what tells its rows apart (no key in ``keyless``, where rows come several times), and its columns."""

SCHEMA = """
create table keyed (id int primary key, a text not null, n int not null) with (fillfactor = 85);
create index on keyed (n);
create table docs (id int primary key, body text not null, v int not null);
alter table docs alter body set storage external;
create table keyless (n int not null, w int not null, note text not null);
create table parts (k int primary key, p text not null) partition by range (k);
create table parts_low partition of parts for values from (minvalue) to (500);
create table parts_high partition of parts for values from (500) to (maxvalue);
insert into keyed select i, repeat('a', 20 + i % 150), i % 100 from generate_series(1, {rows}) i;
insert into docs select i, repeat(md5(i::text), 100 + i % 100), 0 from generate_series(1, 200) i;
insert into keyless select 1 + i / 2, 0, 'note ' || i / 2 from generate_series(0, {rows}) i;
insert into parts select i, 'p' || i from generate_series(1, 1000) i;
"""


class Writers:
    """Threads that write to TABLES in ``database`` while the context is open."""

    def __init__(self, server: PostgresServer, database: str, seed: int, count: int, rows: int) -> None:
        self.server = server
        self.database = database
        self.rows = rows
        self.log: list[tuple[int, list[Effect]]] = []
        self.errors: list[BaseException] = []
        self.done = 0
        self._stop = threading.Event()
        self._seed = seed
        self.first = current_lsn(server)
        self.before = self._state()
        self._threads = [threading.Thread(target=self._guard, args=(lambda n=n: self._write(n),)) for n in range(count)]
        self._threads.append(threading.Thread(target=self._guard, args=(self._vacuum,)))

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        time.sleep(0.5)
        return self

    def __exit__(self, *_: object) -> None:
        time.sleep(0.1)
        self._stop.set()
        for thread in self._threads:
            thread.join()
        assert not self.errors, self.errors

    def _state(self) -> dict[str, dict[int, list[Row]]]:
        state: dict[str, dict[int, list[Row]]] = {}
        for table, (_, columns) in TABLES.items():
            rows = state[table] = {}
            for row in self.server.execute(f"select {', '.join(columns)} from {table}", database=self.database):
                rows.setdefault(row[0], []).append(row)
        return state

    def expected(self, moment: Lsn) -> dict[str, list[Row]]:
        """The rows of every table, in order, that were committed when the WAL had come to ``moment``."""
        written = dict(self.log)
        state = {table: dict(rows) for table, rows in self.before.items()}
        for xid in committed(self.server, self.first, moment):
            for table, key, rows in written.get(xid, ()):
                state[table][key] = rows
        return {table: sorted(row for rows in keys.values() for row in rows) for table, keys in state.items()}

    # -- the threads

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self.errors.append(error)

    def _vacuum(self) -> None:
        with self.server.connect(self.database) as connection:
            while not self._stop.is_set():
                for table in TABLES:
                    connection.execute(f"vacuum {table}".encode())
                    if self._stop.wait(0.1):
                        return

    def _write(self, number: int) -> None:
        rng = random.Random(self._seed * 100 + number)
        fresh = iter(range(1_000_000 * (number + 1), 1_000_000 * (number + 2)))
        prepared: list[str] = []
        with self.server.connect(self.database) as connection:
            # Another's prepared transaction, or one's own, may have the row.
            connection.execute("set lock_timeout = '100ms'")
            while not self._stop.is_set():
                with suppress(
                    psycopg.errors.DeadlockDetected, psycopg.errors.UniqueViolation, psycopg.errors.LockNotAvailable
                ):
                    _Transaction(self, connection, rng, fresh, number).run(prepared)
                    self.done += 1
                if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                    connection.execute("rollback")
                if len(prepared) > 1 or (prepared and rng.random() < 0.3):
                    word = "commit" if rng.random() < 0.8 else "rollback"
                    connection.execute(f"{word} prepared '{prepared.pop(0)}'".encode())
            for name in prepared:
                connection.execute(f"rollback prepared '{name}'".encode())


class _Transaction:
    """One transaction: a few operations, some of them under savepoints that are rolled back."""

    def __init__(
        self,
        writers: Writers,
        connection: psycopg.Connection[Row],
        rng: random.Random,
        fresh: Iterable[int],
        number: int,
    ) -> None:
        self._writers = writers
        self._connection = connection
        self._rng = rng
        self._fresh = iter(fresh)
        self._number = number
        self._effects: list[Effect] = []
        self._locks: list[tuple[str, int]] = []

    def run(self, prepared: list[str]) -> None:
        rng = self._rng
        self._execute("begin")
        xid = int(self._execute("select pg_current_xact_id()::text")[0][0]) & 0xFFFFFFFF
        for _ in range(rng.randint(1, 6)):
            if rng.random() < 0.25:
                mark = len(self._effects)
                self._execute("savepoint s")
                self._operation()
                if rng.random() < 0.5:
                    self._execute("rollback to s")
                    del self._effects[mark:]
                else:
                    self._execute("release s")
            else:
                self._operation()
        end = rng.random()
        if end < 0.12:
            self._execute("rollback")
            return
        self._writers.log.append((xid, self._effects))
        if end < 0.2:
            name = f"{self._writers.database}_{xid}"
            self._execute(f"prepare transaction '{name}'")
            prepared.append(name)
        else:
            self._execute("commit")

    def _execute(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        cursor = self._connection.execute(sql.encode(), params or None)
        return cursor.fetchall() if cursor.description else []

    def _have(self, table: str, rows: list[Row]) -> None:
        found: dict[int, list[Row]] = {}
        for row in rows:
            found.setdefault(row[0], []).append(row)
        self._effects += [(table, key, rows) for key, rows in found.items()]

    def _gone(self, table: str, rows: list[Row]) -> None:
        self._effects += [(table, key, []) for (key,) in rows]

    def _operation(self) -> None:
        rng = self._rng
        # Of rows that were there at first each writer takes its own, or prepared transactions would lock all out.
        own = self._number + 4 * rng.randint(1, self._writers.rows // 5)
        n = next(self._fresh)
        match rng.randint(0, 15):
            case 0 | 1:
                text = "x" * rng.randint(0, 900)
                self._have("keyed", self._execute("insert into keyed values (%s, %s, %s) returning *", (n, text, own)))
            case 2 | 3:
                self._have("keyed", self._execute("update keyed set a = a || 'h' where id = %s returning *", (own,)))
            case 4:
                self._have(
                    "keyed",
                    self._execute("update keyed set n = n + 1 where id between %s and %s and id %% 4 = %s returning *",
                                  (own, own + 80, self._number)),
                )  # fmt: skip
            case 5:
                rows = self._execute("update keyed set id = %s where id = %s returning *", (n, own))
                if rows:
                    self._effects.append(("keyed", own, []))
                self._have("keyed", rows)
            case 6:
                self._gone(
                    "keyed",
                    self._execute("delete from keyed where id between %s and %s and id %% 4 = %s returning id",
                                  (own, own + 20, self._number)),
                )  # fmt: skip
            case 7:
                self._have(
                    "keyed",
                    self._execute("insert into keyed values (%s, 'new', 0) on conflict (id) do update set a = 'conflict'"
                                  " returning *", (own,)),
                )  # fmt: skip
            case 8:
                body = f"{rng.getrandbits(4000 * 8):x}"
                self._have("docs", self._execute("insert into docs values (%s, %s, 0) returning *", (n, body)))
            case 9:
                doc = self._number + 4 * rng.randint(0, 49)
                body = f"{rng.getrandbits(rng.randint(1000, 9000) * 4):x}"
                self._have(
                    "docs",
                    self._execute("update docs set body = %s, v = v + 1 where id = %s returning *", (body, doc)),
                )
                self._have("docs", self._execute("update docs set v = v + 1 where id = %s returning *", (doc,)))
            case 10:
                self._gone("docs", self._execute("delete from docs where id = %s returning id", (4 * own,)))
            case 11:
                self._have(
                    "keyless",
                    self._execute("insert into keyless select %s, %s, 'new' from generate_series(1, %s) returning *",
                                  (n, self._number, rng.randint(1, 60))),
                )  # fmt: skip
            case 12:
                self._have(
                    "keyless", self._execute("update keyless set note = note || '+' where n = %s returning *", (own,))
                )
            case 13:
                self._gone("keyless", self._execute("delete from keyless where n = %s returning n", (own,)))
            case 14:
                how = rng.choice(["for update", "for share", "for key share", "for no key update"])
                self._execute(f"select from keyed where id between %s and %s {how}", (own, own + 8))
            case 15:
                k = self._number + 4 * rng.randint(0, 249)
                rows = self._execute("update parts set k = %s, p = p || 'm' where k = %s returning *", (n, k))
                if rows:
                    self._effects.append(("parts", k, []))
                self._have("parts", rows)


def current_lsn(server: PostgresServer) -> Lsn:
    return Lsn.parse(server.execute("select pg_current_wal_insert_lsn()::text")[0][0])


def committed(server: PostgresServer, first: Lsn, moment: Lsn) -> list[int]:
    """The transactions whose commit record ends after ``first``, and at ``moment`` or before, in their order."""
    size = int(server.execute("select setting from pg_settings where name = 'wal_segment_size'")[0][0])
    start = first - first % size
    reader = WalReader(Lsn(start), server.major, size)
    found: list[int] = []
    for at in range(start, moment, size):
        name = server.execute("select pg_walfile_name(%s::pg_lsn)", (str(Lsn(at + 1)),))[0][0]
        for records in reader.feed((server.data / "pg_wal" / name).read_bytes()):
            ended = endings(records.between(first, moment), server.major)
            found += ended.xid[ended.state == XID_COMMITTED].tolist()
    assert reader.position >= moment
    return found
