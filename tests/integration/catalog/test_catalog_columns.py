"""The written-down columns of catalogs against what each server says."""

from __future__ import annotations

import pytest

from tests.conftest import MAJORS
from walshadow_core.catalog.files.columns import CATALOGS, columns, descriptor
from walshadow_core.catalog.files.encodings import encoding_name
from walshadow_core.testing.postgres import PostgresServer


def test_every_column_of_every_catalog(pg: PostgresServer) -> None:
    for catalog in CATALOGS:
        shown = pg.execute(
            """select a.attname, t.typname, a.attlen, a.attalign from pg_attribute a join pg_type t on t.oid = a.atttypid
               where attrelid = %s::regclass and attnum > 0 and not attisdropped order by attnum""",
            (f"pg_catalog.{catalog.name}",),
        )
        assert columns(catalog, pg.major) == tuple((name, type_) for name, type_, _, _ in shown), catalog.name
        written = descriptor(catalog, pg.major, catalog.key).attributes
        assert [(a.name, a.length, a.alignment) for a in written] == [
            (name, length, alignment) for name, _, length, alignment in shown
        ], catalog.name


@pytest.mark.parametrize("major", MAJORS)
def test_oids_and_first_files(major: int) -> None:
    """In a cluster that is as initdb made it, every catalog's file has the catalog's oid for a number."""
    with PostgresServer(major) as fresh:
        for catalog in CATALOGS:
            oid, number, first, shared = fresh.execute(
                """select oid::int8, relfilenode::int8, pg_relation_filenode(oid)::int8, relisshared from pg_class
                   where oid = %s::regclass""",
                (f"pg_catalog.{catalog.name}",),
            )[0]
            assert (oid, number == 0, shared) == (catalog.oid, catalog.mapped, catalog.shared), catalog.name
            assert first == catalog.oid


def test_every_encoding_of_a_database(pg: PostgresServer) -> None:
    shown = pg.execute("select pg_encoding_to_char(n) from generate_series(0, 34) n")
    assert [encoding_name(n) for n in range(35)] == [name for (name,) in shown]
