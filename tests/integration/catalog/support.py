"""What the tests of the catalog share: a database of one's own, and DDL at a chosen moment of the reading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from walshadow_core.api import RelationDescriptor
from walshadow_core.catalog import sql
from walshadow_core.catalog.sql import CatalogSnapshot, read_catalog
from walshadow_core.testing.postgres import PostgresServer


@dataclass
class Database:
    """A database of its own in a shared server."""

    server: PostgresServer
    name: str

    def execute(self, text: str, params: Any = None) -> list[tuple[Any, ...]]:
        with self.server.connect(self.name, client_encoding="UTF8") as connection:
            cursor = connection.execute(text.encode(), params)
            while cursor.nextset():
                pass
            return cursor.fetchall() if cursor.description else []

    def value(self, text: str, params: Any = None) -> Any:
        return self.execute(text, params)[0][0]

    def dsn(self, **more: str) -> str:
        return make_conninfo(self.server.dsn(self.name), **more)

    def catalog(self, *tables: str, **more: str) -> CatalogSnapshot:
        return read_catalog(self.dsn(**more), tables)

    def one(self, table: str, **more: str) -> RelationDescriptor:
        snapshot = self.catalog(table, **more)
        assert snapshot.refused == ()
        (relation,) = snapshot.relations
        return relation

    def reason(self, table: str, **more: str) -> str:
        snapshot = self.catalog(table, **more)
        assert snapshot.relations == ()
        ((name, reason),) = snapshot.refused
        assert name == table and "\n" not in reason
        return reason


def before_each(monkeypatch: pytest.MonkeyPatch, query: str, action: Callable[[], None]) -> list[int]:
    """Run ``action`` each time before the reading runs ``query``; gives a list that grows by one each time."""
    calls: list[int] = []
    rows = sql._Reading._rows

    def hooked(self: Any, text: str, params: Any = None) -> list[tuple[Any, ...]]:
        if text == query:
            calls.append(1)
            action()
        return rows(self, text, params)

    monkeypatch.setattr(sql._Reading, "_rows", hooked)
    return calls
