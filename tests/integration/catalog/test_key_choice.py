"""The key of a table under each replica identity."""

from __future__ import annotations

import psycopg
import pytest

from tests.integration.catalog.support import Database


def _key(db: Database, table: str, alter: str = "") -> tuple[str, ...]:
    if alter:
        db.execute(f"alter table {table} {alter}")
    return db.one(table).key_names


def test_the_key_under_each_replica_identity(db: Database) -> None:
    db.execute("""create table t (a int, b int not null, c int not null, d int not null, primary key (c, a));
        create unique index one on t (b); create unique index two on t (b, d) include (a);
        create unique index partial on t (d) where d > 0; create unique index expression on t ((d + 1));
        create unique index nullable on t (a, d)""")
    assert _key(db, "t") == ("c", "a")
    assert _key(db, "t", "replica identity full") == ("c", "a")
    assert _key(db, "t", "replica identity nothing") == ("c", "a")
    assert _key(db, "t", "replica identity using index two") == ("b", "d")
    assert db.one("t").replica_identity == "i"
    db.execute("drop index two")
    assert _key(db, "t") == ("c", "a")
    db.execute("alter table t drop constraint t_pkey")
    assert _key(db, "t", "replica identity full") == ("b",)
    assert _key(db, "t", "replica identity nothing") == ("b",)
    assert _key(db, "t", "replica identity default") == ()
    db.execute("drop index one; alter table t alter a drop not null, replica identity full")
    assert _key(db, "t") == (), "what is left is partial, over an expression, or over a column with NULLs"
    db.execute("alter table t alter a set not null")
    assert _key(db, "t") == ("a", "d")


def test_a_deferrable_primary_key_is_none(db: Database) -> None:
    db.execute("create table t (a int primary key deferrable, b int not null, unique (b))")
    assert _key(db, "t") == ()
    assert _key(db, "t", "replica identity full") == ("b",)
    db.execute("create table u (a int primary key deferrable initially deferred)")
    assert _key(db, "u") == () == _key(db, "u", "replica identity full")


def test_an_invalid_index_is_no_key(db: Database) -> None:
    db.execute("create table t (a int not null); insert into t values (1), (1)")
    with pytest.raises(psycopg.errors.UniqueViolation):
        db.execute("create unique index concurrently broken on t (a)")
    assert _key(db, "t", "replica identity full") == ()


def test_not_null_that_was_not_validated(db: Database) -> None:
    if db.server.major < 18:
        pytest.skip("NOT NULL … NOT VALID came with 18")
    db.execute("create table t (a int, b int not null); insert into t values (null, 1); create unique index i on t (a)")
    db.execute("alter table t add constraint n not null a not valid, replica identity full")
    relation = db.one("t")
    assert [a.not_null for a in relation.attributes] == [False, True] and relation.key == ()
    assert _key(db, "t", "replica identity using index i") == ()
    db.execute("delete from t; alter table t validate constraint n")
    relation = db.one("t")
    assert [a.not_null for a in relation.attributes] == [True, True] and relation.key == (1,)
