"""Connections that can't be had or are lost: one line, with the remedy and without the password."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.catalog.support import Database, before_each
from walshadow_core.api import SourceError
from walshadow_core.catalog import sql
from walshadow_core.catalog.sql import read_catalog
from walshadow_core.testing.postgres import PostgresServer


def _fails(dsn: str) -> str:
    with pytest.raises(SourceError) as error:
        read_catalog(dsn, [])
    text = str(error.value)
    assert "\n" not in text and "hunter2" not in text and "; " in text
    return text


def test_connections_that_are_refused(db: Database, role: str) -> None:
    assert "name an existing database" in _fails(db.dsn(dbname="nope", password="hunter2"))
    assert "create the role" in _fails(db.dsn(user="nope", password="hunter2"))
    assert "sslmode=" in _fails(db.dsn(sslmode="require", password="hunter2"))
    db.execute(f"alter role {role} nologin")
    assert "ALTER ROLE … LOGIN" in _fails(db.dsn(user=role))
    db.execute(f"alter role {role} login; revoke connect on database {db.name} from public")
    assert "GRANT CONNECT" in _fails(db.dsn(user=role))


def test_a_connection_lost_in_the_middle(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.execute("create table t (a int)")
    before_each(monkeypatch, sql._ATTRIBUTES, lambda: db.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() "
        "and pid <> pg_backend_pid() and backend_type = 'client backend'") and None)  # fmt: skip
    with pytest.raises(SourceError, match="connection was lost") as error:
        db.one("t")
    assert "\n" not in str(error.value)


def test_authentication(pg_newest: PostgresServer, tmp_path: Path) -> None:
    """pg_hba.conf is the server's own affair: a server of its own."""
    with PostgresServer(pg_newest.major) as server:
        server.execute("create role u login password 'right'; create role v login password 'right'")
        hba = server.data / "pg_hba.conf"
        hba.write_text("host all u 127.0.0.1/32 scram-sha-256\nhost all postgres 127.0.0.1/32 trust\n")
        server.execute("select pg_reload_conf()")
        assert read_catalog(server.dsn(user="u", password="right"), []).cluster.database == "postgres"
        assert "user and password" in _fails(server.dsn(user="u", password="hunter2"))
        assert "user and password" in _fails(server.dsn(user="u"))
        assert "pg_hba.conf" in _fails(server.dsn(user="v", password="hunter2"))
        server.stop()
        assert "listen_addresses" in _fails(server.dsn(user="u", password="hunter2"))
