"""Servers for the tests of this plugin: one per major and session, with a table, a tablespace and an empty file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

import pytest
from walshadow_source_basebackup.plugin import walshadow_backup_source

from walshadow_core.api import BackupSource
from walshadow_core.testing.postgres import PostgresServer, available_majors

MAJORS = available_majors()


def make_tablespace(server: PostgresServer, name: str) -> None:
    """A tablespace in a folder of the server's own user, beside its data directory."""
    assert server.root is not None
    folder = server.root / name
    folder.mkdir()
    owner = server.data.stat()
    os.chown(folder, owner.st_uid, owner.st_gid)
    server.execute(f"create tablespace {name} location '{folder}'")


def fill(server: PostgresServer) -> None:
    """Some MiB of rows, and files that a checkpoint has brought to disk."""
    make_tablespace(server, "elsewhere")
    server.execute(
        """create table orders as select g as id, repeat('x', 200) as note from generate_series(1, 40000) g;
           create table moved tablespace elsewhere as select g as id from generate_series(1, 5000) g;
           create table empty_one ();
           checkpoint"""
    )


def source_of(server: PostgresServer, **options: str) -> BackupSource:
    """The source of this plugin, made as the core makes it."""
    options.setdefault("dsn", server.dsn())
    source = walshadow_backup_source("base_backup", options)
    assert source is not None
    return source


def wait_for(what: Callable[[], object], seconds: float = 30.0) -> None:
    """Until ``what()`` is true; fails after a generous time."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)


def assert_no_backup(server: PostgresServer) -> None:
    """The server runs no backup and no walsender (it may take a moment to leave)."""
    wait_for(
        lambda: (
            server.execute(
                """select (select count(*) from pg_stat_progress_basebackup)
                    + (select count(*) from pg_stat_activity where backend_type = 'walsender')"""
            )
            == [(0,)]
        )
    )


@pytest.fixture(scope="session")
def source() -> Callable[..., BackupSource]:
    """``source(server, **options)``: see source_of."""
    return source_of


@pytest.fixture(scope="session")
def until() -> Callable[..., None]:
    """``until(condition)``: see wait_for."""
    return wait_for


@pytest.fixture(scope="session")
def no_backup_on() -> Callable[[PostgresServer], None]:
    """``no_backup_on(server)``: see assert_no_backup."""
    return assert_no_backup


@pytest.fixture(scope="session")
def server_of() -> Iterator[Callable[[int], PostgresServer]]:
    """``server_of(17)`` gives the session's filled server of that major."""
    running: dict[int, PostgresServer] = {}

    def get(major: int) -> PostgresServer:
        if major not in running:
            running[major] = PostgresServer(major).start()
            fill(running[major])
        return running[major]

    yield get
    for server in running.values():
        server.remove()


@pytest.fixture(params=MAJORS, ids=lambda m: f"pg{m}")
def pg(request: pytest.FixtureRequest, server_of: Callable[[int], PostgresServer]) -> PostgresServer:
    """The filled server of every major in turn; tests leave it as it was."""
    return server_of(request.param)


@pytest.fixture
def pg_newest(server_of: Callable[[int], PostgresServer]) -> PostgresServer:
    """The filled server of the newest major, where the major does not matter."""
    return server_of(MAJORS[-1])
