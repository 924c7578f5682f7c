"""Relation file names, those of real servers and those that nobody should write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walshadow_core.api import RelFileLocator
from walshadow_core.pgformat.relpath import (
    DEFAULT_TABLESPACE,
    GLOBAL_TABLESPACE,
    RelationFile,
    parse_relation_path,
    relation_path,
)
from walshadow_core.testing.postgres import PostgresServer

VERSION = "PG_17_202406281"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("base/5/16384", RelationFile(RelFileLocator(1663, 5, 16384), "main", 0)),
        ("base/16384/16387.1", RelationFile(RelFileLocator(1663, 16384, 16387), "main", 1)),
        ("base/16384/16387.131", RelationFile(RelFileLocator(1663, 16384, 16387), "main", 131)),
        ("base/16384/16387_fsm", RelationFile(RelFileLocator(1663, 16384, 16387), "fsm", 0)),
        ("base/16384/16387_vm.2", RelationFile(RelFileLocator(1663, 16384, 16387), "vm", 2)),
        ("base/16384/16387_init", RelationFile(RelFileLocator(1663, 16384, 16387), "init", 0)),
        ("global/1262", RelationFile(RelFileLocator(1664, 0, 1262), "main", 0)),
        (f"pg_tblspc/16470/{VERSION}/5/16471.3", RelationFile(RelFileLocator(16470, 5, 16471), "main", 3)),
        ("base/4294967295/4294967295", RelationFile(RelFileLocator(1663, 2**32 - 1, 2**32 - 1), "main", 0)),
    ],
)
def test_what_postgres_writes_is_understood(path: str, expected: RelationFile) -> None:
    assert parse_relation_path(path) == expected
    if expected.fork == "main":
        assert relation_path(expected.locator, VERSION, expected.segment) == path


@pytest.mark.parametrize(
    "path",
    [
        "", "/", "base", "base/5", "base/5/", "base/5/PG_VERSION", "base/5/pg_filenode.map", "global/pg_control",
        "base/5/t3_16384", "base/5/t3_16384.1", "base/5/16384_foo", "base/5/16384.0", "base/5/16384.01",
        "base/5/016384", "base/05/16384", "base/0/16384", "base/5/0", "base/5/4294967296", "base/4294967296/1",
        "base/5/99999999999999999999", "base/5/1.4294967295", "base/5/1.99999999999", "base/5/16384.1_fsm",
        "/base/5/16384", "../base/5/16384", "base/../base/5/16384", "base/5/../5/16384", "./base/5/16384",
        "base//5/16384", "base/5/16384/", "base/5/16384\n", "base/5/16384\x00", "base/5/-1", "base/5/+1", "base/5/ 1",
        "base/5/1 ", "base/5/\u0661\u0662", "base/5/\uff11", "BASE/5/1", "global/5/1", "pg_tblspc/16470/5/1",
        f"pg_tblspc/0/{VERSION}/5/1", f"pg_tblspc/16470/{VERSION}/0/1", f"pg_tblspc/16470/{VERSION}/1",
        "pg_tblspc/16470/PG_17/5/1", "pg_tblspc/16470/../5/1", f"pg_tblspc/../{VERSION}/5/1",
    ],
)  # fmt: skip
def test_anything_else_is_no_relation(path: str) -> None:
    assert parse_relation_path(path) is None


@given(st.text(alphabet="base/global0159_fsmvinit.PGtlpc-\n\u0661", max_size=40))
def test_what_is_understood_is_what_would_be_written(path: str) -> None:
    """No two spellings of one file: a path that parses is the one that Postgres writes."""
    parsed = parse_relation_path(path)
    if parsed is None:
        return
    version = path.split("/")[2] if path.startswith("pg_tblspc/") else None
    suffix = "" if parsed.fork == "main" else f"_{parsed.fork}"
    segment = f".{parsed.segment}" if parsed.segment else ""
    assert relation_path(parsed.locator, version) + suffix + segment == path


def test_a_tablespace_needs_its_version_folder() -> None:
    with pytest.raises(ValueError, match="version folder"):
        relation_path(RelFileLocator(16470, 5, 1))


def test_every_relation_of_a_server_is_where_it_says(pg: PostgresServer) -> None:
    """pg_relation_filepath of every relation, one in a tablespace included, gives the locator that pg_class has."""
    with pg.connect() as conn:
        conn.execute("set allow_in_place_tablespaces = on")
        conn.execute("create tablespace relpath_space location ''")
    try:
        pg.execute("create table relpath_t (i int) tablespace relpath_space")
        rows = pg.execute("""
            select pg_relation_filepath(c.oid), c.relisshared,
                   coalesce(nullif(c.reltablespace, 0), d.dattablespace), d.oid, pg_relation_filenode(c.oid)
            from pg_class c, pg_database d
            where d.datname = current_database() and pg_relation_filenode(c.oid) is not null""")
        spaces = set()
        for path, shared, tablespace, database, number in rows:
            locator = RelFileLocator(tablespace, 0 if shared else database, number)
            assert parse_relation_path(path) == RelationFile(locator, "main", 0), path
            version = path.split("/")[2] if path.startswith("pg_tblspc/") else None
            assert relation_path(locator, version) == path
            spaces.add(tablespace)
        assert {DEFAULT_TABLESPACE, GLOBAL_TABLESPACE} < spaces
    finally:
        pg.execute("drop table if exists relpath_t")
        pg.execute("drop tablespace relpath_space")
