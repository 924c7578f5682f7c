"""Servers shared by the tests: one per major and test session, started on first use."""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import clickhouse_connect
import pytest

from walshadow_core.cli.main import main
from walshadow_core.testing.postgres import PostgresServer, available_majors

MAJORS = available_majors()


@pytest.fixture(scope="session")
def server_of() -> Iterator[Callable[[int], PostgresServer]]:
    """``server_of(17)`` gives the session's server of that major (default settings)."""
    running: dict[int, PostgresServer] = {}

    def get(major: int) -> PostgresServer:
        if major not in running:
            running[major] = PostgresServer(major).start()
        return running[major]

    yield get
    for server in running.values():
        server.remove()


@pytest.fixture(params=MAJORS, ids=lambda m: f"pg{m}")
def pg(request: pytest.FixtureRequest, server_of: Callable[[int], PostgresServer]) -> PostgresServer:
    """A server of every major in turn. Tests make databases or schemas of their own in it."""
    return server_of(request.param)


@pytest.fixture
def pg_newest(server_of: Callable[[int], PostgresServer]) -> PostgresServer:
    """A server of the newest major, where the major does not matter."""
    return server_of(MAJORS[-1])


@pytest.fixture(scope="session")
def engine_path() -> Iterator[Path]:
    """The folder of this process's embedded ClickHouse: a process can have one."""
    with tempfile.TemporaryDirectory(prefix="walshadow-engine-") as folder:
        yield Path(folder) / "engine"


@pytest.fixture
def clickhouse(engine_path: Path) -> Iterator[EmbeddedClickHouse]:
    """A fresh database in this process's embedded ClickHouse."""
    database = f"t_{uuid.uuid4().hex[:12]}"
    engine = EmbeddedClickHouse(engine_path, database)
    yield engine
    engine.close()


@dataclass
class EmbeddedClickHouse:
    """A database of the embedded engine: its URL for walshadow, and queries for the test."""

    path: Path
    database: str

    def __post_init__(self) -> None:
        self.url = f"chdb://{self.path}?database={self.database}"
        self._client: Any = None

    @property
    def client(self) -> Any:
        """A clickhouse-connect client."""
        if self._client is None:
            self._client = clickhouse_connect.get_client(interface="chdb", path=str(self.path))
        return self._client

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        found: list[tuple[Any, ...]] = self.client.query(sql).result_rows
        return found

    def tables(self) -> set[str]:
        """Names of the database's tables."""
        return {r[0] for r in self.rows(f"SELECT name FROM system.tables WHERE database = '{self.database}'")}

    def close(self) -> None:
        """Drop the database."""
        self.client.command(f"DROP DATABASE IF EXISTS {self.database} SYNC")
        self.client.close()


@dataclass
class Ran:
    """What a command of the program gave."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """stdout as JSON."""
        return json.loads(self.out)


@pytest.fixture
def walshadow(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """``walshadow("load", "--table", …)`` runs the program in this process."""

    def run(*words: str) -> Ran:
        capfd.readouterr()
        code = main(words)
        out, err = capfd.readouterr()
        return Ran(code, out, err)

    return run
