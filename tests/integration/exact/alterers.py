"""DDL on the tables of a load while it runs, and on others beside."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import dataclass, field

import psycopg

from tests.integration.exact.oracle import Row
from tests.integration.exact.transactions import SCHEMA, TABLES, Transaction
from tests.integration.exact.writers import PASSING, Writers

SPACE = "aside"
"""A tablespace."""

_LEAVES = {"parts": ("parts_low", "parts_high")}
_REWRITES = (
    "vacuum full {leaf}",
    "cluster {table} using {index}",
    f"alter table {{leaf}} set tablespace {SPACE}",
    "alter table {leaf} set tablespace pg_default",
    "alter table {table} alter {column} type {type} using {column} || ''",
    "truncate",
)
_BREAKS = (
    "drop",
    "alter table {table} add column x{n} int default 3",
    "alter table {table} rename to {table}_{n}; alter table {table}_{n} rename to {table}",
    "alter table {table} alter {column} type varchar",
)
_TEXT = {"keyed": "a", "docs": "body", "keyless": "note", "parts": "p", "tail": "t"}


@dataclass
class Alterer:
    """A thread beside ``writers`` that does what ``seed`` says to their tables: some are left alone, some rewritten a
    few times, some broken. ``done`` are the statements that went through."""

    writers: Writers
    seed: int
    done: list[str] = field(default_factory=list)
    left: int = 0

    def __post_init__(self) -> None:
        rng = self._rng = random.Random(self.seed)
        plan: list[tuple[str, str]] = []
        for table in TABLES:
            match rng.randint(0, 4):
                case 1 | 2:
                    plan += [(table, rng.choice(_REWRITES)) for _ in range(rng.randint(1, 2))]
                case 3:
                    plan += [(table, rng.choice(_REWRITES)) for _ in range(rng.randint(3, 7))]
                case 4:
                    plan.append((table, rng.choice(_BREAKS)))
        rng.shuffle(plan)
        self._plan = plan
        self.left = len(plan)
        self._threads = [self.writers.thread(self._work), self.writers.thread(self._others)]

    def __enter__(self) -> Alterer:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.writers.stop.set()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        with self.writers.server.connect(self.writers.database, prepare_threshold=None) as connection:
            connection.execute("set lock_timeout = '1s'")
            while self._plan and not self.writers.stop.wait(self._rng.random() / 3):
                table, what = self._plan[-1]
                with suppress(*PASSING):
                    self._alter(connection, table, what)
                    self.done.append(f"{what.split('{')[0]} {table}")
                    self._plan.pop()
                    self.left -= 1
                if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                    connection.execute("rollback")

    def _alter(self, connection: psycopg.Connection[Row], table: str, what: str) -> None:
        if what in ("truncate", "drop"):
            self._replace(connection, table, what)
            return
        leaves = _LEAVES.get(table, (table,))
        name = self._rng.choice(leaves)
        index = f"{table}_pkey"
        if table == "keyless" or (table == "parts" and "cluster" in what):
            # No index, or none of the whole.
            what = what.replace("cluster {table} using {index}", "vacuum full {leaf}")
        words = {
            "table": table, "leaf": name, "index": index, "column": _TEXT[table], "type": "text",
            "n": self._rng.randint(1, 10**6),
        }  # fmt: skip
        # A VACUUM is alone in its query.
        connection.execute(what.format(**words).encode())

    def _replace(self, connection: psycopg.Connection[Row], table: str, what: str) -> None:
        """TRUNCATE, or DROP and CREATE; rows come in the same transaction."""
        work = Transaction(self.writers.log, connection, self._rng)
        xid = work.begin()
        if what == "truncate":
            work.execute(f"truncate {table}")
        else:
            work.execute(f"drop table {table}")
            for statement in SCHEMA.split(";"):
                if f"create table {table}" in statement:
                    work.execute(statement)
        work.emptied(table)
        values = {
            "keyed": "(-77, 'after', 0)", "docs": "(-77, 'after', 0)", "keyless": "(-77, 0, 'after')",
            "parts": "(-77, 'after')", "tail": "(-77, 'after')",
        }  # fmt: skip
        if self._rng.random() < 0.7:
            work.have(table, f"insert into {table} values {values[table]}")
        work.log(xid)
        work.execute("commit")

    def _others(self) -> None:
        """Tables that are none of the load's come and go."""
        number = 0
        with self.writers.server.connect(self.writers.database) as connection:
            while not self.writers.stop.wait(0.1):
                number += 1
                connection.execute(f"create table side_{number} (id int primary key, t text)".encode())
                connection.execute(f"insert into side_{number} select i, 'side' from generate_series(1, 99) i".encode())
                if number > 2:
                    connection.execute(f"drop table side_{number - 2}".encode())
