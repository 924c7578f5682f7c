"""Servers shared by the tests: one per major and test session, started on first use."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
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
