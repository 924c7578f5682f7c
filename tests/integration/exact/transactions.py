"""The tables that clients write to, and one transaction of theirs."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

import psycopg

from tests.integration.exact.oracle import Effect, Row
from walshadow_core.testing.postgres import PostgresServer

Log = list[tuple[int, list[Effect]]]
"""What each transaction did that was about to commit, by its xid (32 bits)."""

TABLES = {
    "keyed": ("id", ("id", "a", "n")),
    "docs": ("id", ("id", "body", "v")),
    "keyless": ("n", ("n", "w", "note")),
    "parts": ("k", ("k", "p")),
    "tail": ("id", ("id", "t")),
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
create table tail (id int primary key, t text not null) with (autovacuum_enabled = off);
insert into keyed select i, repeat('a', 20 + i % 150), i % 100 from generate_series(1, {rows}) i;
insert into docs select i, repeat(md5(i::text), 100 + i % 100), 0 from generate_series(1, 200) i;
insert into keyless select 1 + i / 2, 0, 'note ' || i / 2 from generate_series(0, {rows}) i;
insert into parts select i, 'p' || i from generate_series(1, 1000) i;
insert into tail select i, repeat('t', 500) from generate_series(1, 50) i;
"""

OFTEN = (
    "autovacuum_vacuum_threshold = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50, "
    "autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_cost_delay = 0"
)
"""For autovacuum to come to a table whenever it looks."""
VACUUMED = ("keyed", "docs", "keyless", "parts_low", "parts_high")


def made(server: PostgresServer, database: str, rows: int) -> None:
    """Make the tables, with ``rows`` in the larger ones."""
    server.execute(SCHEMA.format(rows=rows), database=database)
    for table in VACUUMED:
        server.execute(f"alter table {table} set ({OFTEN})", database=database)


class Transaction:
    """One transaction: a few operations, some of them under savepoints that are rolled back."""

    def __init__(
        self,
        log: Log,
        connection: psycopg.Connection[Row],
        rng: random.Random,
        fresh: Iterable[int] = (),
        number: int = 0,
        rows: int = 0,
    ) -> None:
        """Of the ``rows`` that were there at first client ``number`` takes its own; ``fresh`` are keys that nobody has."""
        self._log = log
        self._rows = rows
        self._connection = connection
        self._rng = rng
        self._fresh = iter(fresh)
        self._number = number
        self._effects: list[Effect] = []

    def begin(self) -> int:
        """Its xid (32 bits)."""
        self.execute("begin")
        return int(self.execute("select pg_current_xact_id()::text")[0][0]) & 0xFFFFFFFF

    def log(self, xid: int) -> None:
        """It is going to commit, or to be prepared."""
        self._log.append((xid, self._effects))

    def run(self, prepared: list[str]) -> None:
        """A few operations; it is added to ``prepared`` if it does not end."""
        rng = self._rng
        xid = self.begin()
        for _ in range(rng.randint(1, 6)):
            if rng.random() < 0.25:
                mark = len(self._effects)
                self.execute("savepoint s")
                self._operation()
                if rng.random() < 0.5:
                    self.execute("rollback to s")
                    del self._effects[mark:]
                else:
                    self.execute("release s")
            else:
                self._operation()
        end = rng.random()
        if end < 0.12:
            self.execute("rollback")
            return
        self.log(xid)
        if end < 0.2:
            name = f"{self._connection.info.dbname}_{xid}"
            self.execute(f"prepare transaction '{name}'")
            prepared.append(name)
        else:
            self.execute("commit")

    def execute(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        """Its rows, if it has any."""
        cursor = self._connection.execute(sql.encode(), params or None)
        return cursor.fetchall() if cursor.description else []

    def have(self, table: str, sql: str, params: Sequence[Any] = ()) -> bool:
        """Rows that it leaves, as the server gives them; whether there were any."""
        found: dict[int, list[Row]] = {}
        for row in self.execute(f"{sql} returning {', '.join(TABLES[table][1])}", params):
            found.setdefault(row[0], []).append(row)
        self._effects += [(table, key, rows) for key, rows in found.items()]
        return bool(found)

    def gone(self, table: str, sql: str, params: Sequence[Any] = ()) -> None:
        """Rows that it takes away."""
        self._effects += [(table, key, []) for (key,) in self.execute(f"{sql} returning {TABLES[table][0]}", params)]

    def emptied(self, table: str) -> None:
        """The whole table."""
        self._effects.append((table, None, []))

    def moved(self, table: str, old: int, sql: str, params: Sequence[Any]) -> None:
        """A row that has another key now."""
        if self.have(table, sql, params):
            self._effects.append((table, old, []))

    def _operation(self) -> None:
        rng = self._rng
        # Of rows that were there at first each writer takes its own, or prepared transactions would lock all out.
        own = self._number + 4 * rng.randint(1, self._rows // 5)
        n = next(self._fresh)
        within = "between %s and %s and id %% 4 = %s"
        match rng.randint(0, 16):
            case 0 | 1:
                self.have("keyed", "insert into keyed values (%s, %s, %s)", (n, "x" * rng.randint(0, 900), own))
            case 2 | 3:
                self.have("keyed", "update keyed set a = a || 'h' where id = %s", (own,))
            case 4:
                self.have("keyed", f"update keyed set n = n + 1 where id {within}", (own, own + 80, self._number))
            case 5:
                self.moved("keyed", own, "update keyed set id = %s where id = %s", (n, own))
            case 6:
                self.gone("keyed", f"delete from keyed where id {within}", (own, own + 20, self._number))
            case 7:
                conflict = "insert into keyed values (%s, 'new', 0) on conflict (id) do update set a = 'conflict'"
                self.have("keyed", conflict, (own,))
            case 8:
                self.have("docs", "insert into docs values (%s, %s, 0)", (n, f"{rng.getrandbits(4000 * 8):x}"))
            case 9:
                doc = self._number + 4 * rng.randint(0, 44)
                body = f"{rng.getrandbits(rng.randint(1000, 9000) * 4):x}"
                self.have("docs", "update docs set body = %s, v = v + 1 where id = %s", (body, doc))
                # The TOAST value stays.
                self.have("docs", "update docs set v = v + 1 where id = %s", (doc,))
                self.have("docs", "update docs set v = v + 1 where id = %s", ((doc + 4) % 180,))
            case 10:
                self.gone("docs", "delete from docs where id = %s", (4 * own,))
            case 11:
                copies = "insert into keyless select %s, %s, 'new' from generate_series(1, %s)"
                self.have("keyless", copies, (n, self._number, rng.randint(1, 60)))
            case 12:
                self.have("keyless", "update keyless set note = note || '+' where n = %s", (own,))
            case 13:
                self.gone("keyless", "delete from keyless where n = %s", (own,))
            case 14:
                how = rng.choice(["for update", "for share", "for key share", "for no key update"])
                self.execute(f"select from keyed where id between %s and %s {how}", (own, own + 8))
            case 15:
                k = self._number + 4 * rng.randint(0, 249)
                self.moved("parts", k, "update parts set k = %s, p = p || 'm' where k = %s", (n, k))
            case 16:
                self.have("tail", "update tail set t = %s where id = %s", (f"{n}", rng.randint(1, 50)))
