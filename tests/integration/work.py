"""Work for a server: statements each in a transaction of its own, and clients that lock and update the same rows."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator

import psycopg

from walshadow_core.testing.postgres import PostgresServer


def statements(text: str) -> Iterator[str]:
    """One round trip each: what stands between begin and its end stays together."""
    block = ""
    for piece in text.split(";"):
        block += piece + ";"
        words = block.split()
        if words[0] != "begin;" or re.search(r"(commit|rollback|prepare transaction '\w+');$", block.strip()):
            if piece.strip():
                yield block
            block = ""


def run(server: PostgresServer, text: str) -> None:
    """Every statement in a transaction of its own."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        for statement in statements(text):
            connection.execute(statement)  # type: ignore[call-overload]


def lock_and_update_at_once(server: PostgresServer, table: str, times: int) -> None:
    """Three clients that lock and update rows 1 to 5 of ``table (id, n)``: multixacts with and without an updater."""

    def client(number: int) -> None:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            for k in range(times):
                with connection.transaction():
                    connection.execute(f"select from {table} where id = %s for key share", (1 + k % 5,))  # type: ignore[arg-type]
                    connection.execute(f"update {table} set n = n + 1 where id = %s", (1 + (k + number) % 5,))  # type: ignore[arg-type]

    threads = [threading.Thread(target=client, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
