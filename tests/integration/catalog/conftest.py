"""Databases and roles for the tests of the catalog."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.integration.catalog.support import Database
from walshadow_core.testing.postgres import PostgresServer


@pytest.fixture
def make_database(pg: PostgresServer) -> Iterator[Callable[..., Database]]:
    made: list[str] = []

    def make(options: str = "") -> Database:
        name = f"catalog_{uuid.uuid4().hex[:12]}"
        pg.execute(f"create database {name} {options}")
        made.append(name)
        return Database(pg, name)

    yield make
    for name in made:
        pg.execute(f"drop database {name} with (force)")


@pytest.fixture
def db(make_database: Callable[..., Database]) -> Database:
    return make_database()


@pytest.fixture
def role(db: Database) -> Iterator[str]:
    """A role with nothing but LOGIN."""
    name = f"plain_{uuid.uuid4().hex[:12]}"
    db.execute(f"create role {name} login")
    yield name
    db.execute(f"drop owned by {name} cascade; drop role {name}")
