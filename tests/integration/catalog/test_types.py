"""Types as the catalog describes them, and their names against what the server's format_type prints."""

from __future__ import annotations

import pytest

from tests.integration.catalog.support import Database
from walshadow_core.api import PgType
from walshadow_core.catalog.type_names import format_type

_TYPES = (
    "bool", "boolean[]", '"char"', '"char"[]', "char", "char(7)", "char(7)[]", "bpchar", "bpchar[]", "varchar",
    "varchar(20)", "varchar(20)[]", "text", "text[][]", "name", "bytea", "bit", "bit(5)", "bit(5)[]", "bit varying",
    "bit varying(9)", "int2", "int4[]", "int8", "oid", "oidvector", "int2vector", "oidvector[]", "float4", "float8[]",
    "numeric", "numeric(10,2)", "numeric(5)", "numeric(3,-2)[]", "numeric(1000,-1000)", "money", "date", "time",
    "time(3)", "timetz", "timetz(0)[]", "timestamp", "timestamp(3)", "timestamptz", "timestamptz(6)[]", "interval",
    "interval(2)", "interval year", "interval month", "interval day", "interval hour", "interval minute",
    "interval second", "interval second(4)", "interval year to month", "interval day to hour", "interval day to minute",
    "interval day to second(3)", "interval hour to minute", "interval hour to second", "interval minute to second(1)[]",
    "json", "json[]", "jsonb", "uuid", "xml", "inet", "tsvector", "regclass[]", "pg_lsn", "int4range", "int4multirange",
    "nummultirange[]", "s.mood", "s.mood[]", '"S""2"."order"', '"S""2"."order"[]', '"S""2"."größe"', "s.pair",
    "s.amount", "s.span", "s.span_multirange", "s.\"table\"", "s.plain_row",
)  # fmt: skip

_MADE = """
    create schema s; create schema "S""2";
    create type s.mood as enum ('b', 'c'); alter type s.mood add value 'a' before 'b'; alter type s.mood add value 'b2' after 'b';
    create domain "S""2"."order" as int; create domain "S""2"."größe" as "S""2"."order";
    create type s.pair as (a int[], gone text, m s.mood); alter type s.pair drop attribute gone;
    create domain s.amount as numeric(12,3) check (value > 0); create domain s."table" as int[][];
    create type s.span as range (subtype = float8); create table s.plain_row (a int, b text)"""


def test_every_type_is_named_as_the_server_names_it(db: Database) -> None:
    db.execute(_MADE)
    db.execute("create table t (" + ", ".join(f"c{i} {t}" for i, t in enumerate(_TYPES)) + ")")
    names = [name for (name,) in db.execute("""
        set search_path = pg_catalog; select format_type(atttypid, atttypmod) from pg_attribute
        where attrelid = 'public.t'::regclass and attnum > 0 order by attnum""")]  # fmt: skip
    assert [a.type_name for a in db.one("t").attributes] == names


def test_every_base_type_of_the_server(db: Database) -> None:
    """All that pg_catalog has, also as arrays: what is not known by a spelling of its own prints as it is called."""
    rows = db.execute("""
        set search_path = pg_catalog; set quote_all_identifiers = off;
        select t.oid::int8, typname, typtype::text, format_type(t.oid, -1), format_type(typarray, -1), typlen
        from pg_type t where typnamespace = 'pg_catalog'::regnamespace and typarray <> 0""")
    assert len(rows) > 70
    for oid, name, kind, printed, printed_array, length in rows:
        type_ = PgType(oid, "pg_catalog", name, kind, length, "i", False)
        assert format_type(type_) == printed
        array = PgType(oid + 1, "pg_catalog", "_" + name, "b", -1, "i", False, element=type_)
        assert format_type(array) == printed_array


@pytest.mark.parametrize(
    ("typmod", "printed"),
    [
        (-1, "public.geometry"), (0, "public.geometry"), (4, "public.geometry(Point)"),
        ((4326 << 8) | 4, "public.geometry(Point,4326)"), ((4326 << 8) | (3 << 2) | 3, "public.geometry(PolygonZM,4326)"),
        (4326 << 8, "public.geometry(Geometry,4326)"),
    ],
)  # fmt: skip
def test_geometry(typmod: int, printed: str) -> None:
    """As PostGIS documents it."""
    assert format_type(PgType(1, "public", "geometry", "b", -1, "d", False), typmod) == printed
    assert format_type(PgType(1, "public", "vector", "b", -1, "i", False), 3) == "public.vector(3)"


def test_what_types_are_made_of(db: Database) -> None:
    db.execute(_MADE)
    db.execute("""create table t (m s.mood[], d "S""2"."größe", p s.pair, a s.amount, r s.span_multirange, x s."table",
        w s.plain_row, c point, n name, v int2vector, i int[][])""")
    types = {a.name: a for a in db.one("t").attributes}
    assert types["i"].dimensions == 2 and types["m"].dimensions == 1
    mood = types["m"].type.element  # type: ignore[union-attr]
    assert mood is not None and (mood.schema, mood.name, mood.kind) == ("s", "mood", "e")
    labels = db.execute("select oid::int8, enumlabel from pg_enum order by enumsortorder")
    assert list(mood.labels) == labels and [label for _, label in labels] == ["a", "b", "b2", "c"]
    outer = types["d"].type
    assert outer is not None and outer.kind == "d" and outer.base is not None and outer.base.base is not None
    assert outer.base.name == "order" and outer.base.base.name == "int4" and outer.base_typmod == -1
    pair = types["p"].type
    assert pair is not None and [f.dropped for f in pair.fields] == [False, True, False]
    assert pair.fields[0].dimensions == 1 and pair.fields[0].type is not None and pair.fields[2].type == mood
    assert pair.fields[0].type.element is not None and pair.fields[1].type is None
    amount = types["a"].type
    assert amount is not None and amount.base is not None and amount.base.name == "numeric"
    assert amount.base_typmod == (12 << 16 | 3) + 4
    spans = types["r"].type
    assert spans is not None and spans.kind == "m" and spans.range is not None and spans.range.kind == "r"
    assert spans.range.subtype is not None and spans.range.subtype.name == "float8" and spans.alignment == "d"
    table = types["x"].type
    assert (
        table is not None and table.base_dimensions == 2 and table.base is not None and table.base.element is not None
    )
    row = types["w"].type
    assert row is not None and [f.name for f in row.fields] == ["a", "b"]
    assert types["c"].type is not None and types["c"].type.element is None, "a point is no array of its floats"
    assert types["n"].type is not None and types["n"].type.element is None
    assert types["v"].type is not None and types["v"].type.element is not None
