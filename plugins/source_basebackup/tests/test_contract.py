"""This plugin keeps the contract of backup sources, on every major."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from walshadow_core.api import BackupSource
from walshadow_core.testing.postgres import PostgresServer
from walshadow_core.testing.source_contract import BackupSourceContract, KnownBackup


def known_of(server: PostgresServer) -> KnownBackup:
    """The files of the tables, as they are on the server's disk after a checkpoint."""
    server.execute("checkpoint")
    paths = [
        path
        for (path,) in server.execute(
            "select pg_relation_filepath(x) from unnest('{orders,moved,empty_one}'::regclass[]) x"
        )
    ]
    oid = server.execute("select oid from pg_tablespace where spcname = 'elsewhere'")[0][0]
    return KnownBackup(
        system_identifier=server.execute("select system_identifier from pg_control_system()")[0][0],
        major=server.major,
        files={path: (server.data / path).read_bytes() for path in paths},
        tablespaces=frozenset({oid}),
    )


class TestBaseBackup(BackupSourceContract):
    @pytest.fixture
    def make_source(self, pg: PostgresServer, source: Callable[..., BackupSource]) -> Callable[[], BackupSource]:
        return lambda: source(pg)

    @pytest.fixture
    def known(self, pg: PostgresServer) -> KnownBackup:
        known = known_of(pg)
        assert any(path.startswith("pg_tblspc/") for path in known.files)
        return known

    @pytest.fixture
    def nothing_left(self, pg: PostgresServer, no_backup_on: Callable[[PostgresServer], None]) -> Callable[[], None]:
        return lambda: no_backup_on(pg)
