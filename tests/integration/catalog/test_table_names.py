"""Names as people write them, as the server reads them."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from tests.integration.catalog.support import Database
from walshadow_core.api import SourceError, UsageError
from walshadow_core.catalog.names import parse_qualified
from walshadow_core.testing.postgres import PostgresServer


def test_names(db: Database) -> None:
    db.execute("""create schema "Sch.ema"; create schema app; create table "Sch.ema"."Weird ""name"" ü.表" (a int);
        create table app.orders (a int); create table orders (a int); create table "select" (a int)""")
    long = "x" * 80
    db.execute(f"create table {long} (a int)")
    asked = ['"Sch.ema"."Weird ""name"" ü.表"', "APP . Orders", "orders", "public.orders", f"{db.name}.app.orders",
             "select", long]  # fmt: skip
    snapshot = db.catalog(*asked)
    assert snapshot.refused == ()
    assert [(r.schema, r.name) for r in snapshot.relations] == [
        ("Sch.ema", 'Weird "name" ü.表'), ("app", "orders"), ("public", "orders"), ("public", "select"),
        ("public", "x" * 63)]  # fmt: skip


def test_the_search_path_decides(db: Database, role: str) -> None:
    db.execute("create schema one; create schema two; create table one.t (a int); create table two.t (a int)")
    assert db.one("t", options="-csearch_path=two,one").schema == "two"
    assert db.one("t", options="-csearch_path=missing,one,two").schema == "one"
    assert "one.t or two.t" in db.reason("t")
    db.execute(f"create schema {role} authorization {role}; create table {role}.t (a int)")
    assert db.one("t", user=role).schema == role


def test_a_hostile_search_path(db: Database, role: str) -> None:
    """Functions and operators of the same names, found first by the role's search_path, are never called."""
    db.execute("create schema evil; create table evil.t (a int primary key, b text default 'x')")
    db.execute("insert into evil.t values (1); alter table evil.t add c text default 'c'")
    plain = db.one("evil.t")
    trap = "returns {} language plpgsql as $$ begin raise exception 'trapped'; end $$"
    for signature, result in [("pg_relation_size(oid)", "int8"), ("current_schemas(bool)", "name[]"),
                              ("pg_relation_filenode(oid)", "oid"), ("format_type(oid, int4)", "text"),
                              ("current_setting(text)", "text"), ("current_database()", "name"),
                              ("equal(name, name)", "bool"), ("equal(oid, oid)", "bool")]:  # fmt: skip
        db.execute(f"create function evil.{signature} {trap.format(result)}")
    db.execute("create operator evil.= (leftarg = name, rightarg = name, function = evil.equal)")
    db.execute("create operator evil.= (leftarg = oid, rightarg = oid, function = evil.equal)")
    db.execute("create table evil.pg_class (oid oid); create view evil.pg_settings as select 'x' as name")
    db.execute(f"grant usage on schema evil to {role}; alter role {role} set search_path = evil, pg_catalog")
    assert db.one("t", user=role) == plain


def test_identifiers_are_read_as_the_server_reads_them(pg_newest: PostgresServer) -> None:
    texts = ["a", "A.b", ' "A" . b ', "é.Ü", "_1$", '"a""b"."."', "a.b", "表.表", '"a b"', "1a", "a-b", "a..b", '""',
             "a.", ".a", '"a', "a b", "a$", "$a", 'x."y', "a . b . c"]  # fmt: skip
    with pg_newest.connect() as connection:
        for text in texts:
            try:
                theirs = connection.execute("select parse_ident(%s)", (text,)).fetchone()
            except psycopg.Error:
                with pytest.raises(UsageError):
                    parse_qualified(text)
            else:
                name = parse_qualified(text)
                assert theirs is not None
                assert [p for p in (name.database, name.schema, name.name) if p is not None] == theirs[0], text


def test_names_that_are_no_text(make_database: Callable[..., Database]) -> None:
    """SQL_ASCII takes any bytes for a name; another table's name is in nobody's way."""
    db = make_database("encoding 'SQL_ASCII' template template0 lc_collate 'C' lc_ctype 'C'")
    with db.server.connect(db.name, client_encoding="SQL_ASCII") as connection:
        connection.execute(b'create table orders (a int); create table "n\xe9" (a int); create schema "s\xe9"')
        connection.execute(b'create table column_name ("caf\xe9" int)')
    assert db.one("orders").name == "orders"
    assert "no such table" in db.reason("orderss") and "no such table" in db.reason("nowhere.orders")
    with pytest.raises(SourceError, match="can't be turned into UTF-8: rename that table, column or type") as error:
        db.catalog("orders", "column_name")
    assert "\n" not in str(error.value)
