"""What the integration tests share: a database of one's own, and the two commands."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from tests.conftest import Ran
from walshadow_core.testing.postgres import PostgresServer

Run = Callable[..., Ran]


class HasUrl(Protocol):
    """A destination, as far as the commands need it."""

    url: str


@contextmanager
def database(pg: PostgresServer, options: str = "") -> Iterator[str]:
    """A database of the test's own."""
    name = f"d_{uuid.uuid4().hex[:12]}"
    pg.execute(f"create database {name} {options}")
    try:
        yield name
    finally:
        pg.execute(f"drop database {name} with (force)")


def load(run: Run, pg: PostgresServer, db: str, to: HasUrl, *words: str) -> Ran:
    """Load tables; ``words`` are further words of the command line."""
    return run("load", "--source", pg.dsn(db), "--to", to.url, "--json", "--no-progress", *words)


def assert_equal(run: Run, pg: PostgresServer, db: str, to: HasUrl, table: str, *words: str) -> Ran:
    """Every row is there with every value, as verify sees it."""
    checked = run("verify", "--source", pg.dsn(db), "--to", to.url, "--table", table, "--json", *words)
    assert checked.code == 0, checked.err + checked.out
    return checked
