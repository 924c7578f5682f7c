"""Clients that never pause, and what they have written by any moment: their own log, ordered by the server's WAL."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import psycopg

from tests.integration.exact.oracle import Row, State, applied, committed, current_lsn, rows_of
from tests.integration.exact.transactions import TABLES, Log, Transaction
from walshadow_core.api import Lsn
from walshadow_core.testing.postgres import PostgresServer

PASSING = (
    psycopg.errors.DeadlockDetected,
    psycopg.errors.UniqueViolation,
    psycopg.errors.LockNotAvailable,
)
"""What ends a transaction and no writer. A lock: another's prepared transaction, or one's own, may have the row."""
REPLACED = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.InternalError,
    psycopg.errors.ObjectNotInPrerequisiteState,
)
"""The same where tables are dropped and made meanwhile."""


class Writers:
    """Threads that write to TABLES in ``database`` while the context is open.

    ``held`` names transactions that are prepared before, and end when they are told to; while there are any, VACUUM
    removes what was rolled back alone."""

    def __init__(
        self, server: PostgresServer, database: str, seed: int, count: int, rows: int, held: Sequence[str] = ()
    ) -> None:
        self.server = server
        self.database = database
        self.rows = rows
        self.log: Log = []
        self.errors: list[BaseException] = []
        self.done = self.shrunk = 0
        self.stop = threading.Event()
        self._seed = seed
        self.first = current_lsn(server)
        self.before = self._state()
        self.held = {name: self._prepare(name, number) for number, name in enumerate(held)}
        self._held = list(held)
        self._threads = [self.thread(lambda n=n: self._write(n)) for n in range(count)]  # type: ignore[misc]
        self._threads += [self.thread(self._vacuum), self.thread(self._shrink)]

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        self.go_on(5)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join()
        while self._held:
            self.end(self._held[0], "rollback")
        assert not self.errors, self.errors

    def go_on(self, transactions: int, until: Callable[[], bool] = lambda: True) -> None:
        """Wait until so many more were done, and for a while until the end of the tail was cut off once more, and for what
        is asked for: locks may keep either from it."""
        done, shrunk, deadline = self.done + transactions, self.shrunk + 2, time.monotonic() + 30
        while not self.errors and (self.done < done or self.shrunk < shrunk or not until()):
            if time.monotonic() > deadline:
                assert self.done >= done, (self.done, done)
                return
            time.sleep(0.01)

    def _state(self) -> State:
        state: State = {}
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
            applied(state, written.get(xid, []))
        return {table: rows_of(keys) for table, keys in state.items()}

    # -- transactions that are prepared before

    def _prepare(self, name: str, number: int) -> int:
        """One that changes rows of every table; its xid. No other writer takes these rows."""
        at, key = self.rows - number, -1 - number
        with self.server.connect(self.database) as connection:
            work = Transaction(self.log, connection, random.Random(number))
            xid = work.begin()
            work.have("keyed", "insert into keyed values (%s, 'held', 0)", (key,))
            work.have("keyed", "update keyed set a = a || 'held' where id = %s", (at,))
            work.gone("keyed", "delete from keyed where id = %s", (at - 20,))
            work.have("docs", "update docs set body = %s where id = %s", ("held" * 1500, 200 - number))
            work.execute("savepoint s")
            work.have("keyless", "insert into keyless select %s, 0, 'held' from generate_series(1, 50)", (key,))
            work.have("parts", "insert into parts values (%s, 'held')", (key,))
            work.execute("release s")
            work.log(xid)
            work.execute(f"prepare transaction '{self.database}_{name}'")
        return xid

    def end(self, name: str, how: str) -> None:
        """``commit`` or ``rollback`` one of those."""
        self._held.remove(name)
        self.server.execute(f"{how} prepared '{self.database}_{name}'", database=self.database)

    # -- the threads

    def thread(self, work: Callable[[], None]) -> threading.Thread:
        """One whose error is kept."""

        def body() -> None:
            try:
                work()
            except BaseException as error:
                self.errors.append(error)

        return threading.Thread(target=body)

    def _vacuum(self) -> None:
        with self.server.connect(self.database) as connection:
            while not self.stop.is_set():
                for table in TABLES:
                    with suppress(*PASSING, *REPLACED):
                        connection.execute(f"vacuum {table}".encode())
                    if self.stop.wait(0.1):
                        return

    def _shrink(self) -> None:
        """Make the tail longer, and cut it off again: rolled back or deleted, by turns."""
        fresh = 50_000_000
        with self.server.connect(self.database, prepare_threshold=None) as connection:
            while not self.stop.is_set():
                with suppress(*PASSING, *REPLACED):
                    work = Transaction(self.log, connection, random.Random(0))
                    xid = work.begin()
                    rows = "insert into tail select i, repeat('e', 500) from generate_series(%s, %s) i"
                    work.have("tail", rows, (fresh, fresh + 400))
                    # What is deleted stays while a prepared transaction is older.
                    if self._held or self.shrunk % 2:
                        work.execute("rollback")
                    else:
                        work.log(xid)
                        work.execute("commit")
                        work = Transaction(self.log, connection, random.Random(0))
                        xid = work.begin()
                        work.gone("tail", "delete from tail where id >= %s", (fresh,))
                        work.log(xid)
                        work.execute("commit")
                    fresh += 1000
                    connection.execute("vacuum tail")
                    self.shrunk += 1
                _back_to_idle(connection)
                self.stop.wait(0.05)

    def _write(self, number: int) -> None:
        rng = random.Random(self._seed * 100 + number)
        fresh = iter(range(1_000_000 * (number + 1), 1_000_000 * (number + 2)))
        prepared: list[str] = []
        # No prepared statements: tables may be replaced.
        with self.server.connect(self.database, prepare_threshold=None) as connection:
            connection.execute("set lock_timeout = '100ms'")
            while not self.stop.is_set():
                with suppress(*PASSING, *REPLACED):
                    Transaction(self.log, connection, rng, fresh, number, self.rows).run(prepared)
                    self.done += 1
                _back_to_idle(connection)
                if len(prepared) > 1 or (prepared and rng.random() < 0.3):
                    word = "commit" if rng.random() < 0.8 else "rollback"
                    connection.execute(f"{word} prepared '{prepared.pop(0)}'".encode())
            for name in prepared:
                connection.execute(f"rollback prepared '{name}'".encode())


def _back_to_idle(connection: psycopg.Connection[Row]) -> None:
    if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        connection.execute("rollback")
