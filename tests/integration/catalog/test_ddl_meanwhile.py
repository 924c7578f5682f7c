"""DDL while the catalog is read: one snapshot, or the whole reading again."""

from __future__ import annotations

import pytest

from tests.integration.catalog.support import Database, before_each
from walshadow_core.catalog import sql


@pytest.mark.parametrize(
    "query", ["_RESOLVE", "_INHERITS", "_CLASSES", "_ATTRIBUTES", "_INDEXES", "_UNVALIDATED", "_TYPES", "_SIZES"]
)
def test_ddl_in_between_does_not_tear_the_snapshot(db: Database, monkeypatch: pytest.MonkeyPatch, query: str) -> None:
    db.execute("create table t (a int primary key, b text, c int not null); insert into t values (1, 'b', 1)")
    db.execute("create unique index i on t (c); alter table t replica identity using index i")
    before = db.one("t")

    def alter() -> None:
        db.execute("""alter table t add d text default 'd', drop column b, replica identity full;
            drop index i; alter table t drop constraint t_pkey, alter a drop not null; alter table t rename to u;
            alter table u rename a to z; create schema s; alter table u set schema s""")

    calls = before_each(monkeypatch, getattr(sql, query), alter)
    assert db.one("t") == before
    assert len(calls) == 1
    monkeypatch.undo()
    after = db.one("s.u")
    assert (after.oid, after.locator, after.key_names) == (before.oid, before.locator, ())
    assert [a.name for a in after.columns] == ["z", "c", "d"]


@pytest.mark.parametrize("statement", ["vacuum full t", "truncate t", "alter table t alter a type bigint"])
def test_a_rewrite_in_between_is_looked_at_again(db: Database, monkeypatch: pytest.MonkeyPatch, statement: str) -> None:
    db.execute("create table t (a int, b text); insert into t select g from generate_series(1, 5000) g")
    before = db.one("t")
    todo = [statement]
    calls = before_each(monkeypatch, sql._ATTRIBUTES, lambda: db.execute(todo.pop()) and None if todo else None)
    after = db.one("t")
    assert len(calls) == 2
    assert after.locator != before.locator
    assert after.locator.number == db.value("select pg_relation_filenode('t')::int8")
    assert after.size_bytes == db.value("select pg_relation_size('t')")
    assert after.attributes[0].type_name == ("bigint" if "bigint" in statement else "integer")


def test_a_table_dropped_in_between_is_not_there(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.execute("create table t (a int); create table stays (a int)")
    before_each(monkeypatch, sql._ATTRIBUTES, lambda: db.execute("drop table if exists t") and None)
    snapshot = db.catalog("t", "stays")
    assert [r.name for r in snapshot.relations] == ["stays"]
    assert [name for name, _ in snapshot.refused] == ["t"] and "no such table" in snapshot.refused[0].reason


def test_a_table_rewritten_without_end_is_refused(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.execute("create table t (a int); create table stays (a int)")
    calls = before_each(monkeypatch, sql._ATTRIBUTES, lambda: db.execute("truncate t") and None)
    snapshot = db.catalog("t", "stays")
    assert len(calls) == 3
    assert [r.name for r in snapshot.relations] == ["stays"]
    assert "again and again" in snapshot.refused[0].reason


def test_a_locked_table_is_refused_and_the_others_are_not(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.execute("create table t (a int); create table stays (a int)")
    monkeypatch.setattr(sql, "_SETTINGS", sql._SETTINGS.replace(sql._LOCK_TIMEOUT, "50ms"))
    with db.server.connect(db.name, autocommit=False) as other:
        other.execute("lock table t in access exclusive mode")
        snapshot = db.catalog("t", "stays")
    assert [r.name for r in snapshot.relations] == ["stays"]
    assert "exclusive lock" in snapshot.refused[0].reason
    assert db.one("t").name == "t"
