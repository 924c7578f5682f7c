"""What the rows of tables are at a moment of the WAL, by the writers' own log and the server's own pg_waldump."""

from __future__ import annotations

import re
from typing import Any

from walshadow_core.api import Lsn
from walshadow_core.testing.postgres import PostgresServer

Row = tuple[Any, ...]
Effect = tuple[str, int | None, list[Row]]
"""(table, the value that tells its rows apart, the rows that it has now); None for the value: the table has no others."""
State = dict[str, dict[int, list[Row]]]

_COMMIT = re.compile(r"tx:\s*(\d+), lsn: .* desc: COMMIT(?:_PREPARED)? (?:(\d+): )?")


def current_lsn(server: PostgresServer) -> Lsn:
    return Lsn.parse(server.execute("select pg_current_wal_insert_lsn()::text")[0][0])


def waldump(server: PostgresServer, first: Lsn, moment: Lsn, rmgr: str | None = None) -> list[str]:
    """pg_waldump's lines of what begins at ``first`` or later and ends at ``moment`` or before: it reads nothing that is
    past its ``--end``, and so no record that ends later."""
    words = () if rmgr is None else ("--rmgr", rmgr)
    done = server.run(
        "pg_waldump", "--path", str(server.data / "pg_wal"), "--start", str(first), "--end", str(moment), *words,
        check=False,
    )  # fmt: skip
    # Where the end is right behind a page's header, it takes for the next record what it has not read, and says so.
    assert done.returncode == 0 or f"at {moment}\n" in done.stderr, done.stderr
    return done.stdout.splitlines()


def committed(server: PostgresServer, first: Lsn, moment: Lsn) -> list[int]:
    """The transactions (32 bits) whose commit record ends at ``moment`` or before, in their order."""
    lines = (_COMMIT.search(line) for line in waldump(server, first, moment, "Transaction"))
    return [int(found[2] or found[1]) for found in lines if found]


def cut_off(server: PostgresServer, first: Lsn, moment: Lsn) -> set[str]:
    """The files (paths in the data folder) that truncation records of that time are of."""
    lines = (re.search(r"desc: TRUNCATE (\S+) to", line) for line in waldump(server, first, moment, "Storage"))
    return {found[1] for found in lines if found}


def applied(state: State, effects: list[Effect]) -> None:
    """Bring ``state`` past a transaction."""
    for table, key, rows in effects:
        if key is None:
            state[table] = {}
        else:
            state[table][key] = rows


def rows_of(keys: dict[int, list[Row]]) -> list[Row]:
    """All rows of a table, in order."""
    return sorted(row for rows in keys.values() for row in rows)
