"""Every reason against a table, with its remedy."""

from __future__ import annotations

import pytest

from tests.integration.catalog.support import Database
from walshadow_core.api import UsageError
from walshadow_core.catalog.sql import read_catalog


def test_each_refusal(db: Database) -> None:
    db.execute("""
        create schema app;
        create table app.plain (a int primary key, t text);
        create view app.v as select 1 as a;
        create sequence app.s; create type app.c as (a int);
        create unlogged table app.u (a int);
        create table app.root (a int) partition by range (a);
        create table app.leaf1 partition of app.root for values from (0) to (10);
        create table app.mid partition of app.root for values from (10) to (20) partition by range (a);
        create table app."Leaf 2" partition of app.mid for values from (10) to (15);
        create foreign data wrapper w; create server s foreign data wrapper w;
        create foreign table app.f (a int) server s;
        create foreign table app.leaf3 partition of app.root for values from (20) to (30) server s;
        create unlogged table app.leaf4 partition of app.mid for values from (15) to (20);
        create access method other type table handler heap_tableam_handler;
        create table app.columnar (a int) using other;
        create table app.leaf5 partition of app.root for values from (30) to (40) using other""")
    toast = db.value("select reltoastrelid::regclass::text from pg_class where oid = 'app.plain'::regclass")
    expected = {
        "app.v": "a view has no rows of its own",
        "app.s": "a sequence is not a table",
        "app.c": "a composite type is not a table",
        "app.plain_pkey": "an index is not a table",
        toast: "a TOAST table comes with the table",
        "app.u": "SET LOGGED",
        "app.root": "app.leaf3 (a foreign table), app.leaf4 (unlogged), app.leaf5 (access method other);",
        "app.mid": "in no backup: app.leaf4 (unlogged);",
        "app.leaf3": "not in this cluster",
        "app.leaf4": "SET LOGGED",
        "app.f": "not in this cluster",
        "app.columnar": "access method is other",
        "pg_class": "a system catalog",
        "information_schema.sql_features": "a system catalog",
        "elsewhere.app.plain": "in another database",
        "app.plian": "did you mean app.plain?",
        "plain": "did you mean app.plain?",
        'app."PLAIN"': "did you mean app.plain?",
        "ap.plain": "did you mean app?",
        "app.nothing_like_it": "there is no such table in schema app; check its name",
    }
    snapshot = db.catalog("app.plain", *expected, 'app."Leaf 2"')
    assert [r.qualified_name for r in snapshot.relations] == ["app.plain", "app.Leaf 2"]
    assert [name for name, _ in snapshot.refused] == list(expected)
    for name, reason in snapshot.refused:
        assert expected[name] in reason and "; " in reason and "\n" not in reason, (name, reason)


def test_a_temporary_table_of_another_session(db: Database) -> None:
    with db.server.connect(db.name) as other:
        other.execute("create temporary table t (a int)")
        schema = other.execute("select nspname from pg_namespace where oid = pg_my_temp_schema()").fetchall()[0][0]
        assert "temporary" in db.reason(f"{schema}.t")
        assert "no such table" in db.reason("t")


def test_a_name_that_is_none_is_found_before_connecting() -> None:
    with pytest.raises(UsageError, match="not a table name"):
        read_catalog("host=127.0.0.1 port=1", ["app.orders", "my-table"])
