"""Enums, domains, arrays, composites, ranges and the texts of simple types, decoded out of heap files, against the server.

Every column is compared as text with what ``column::text`` prints, and in its own form with what the server makes of
it as JSON. Rows are random: the seed is printed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.integration.support import database
from walshadow_core.api import Form, FormatError, RelationDescriptor
from walshadow_core.catalog.sql import read_catalog
from walshadow_core.decode.columns import DecodeOptions
from walshadow_core.decode.table import TableDecoder
from walshadow_core.pgformat.heap import PAGE_SIZE, PageWalker
from walshadow_core.pgformat.relpath import relation_path
from walshadow_core.testing.postgres import PostgresServer

ROWS = 1500
PAGES = 64
SETTINGS = (
    "set synchronize_seqscans = off; set max_parallel_workers_per_gather = 0; set datestyle = 'ISO';"
    " set timezone = 'UTC'; set client_encoding = 'UTF8'"
)

TYPES = r"""
create type mood as enum ('sad', 'ok', 'happy "x"', 'NULL', '', 'ä');
create type point3 as (x int, y text, z numeric(8,2));
create type thing as (a int, b text, c point3, d int[], e bool, f mood, g float8, h point3[], i timestamptz);
create domain positive as int check (value > 0);
create domain larger as positive check (value > 1);
create domain words as text[];
create domain place as point3;
create type floatrange as range (subtype = float8);
create type textrange as range (subtype = text, collation = "C");
create type placerange as range (subtype = point3);
create function pick(variadic a text[]) returns text volatile language sql as
  $$ select a[1 + floor(random() * array_length(a, 1))::int] $$;
create function word() returns text volatile language sql as $$ select case when random() < 0.9 then
  pick('', 'NULL', 'null', 'a b', 'x"y', 'q\w', '{', '}', '(', ')', '[', ']', ',', 'é', 'plain', E'\t', E'\v', E'\n',
    'nulls', repeat('long ', 40)) end $$;
create function number() returns int volatile language sql as
  $$ select case when random() < 0.9 then (random() * 4294967295 - 2147483648)::int8::int end $$;
create function moment() returns timestamp volatile language sql as $$ select case when random() < 0.05 then
  pick('infinity', '-infinity')::timestamp else timestamp '2000-01-01'
  + make_interval(days => (random() * 108000000 - 2400000)::int, secs => floor(random() * 86400 * 10 ^ 6) / 10 ^ 6) end $$;
create function places() returns point3 volatile language sql as
  $$ select case when random() < 0.9 then row(number(), word(), (random() * 1000)::numeric)::point3 end $$;
create function feel() returns mood volatile language sql as
  $$ select pick('sad', 'ok', 'happy "x"', 'NULL', '', 'ä')::mood $$;
"""
"""Volatile SQL functions, so that each row and each element is another."""

COLUMNS = {
    "mood": "feel()",
    "positive": "i",
    "larger": "i + 1",
    "mood[]": "array(select feel() from generate_series(1, i % 6))",
    "int[]": "array(select number() from generate_series(1, i % 9))",
    "bigint[]": "array(select number()::int8 * 1000 from generate_series(1, i % 4))",
    "smallint[]": "array(select (number() % 30000)::int2 from generate_series(1, i % 4))",
    "bool[]": "array(select number() > 0 from generate_series(1, i % 11))",
    "float8[]": "array(select random() * 10 ^ (number() % 300) from generate_series(1, i % 4))",
    "numeric(10,2)[]": "array(select (random() * 1000)::numeric from generate_series(1, i % 4))",
    "numeric[]": "array(select number() / 7.0 from generate_series(1, i % 3))",
    "text[]": "array(select word() from generate_series(1, i % 7))",
    "varchar[][]": "array[array[word(), word(), i::text], array[word(), word(), word()]]",
    "int[][][]": "array[[[i, number()], [number(), 1]], [[2, 3], [4, number()]]]",
    "uuid[]": "array(select gen_random_uuid() from generate_series(1, i % 3))",
    "name[]": "array(select word()::name from generate_series(1, i % 3))",
    "char(5)[]": "array['a', 'bcd', pick('', 'éé')]::char(5)[]",
    "larger[]": "array[i + 1, null, i + 2]::larger[]",
    "words": "array(select word() from generate_series(1, i % 4))",
    "words[]": "array[array[word(), 'x']::words, array[]::text[]::words]",
    "point3": "places()",
    "place": "places()",
    "point3[]": "array(select places() from generate_series(1, i % 4))",
    "thing": "row(number(), word(), places(), array[i, null], i % 2 = 0, feel(), random(), array[places(), null],"
    " date_trunc('second', now()))::thing",
}
"""Columns that are compared in both forms: type, and a value out of the row's number i."""

AS_TEXT = {
    "json[]": "array(select to_json(word()) from generate_series(1, i % 3))",
    "box[]": "array(select box(point(random(), i), point(2, random())) from generate_series(1, i % 4))",
    "bytea[]": "array(select decode(md5(i::text), 'hex') from generate_series(1, i % 3))",
    "timestamp[]": "array(select moment() from generate_series(1, i % 3))",
    "timestamptz": "moment() at time zone 'UTC'",
    "timestamp": "moment()",
    "date": "moment()::date",
    "time": "time '00:00' + random() * interval '1 day'",
    "bool": "i % 2 = 0",
    '"char"': 'chr(1 + i % 127)::"char"',
    "smallint": "(number() % 32768)::int2",
    "int": "number()",
    "bigint": "number()::int8 * number()",
    "oid": "(random() * 4294967295)::int8::oid",
    "uuid": "gen_random_uuid()",
    "bytea": "decode(md5(i::text), 'hex')",
    "numeric(20,3)": "random() * 1e10",
    "int4range": "int4range(i % 5 + least(number(), 2000000000), null, pick('[]', '()', '[)', '(]'))",
    "int8range": "int8range(i, i * 2 + 1, pick('[]', '()', '[)', '(]'))",
    "numrange": "numrange(i / 7.0, case when i % 3 > 0 then i end, '[]')",
    "tsrange": "tsrange(timestamp '2020-01-01' + i * interval '1 min', null)",
    "tstzrange": "tstzrange('-infinity', timestamp '2020-01-01' + i * interval '1 min', '[]')",
    "daterange": "daterange('2020-01-01', date '2020-01-02' + i)",
    "floatrange": "floatrange(random(), random() + 1)",
    "textrange": "textrange(least(word(), 'zz'), 'zz' || word(), pick('[]', '()', '[)', '(]'))",
    "placerange": "placerange(row(1, word(), 3)::point3, row(2, word(), null)::point3)",
    "int4multirange": "int4multirange(int4range(i, i + 1), int4range(i + 3, i + 5))",
    "textmultirange": "(select range_agg(textrange(chr(96 + k) || repeat('x', (random() * 200)::int), chr(96 + k) || 'y',"
    " '[]')) from generate_series(1, i % 20) k)",
    "nummultirange": "(select range_agg(numrange(k * 10, k * 10 + random()::numeric * 5, '[]'))"
    " from generate_series(1, i % 20) k)",
    "datemultirange": "datemultirange(daterange('2020-01-01', date '2020-01-02' + i), daterange(null, '1999-01-01'))",
    "int4range[]": "array[int4range(1, i + 2), null, 'empty']",
}

EXTREMES = {
    "int[]": ["{}", "{NULL}", "{-2147483648,2147483647}"],
    "text[]": ["{}", "{NULL}", '{"NULL",null}', '{"","\\\\","\\""}'],
    "int4range": ["empty", "(,)", "[-2147483648,2147483646]"],
    "int4multirange": ["{}", "{(,)}", "{(,1),[5,)}"],
    "textrange": ["empty", "(,)", '["",""]'],
    "date": ["4714-11-24 BC", "0001-01-01 BC", "0001-01-01", "5874897-12-31", "infinity", "-infinity"],
    "timestamp": ["4714-11-24 00:00:00 BC", "0001-12-31 23:59:59.999999 BC", "294276-12-31 23:59:59.999999"],
    "time": ["00:00", "24:00", "00:00:00.000001"],
    "bigint": ["-9223372036854775808", "9223372036854775807"],
    "point3": ["(,,)", '(1,"",)'],
}

OTHER_SHAPES = {
    "int[]": ["[0:1]={1,2}", "[-5:-4][2:2]={{1},{2}}", "[-2147483648:-2147483647]={1,NULL}", "[2147483645:2147483646]={1,2}"],
    "text[]": ["{{a,b},{NULL,\"NULL\"}}", "[2:3][0:0]={{\"a b\"},{c}}", "{{{{{{1}}}}}}"],
}  # fmt: skip
"""Values that a list can't hold."""


def column(name: str) -> str:
    return '"' + name.replace('"', "") + '"'


def heap(pg: PostgresServer, db: str, table: str) -> tuple[RelationDescriptor, np.ndarray]:
    pg.execute("checkpoint", database=db)
    snapshot = read_catalog(pg.dsn(db), [table])
    assert snapshot.refused == ()
    (relation,) = snapshot.relations
    return relation, np.fromfile(pg.data / relation_path(relation.locator), np.uint8)


def decode(relation: RelationDescriptor, pages: np.ndarray, form: Form) -> pa.Table:
    forms: dict[str, Form] = {a.name: form for a in relation.columns}
    decoder = TableDecoder(relation, DecodeOptions(), block_rows=1000, forms=forms)
    walker = PageWalker(PAGES)
    batches = []
    for start in range(0, len(pages), PAGES * PAGE_SIZE):
        part = pages[start : start + PAGES * PAGE_SIZE].copy()
        batches += decoder.append(part, walker.walk(part, start // PAGE_SIZE).data)
    last = decoder.finish()
    made = pa.Table.from_batches([*batches, *([last] if last else [])], decoder.schema)
    made.validate(full=True)
    return made


def select(pg: PostgresServer, db: str, relation: RelationDescriptor, expression: str) -> list[tuple[Any, ...]]:
    columns = ", ".join(expression.format(c=f'"{a.name}"') for a in relation.columns)
    with pg.connect(db) as connection:
        connection.execute(SETTINGS)
        return connection.execute(f"select {columns} from {relation.qualified_name}".encode()).fetchall()


def assert_texts(pg: PostgresServer, db: str, table: str, seed: float) -> None:
    relation, pages = heap(pg, db, table)
    got = decode(relation, pages, "text")
    rows = select(pg, db, relation, "{c}::text")
    assert got.num_rows == len(rows) > 0
    for c, attribute in enumerate(relation.columns):
        for k, (mine, theirs) in enumerate(zip(got.column(c).to_pylist(), (row[c] for row in rows), strict=True)):
            assert mine == theirs, f"{attribute.name}, row {k}, seed {seed}"


def as_json(value: Any) -> Any:
    """A decoded value as the server's to_json makes it."""
    if isinstance(value, list):
        return [as_json(v) for v in value]
    if isinstance(value, dict):
        return {name: as_json(v) for name, v in value.items()}
    if isinstance(value, bytes):
        return f"{value[:4].hex()}-{value[4:6].hex()}-{value[6:8].hex()}-{value[8:10].hex()}-{value[10:].hex()}"
    return value.isoformat() if hasattr(value, "isoformat") else value


def assert_own_forms(pg: PostgresServer, db: str, table: str, seed: float) -> None:
    relation, pages = heap(pg, db, table)
    got = decode(relation, pages, "own")
    rows = select(pg, db, relation, "to_json({c})::text")
    for c, attribute in enumerate(relation.columns):
        for k, (mine, theirs) in enumerate(zip(got.column(c).to_pylist(), (row[c] for row in rows), strict=True)):
            expected = theirs and json.loads(theirs, parse_float=Decimal)
            assert same(as_json(mine), expected), f"{attribute.name}, row {k}, seed {seed}"


def same(mine: Any, theirs: Any) -> bool:
    """Whether a decoded value and one out of JSON are the same, where JSON has numbers that may come as text."""
    if isinstance(theirs, list):
        return len(mine) == len(theirs) and all(map(same, mine, theirs))
    if isinstance(theirs, dict):
        return mine.keys() == theirs.keys() and all(same(mine[name], theirs[name]) for name in theirs)
    if isinstance(mine, float):
        return mine == float(theirs)
    if isinstance(theirs, Decimal | int) and isinstance(mine, Decimal | str):
        return Decimal(mine) == theirs
    return type(mine) is type(theirs) and mine == theirs


@pytest.fixture
def made(pg: PostgresServer) -> Iterator[tuple[PostgresServer, str, float]]:
    """(server, database with TYPES, seed of what is random)"""
    with database(pg, "template template0 encoding 'UTF8' locale 'C'") as db:
        pg.execute(TYPES, database=db)
        yield pg, db, random.uniform(-1, 1)


def fill(pg: PostgresServer, db: str, seed: float, table: str, columns: dict[str, str]) -> None:
    with pg.connect(db) as connection:
        connection.execute(f"select setseed({seed})".encode())
        names = ", ".join(f"{column(name)} {name}" for name in columns)
        connection.execute(f"create table {table} ({names})".encode())
        values = ", ".join(f"case when random() < 0.95 then {sql} end" for sql in columns.values())
        connection.execute(f"insert into {table} select {values} from generate_series(1, {ROWS}) i".encode())
        for name, extremes in EXTREMES.items():
            for value in extremes if name in columns else []:
                connection.execute(f"insert into {table} ({column(name)}) values (%s)".encode(), (value,))


def test_texts_and_own_forms(made: tuple[PostgresServer, str, float]) -> None:
    pg, db, seed = made
    fill(pg, db, seed, "lists", COLUMNS)
    assert_texts(pg, db, "lists", seed)
    assert_own_forms(pg, db, "lists", seed)
    fill(pg, db, seed, "texts", AS_TEXT)
    assert_texts(pg, db, "texts", seed)


def test_what_a_list_can_not_hold_is_right_as_text(made: tuple[PostgresServer, str, float]) -> None:
    pg, db, seed = made
    with pg.connect(db) as connection:
        connection.execute(
            f"create table shapes ({', '.join(f'{column(name)} {name}' for name in OTHER_SHAPES)})".encode()
        )
        for name, values in OTHER_SHAPES.items():
            for value in values:
                connection.execute(f"insert into shapes ({column(name)}) values (%s)".encode(), (value,))
    assert_texts(pg, db, "shapes", seed)
    with pytest.raises(FormatError, match=r"--type …=String"):
        decode(*heap(pg, db, "shapes"), "own")


def test_composites_whose_type_changed_and_compressed_fields(made: tuple[PostgresServer, str, float]) -> None:
    pg, db, seed = made
    with pg.connect(db) as connection:
        connection.execute("create table long (t text)")
        connection.execute("insert into long select repeat('ab,\"c', 1500)")
        # The text is compressed in its row, and stays so inside of the composites.
        connection.execute("create table changed (p point3, t thing, a point3[])")
        connection.execute(
            "insert into changed select row(1, t, 2)::point3, row(1, t, row(3, t, 4)::point3, null, null, null, null,"
            " array[row(3, t, 4)::point3], null)::thing, array[row(1, t, 2)::point3] from long"
        )
        connection.execute("insert into changed select places(), null, array[places()] from generate_series(1, 50)")
        connection.execute("alter type point3 drop attribute x cascade")
        connection.execute("alter type point3 add attribute w bigint cascade")
        connection.execute("insert into changed (p) select row(word(), 7, 8)::point3 from generate_series(1, 50)")
    assert_texts(pg, db, "changed", seed)
    assert_own_forms(pg, db, "changed", seed)


def test_row_types_of_tables_with_generated_columns(pg_newest: PostgresServer) -> None:
    if pg_newest.major < 18:
        pytest.skip("virtual generated columns came with 18")
    with database(pg_newest) as db:
        pg_newest.execute(
            "create table v (a int, b int generated always as (a * 2) virtual, c text);"
            " insert into v values (1, default, 'x'), (2, default, 'y');"
            " create table w (x v); insert into w select v from v; insert into w select row(a, b, c)::v from v",
            database=db,
        )
        assert_texts(pg_newest, db, "w", 0)
