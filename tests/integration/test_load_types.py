"""Tables of every type, loaded and compared with what the server says of the same rows.

String columns are compared with what the type's output function prints, lists with what psycopg makes of arrays; and
all of it by ``walshadow verify``, whose comparison of bits is a third opinion.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
import pytest

from tests.conftest import EmbeddedClickHouse
from tests.integration.support import Run, assert_equal, database, load
from walshadow_core.testing.postgres import PostgresServer

SETUP = """
create type mood as enum ('sad', 'ok', 'it''s "naïve"');
alter type mood add value 'first' before 'sad';
create domain amount as numeric(12, 2) check (value > -1000000);
create domain deep as amount;
create domain numbers as int[];
create domain grid as int[][];
create type pair as (n int, dropped int, "the text" text, list int[], d date);
alter type pair drop attribute dropped;
create type inner_row as (p pair, m mood);
"""

STRINGS: dict[str, tuple[str, ...]] = {
    "mood": ("'sad'", "'first'", "'it''s \"naïve\"'"),
    "jsonb": ("'{\"b\": 1, \"a\": [1, null, {\"x\": 1.50}]}'", "'[]'", "'\"é\\n\"'", "'null'", "'1e3'"),
    "json": ("'{ \"b\":1}'",),
    "xml": ("'<a b=\"1\">é</a>'",),
    "refcursor": ("'c'",),
    "inet": ("'10.0.0.1'", "'10.1.0.0/16'", "'::1'", "'2001:db8::/32'"),
    "cidr": ("'10.0.0.0/8'", "'2001:db8::/32'"),
    "macaddr": ("'08:00:2b:01:02:03'",),
    "macaddr8": ("'08:00:2b:01:02:03:04:05'",),
    "bit(5)": ("B'10101'",),
    "varbit": ("B''", "B'1010101010101'"),
    "point": ("'(1.5,-2)'",),
    "line": ("'{1,2,3}'",),
    "lseg": ("'[(0,0),(1,1)]'",),
    "box": ("'(2,2),(1,1)'",),
    "path": ("'((0,0),(1,1),(2,0))'", "'[(0,0),(1,1)]'"),
    "polygon": ("'((0,0),(1,1),(2,0))'",),
    "circle": ("'<(0,0),5>'",),
    "tsvector": ("'''a b'':1A,3 c:2'", "''"),
    "tsquery": ("'a & !b | (c <-> d:*A)'", "''"),
    "jsonpath": ("'$.a[*] ? (@.b > 1)'",),
    "pg_snapshot": ("'10:20:10,14,15'",),
    "txid_snapshot": ("'10:20:10,14,15'",),
    "pg_lsn": ("'16/B374D848'",),
    "tid": ("'(1,2)'",),
    "int4range": ("'[1,5)'", "'empty'", "'(,)'"),
    "numrange": ("'(1.50,)'",),
    "tsrange": ("'[2020-01-01 00:00:00,infinity]'",),
    "int4multirange": ("'{[1,3),[5,7)}'", "'{}'"),
    "pair": ("row(1, 'x,\"y', '{1,NULL}', '2020-01-01')", "row(null, null, null, null)"),
    "pair[]": ("array[row(1, 'x', '{1}', null)::pair, null]", "'{}'"),
    "inner_row": ("row(row(1, 'x', '{}', null)::pair, 'sad')",),
}  # fmt: skip
"""Types that land in a String, in any form, with values."""

LISTS: dict[str, tuple[str, ...]] = {
    "int[]": ("'{}'", "'{1,NULL,-2147483648}'", "array_fill(7, '{3000}')"),
    "int2[]": ("'{1,2}'",),
    "int8[]": ("'{9223372036854775807,NULL}'",),
    "bool[]": ("'{t,f,NULL}'",),
    "float8[]": ("'{1.5,-0,Infinity,5e-324}'",),
    "text[]": ("array['a', null, '', 'NULL', 'é \\\" {},']", "array[repeat('x', 5000)]"),
    "varchar(5)[]": ("'{abc}'",),
    "uuid[]": ("'{61f0c404-5cb3-11e7-907b-a6006ad3dba0,NULL}'",),
    "numeric(12,2)[]": ("'{1.50,NULL,-9999999999.99}'",),
    "numeric[]": ("'{1.50,NULL,1e100,NaN}'",),
    "date[]": ("'{2020-02-29,NULL}'",),
    "timestamp(3)[]": ("'{2020-02-29 12:00:00.123,NULL}'",),
    "timestamptz[]": ("'{2020-02-29 12:00:00.123456+00}'",),
    "bytea[]": ("array['\\x00ff'::bytea, null]",),
    "interval[]": ("'{1 day,NULL}'",),
    "mood[]": ("'{sad,NULL,first}'",),
    "amount[]": ("'{1.50,NULL}'",),
    "numbers": ("'{1,2}'",),
    "grid": ("'{{1,2},{3,NULL}}'",),
    "jsonb[]": ("array['{\"a\": 1}'::jsonb, null]",),
    "int4range[]": ("'{\"[1,2)\",NULL}'",),
    "oidvector": ("'1 2'", "''"),
    "int2vector": ("'1 -2'", "''"),
    "int[][]": ("'{{1,2},{NULL,4}}'", "'{}'", "'{{1}}'"),
    "text[][][]": ("'{{{a},{b}},{{c},{NULL}}}'",),
}  # fmt: skip
"""Types that land in an Array."""

NUMBERS: dict[str, tuple[str, ...]] = {
    "money": ("'-92233720368547758.08'::text::money", "'12.34'::text::money"),
    "xid": ("'4294967295'",),
    "cid": ("'7'",),
    "xid8": ("'18446744073709551615'",),
    "regclass": ("'pg_class'",),
    "regtype": ("'int4'",),
    "regproc": ("'now'",),
    "regnamespace": ("'pg_catalog'",),
    "amount": ("1.50",),
    "deep": ("-99999.99",),
}
"""Types that land in a number."""

TYPES = {**STRINGS, **LISTS, **NUMBERS}

SCALARS: dict[str, tuple[str, ...]] = {
    "bool": ("true", "false"),
    "truth": ("true",),
    '"char"': ("'a'", "''"),
    "int2": ("-32768",),
    "int4": ("2147483647",),
    "int8": ("-9223372036854775808",),
    "oid": ("4294967295",),
    "float4": ("'-Infinity'", "1e-45", "'NaN'"),
    "float8": ("0.1", "5e-324", "1e22"),
    "numeric(12, 2)": ("1.50", "'NaN'"),
    "numeric": ("1.10",),
    "date": ("'0044-03-15 BC'", "'infinity'", "'2024-02-29'"),
    "time": ("'24:00:00'", "'12:00:00.000001'"),
    "timestamp": ("'-infinity'", "'294276-12-31 23:59:59.999999'", "'1969-12-31 23:59:59.5'"),
    "timestamptz": ("'2024-02-29 12:00:00.000001+02'",),
    "timestamp(0)": ("'2024-02-29 12:00:00'",),
    "uuid": ("'61f0c404-5cb3-11e7-907b-a6006ad3dba0'",),
    "interval": ("'1 mon -2 days'",),
    "name": ("'n'",),
}  # fmt: skip
"""Types that have an own form since the beginning, here as text."""


def has_xml(pg: PostgresServer) -> bool:
    """Whether the server was built with libxml."""
    try:
        pg.execute("select '<a/>'::xml")
    except psycopg.errors.FeatureNotSupported:
        return False
    return True


def make_table(pg: PostgresServer, db: str, types: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Table ``t``: a row per value, all else NULL, and a row of NULLs; gives the name of each type's column."""
    columns = {kind: f"c{number}" for number, kind in enumerate(types)}
    listed = ", ".join(f"{name} {kind}" for kind, name in columns.items())
    pg.execute(f"{SETUP} create table t (id int primary key, {listed}); insert into t values (0)", database=db)
    values = [(columns[kind], value) for kind, many in types.items() for value in many if kind != "xml" or has_xml(pg)]
    pg.execute(
        ";".join(f"insert into t (id, {name}) values ({i}, {value})" for i, (name, value) in enumerate(values, 1)),
        database=db,
    )
    return columns


def as_read(value: Any) -> Any:
    """A value without regard to how a client gives it back."""
    if isinstance(value, list | tuple):
        return [as_read(v) for v in value]
    if isinstance(value, float):
        return str(value)
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
    return value.encode() if isinstance(value, str) else value


def printed(pg: PostgresServer, db: str, expression: str) -> list[Any]:
    """An expression of every row of ``t``, as text, under the settings that texts are loaded by."""
    pinned = "set datestyle = iso; set intervalstyle = postgres; set timezone = 'UTC'; set extra_float_digits = 1"
    return [as_read(v) for (v,) in pg.execute(f"{pinned}; select {expression} from t order by id", database=db)]


def landed(to: EmbeddedClickHouse, expression: str) -> list[Any]:
    """An expression of every row at the destination."""
    return [as_read(v) for (v,) in to.rows(f"select {expression} from {to.database}.t order by id")]


def test_every_type(pg: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run) -> None:
    """NULL, empty and extreme values, on every major."""
    with database(pg) as db:
        columns = make_table(pg, db, TYPES)
        done = load(walshadow, pg, db, clickhouse, "--table", "t")
        assert done.code == 0, done.err
        for kind in STRINGS:
            name = columns[kind]
            shown = f"case when num_nulls({name}) = 0 then concat({name}) end"
            assert landed(clickhouse, f"toString({name})") == printed(pg, db, shown), kind
        for kind in ("int[]", "int8[]", "bool[]", "text[]", "float8[]", "numeric(12,2)[]", "date[]", "timestamptz[]",
                     "int[][]", "text[][][]", "numbers", "grid"):  # fmt: skip
            name = columns[kind]
            assert landed(clickhouse, name) == printed(pg, db, f"coalesce({name}, '{{}}')"), kind
        checked = assert_equal(walshadow, pg, db, clickhouse, "t")
        assert checked.json["not_compared"] == {}
        assert checked.json["adjusted"] == {
            columns[kind]: checked.json["source_rows"] - len(values) for kind, values in LISTS.items()
        }


def test_every_type_as_text(pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run) -> None:
    """String takes any type, as its cast to text prints it; NULL arrays stay NULL."""
    with database(pg_newest) as db:
        pg_newest.execute("create domain truth as bool", database=db)
        columns = make_table(pg_newest, db, {**TYPES, **SCALARS})
        words = [word for name in columns.values() for word in ("--type", f"t.{name}=String")]
        done = load(walshadow, pg_newest, db, clickhouse, "--table", "t", *words)
        assert done.code == 0, done.err
        assert not done.json["tables"][0]["adjusted"]
        for kind, name in columns.items():
            shown = f"{name}::text"
            if kind == "inet":  # a string of its own, as its output function prints it
                shown = f"case when {name} is not null then concat({name}) end"
            elif kind.startswith("reg"):  # only the source has the names
                shown = f"{name}::oid::text"
            assert landed(clickhouse, name) == printed(pg_newest, db, shown), kind
        assert assert_equal(walshadow, pg_newest, db, clickhouse, "t").json["adjusted"] == {}


def test_what_is_chosen_for_columns(pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run) -> None:
    """Said by the dry run, done by the load, seen by verify; taken over by the next load."""
    pg = pg_newest
    with database(pg) as db:
        pg.execute(
            'create schema app; create table app."Orders" (id int primary key, amount numeric(12, 2), note text,'
            " data jsonb, tags int[], strict int not null);"
            """insert into app."Orders" values (1, 1.5, 'x', '{"a": 1}', '{1}', 7), (2, null, null, '{}', '{}', 8)""",
            database=db,
        )
        table = 'app."Orders"'
        words = (
            "--table", table, "--exclude", f"{table}.note", "--type", f"{table}.amount=Decimal(38,4)",
            "--type", f"{table}.data=JSON", "--type", f"{table}.tags=Array(Int64)", "--not-null", f"{table}.tags",
            "--nullable", f"{table}.strict",
        )  # fmt: skip
        (planned,) = load(walshadow, pg, db, clickhouse, *words, "--dry-run").json["tables"]
        assert planned["excluded"] == ["note"]
        assert {c["name"]: (c["destination"], c["form"]) for c in planned["columns"]} == {
            "id": ("Int32", "own"), "amount": ("Nullable(Decimal(38, 4))", "own"), "data": ("Nullable(JSON)", "own"),
            "tags": ("Array(Int64)", "own"), "strict": ("Nullable(Int32)", "own"),
        }  # fmt: skip
        assert load(walshadow, pg, db, clickhouse, *words).code == 0
        there = f"{clickhouse.database}.`Orders`"
        assert clickhouse.rows(f"select id, toString(amount), tags, strict from {there} order by id") == [
            (1, "1.5", [1], 7), (2, None, [], 8),
        ]  # fmt: skip
        checked = assert_equal(walshadow, pg, db, clickhouse, table)
        assert set(checked.json["not_compared"]) == {"note", "data"}
        assert "note: not compared: there is no such column" in checked.err
        again = load(walshadow, pg, db, clickhouse, "--table", table, "--exclude", "orders.note")
        assert again.code == 2 and 'did you mean app."Orders".note?' in again.err
        again = load(walshadow, pg, db, clickhouse, *words)
        assert again.code == 0, again.err
        pg.execute("update app.\"Orders\" set amount = 2.5, note = 'y' where id = 1", database=db)
        found = walshadow("verify", "--source", pg.dsn(db), "--to", clickhouse.url, "--table", table, "--json")
        assert (found.code, found.json["changed"]) == (4, 1)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--type", "t.n=Int32"), 1, "column 'n': Int32 does not hold bigint (Int64)"),
        (("--type", "t.n=Int"), 1, "column 'n': Int does not hold bigint"),
        (("--type", "t.odd=Int8"), 1, "Int8 does not hold aclitem"),
        (("--exclude", "t.id"), 2, "--exclude t.id: it is in the key of public.t"),
        (("--nullable", "t.id"), 1, "it is in the key, which can't be NULL"),
        (("--exclude", "t.m"), 2, "public.t has no such column"),
        ((), 1, "column 'odd': it is of type aclitem, which has no ClickHouse type here; --type for it with hex"),
        (("--not-null", "t.n", "--type", "t.odd=hex"), 3, "'n' holds NULL, its destination can't"),
    ],
)
def test_choices_that_are_refused(
    pg_newest: PostgresServer,
    clickhouse: EmbeddedClickHouse,
    walshadow: Run,
    words: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    """Before anything is read, but for NULLs, which only the rows can tell."""
    with database(pg_newest) as db:
        pg_newest.execute("create table t (id int primary key, n bigint, odd aclitem)", database=db)
        pg_newest.execute("insert into t values (1)", database=db)
        done = load(walshadow, pg_newest, db, clickhouse, "--table", "t", *words)
        assert message in done.err + done.out and done.code in (code, 1 if code == 3 else code), done.err
        assert "t" not in clickhouse.tables()


def test_the_bytes_of_a_type_that_nobody_knows(
    pg: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    """As hex, where the user asks for that; verify says that it can't compare them."""
    with database(pg) as db:
        pg.execute("create table t (id int primary key, odd aclitem)", database=db)
        pg.execute("insert into t values (1, 'postgres=r/postgres'), (2, null)", database=db)
        done = load(walshadow, pg, db, clickhouse, "--table", "t", "--type", "t.odd=hex")
        assert done.code == 0, done.err
        found, null = landed(clickhouse, "odd")
        # Grantee, grantor, and the right to SELECT.
        assert found.startswith(b"0a0000000a00000002000000") and null is None
        checked = assert_equal(walshadow, pg, db, clickhouse, "t")
        assert checked.json["not_compared"] == {"odd": "nothing at the source prints the bytes that are stored"}
