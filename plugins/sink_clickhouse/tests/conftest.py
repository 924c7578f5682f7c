"""Engines for the tests: one in this process, one behind HTTP in a process of its own."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import chdb
import pytest
from walshadow_sink_clickhouse.engine import EngineProcess
from walshadow_sink_clickhouse.plugin import walshadow_destination

from walshadow_core.api import Destination

Opener = Callable[..., Destination]

_databases = itertools.count(1)


@pytest.fixture(scope="module")
def embedded_path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of the one embedded engine that this process may have; held open, so that it starts once."""
    path = tmp_path_factory.mktemp("engine") / "data"
    handle = chdb.connect(str(path))
    yield path
    handle.close()


@pytest.fixture(scope="session")
def engine_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    """An engine behind HTTP in another process."""
    with EngineProcess(tmp_path_factory.mktemp("served") / "data") as engine:
        yield engine


@pytest.fixture
def database() -> str:
    """A database name that no other test has."""
    return f"test{next(_databases)}"


@contextlib.contextmanager
def opener(url: str) -> Iterator[Opener]:
    """A function that opens ``url`` with settings. What it opened is closed in the end: an engine that is open stops
    the next test module from having its own."""
    with contextlib.ExitStack() as opened:

        def open_it(**settings: object) -> Destination:
            destination = walshadow_destination(url, settings)
            assert destination is not None
            opened.callback(destination.close)
            return destination

        yield open_it


@pytest.fixture
def embedded(embedded_path: Path, database: str) -> Iterator[Opener]:
    """Opens a database of the embedded engine, with settings."""
    with opener(f"chdb://{embedded_path}?database={database}") as open_it:
        yield open_it


@pytest.fixture
def over_http(engine_process: EngineProcess, database: str) -> Iterator[Opener]:
    """Opens a database behind HTTP, with settings."""
    with opener(engine_process.url(database)) as open_it:
        yield open_it


@pytest.fixture(params=["embedded", "over_http"])
def opened(request: pytest.FixtureRequest) -> Opener:
    """Both."""
    found: Opener = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def embedded_anywhere(embedded_path: Path) -> Iterator[Opener]:
    """Opens the embedded engine; the database is a setting."""
    with opener(f"chdb://{embedded_path}") as open_it:
        yield open_it


@pytest.fixture
def http_anywhere(engine_process: EngineProcess) -> Iterator[Opener]:
    """Opens an engine behind HTTP; the database is a setting."""
    with opener(engine_process.url("")) as open_it:
        yield open_it


@pytest.fixture(params=["embedded_anywhere", "http_anywhere"])
def opened_anywhere(request: pytest.FixtureRequest) -> Opener:
    """Both, the database is a setting."""
    found: Opener = request.getfixturevalue(request.param)
    return found
