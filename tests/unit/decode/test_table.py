"""TableDecoder: real tables of real servers against what SELECT says, and the rules of blocks and errors."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Literal

import numba
import numpy as np
import psycopg
import pyarrow as pa
import pytest

from walshadow_core.api import (
    Attribute,
    Bytes,
    FormatError,
    RelationDescriptor,
    RelFileLocator,
    TableRefused,
)
from walshadow_core.catalog.sql import read_catalog
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.columns import DecodeOptions
from walshadow_core.decode.table import TableDecoder, decodable
from walshadow_core.decode.warmup import kernels, warmup
from walshadow_core.pgformat.heap import HEAP_XMAX_INVALID, PAGE_SIZE, PageWalker, TupleData
from walshadow_core.testing.postgres import PostgresServer, available_majors

COMPILED = not numba.config.DISABLE_JIT
needs_compiler = pytest.mark.skipif(not COMPILED, reason="a whole table is too much for interpreted kernels")


# ---------------------------------------------------------------------------------------------- real tables


@pytest.fixture
def schema(pg: PostgresServer) -> Iterator[str]:
    name = f"decode_{random.randrange(10**9)}"
    pg.execute(f"create schema {name}")
    yield name
    pg.execute(f"drop schema {name} cascade")


def describe(pg: PostgresServer, table: str) -> RelationDescriptor:
    snapshot = read_catalog(pg.dsn(), [table])
    assert not snapshot.refused, snapshot.refused
    return snapshot.relations[0]


def heap_pages(pg: PostgresServer, table: str) -> Bytes:
    pg.execute("checkpoint")
    path = pg.execute("select pg_relation_filepath(%s::regclass)", (table,))[0][0]
    return np.fromfile(pg.data / path, np.uint8)


def decoded(pg: PostgresServer, table: str, *, pages_at_a_time: int = 4, **limits: int) -> list[pa.RecordBatch]:
    """Every row of a table without dead tuples (those with a valid xmax are left out)."""
    pages = heap_pages(pg, table)
    walker = PageWalker(pages_at_a_time)
    decoder = TableDecoder(describe(pg, table), DecodeOptions(), **limits)
    batches = []
    for start in range(0, pages.size, pages_at_a_time * PAGE_SIZE):
        buf = pages[start : start + pages_at_a_time * PAGE_SIZE]
        walk = walker.walk(buf, start // PAGE_SIZE)
        assert not walk.damage
        live = (walk.headers.infomask & HEAP_XMAX_INVALID) != 0
        batches += decoder.append(buf, walk.data.take(live))
    last = decoder.finish()
    return batches if last is None else [*batches, last]


def rows_of(batches: list[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    for batch in batches:
        batch.validate(full=True)
    return [row for batch in batches for row in zip(*[c.to_pylist() for c in batch.columns], strict=True)]


def selected(pg: PostgresServer, table: str, columns: str = "*") -> list[tuple[Any, ...]]:
    with psycopg.connect(pg.dsn()) as connection:
        connection.execute("set timezone = 'UTC'")
        return connection.execute(f"select {columns} from {table} order by ctid").fetchall()


TYPES = {
    "b": ("bool", "g % 3 = 0"),
    "c": ('"char"', 'chr(65 + g % 26)::"char"'),
    "s": ("int2", "(g * 37 % 60000 - 30000)::int2"),
    "i": ("int4", "g * 1000003 - 7"),
    "l": ("int8", "g::int8 * 10000000019 - 5"),
    "f": ("float4", "g / 8.0::float4"),
    "d": ("float8", "g / 3.0::float8"),
    "n": ("numeric(12,2)", "(g * 37 % 100000) / 100.0 - 400"),
    "t": ("text", "repeat('ab', g % 5) || g"),
    "v": ("varchar(300)", "repeat('xyz', g % 90)"),
    "p": ("char(7)", "'p' || g % 100"),
    "y": ("bytea", "decode(lpad(to_hex(g), 8, '0'), 'hex')"),
    "m": ("name", "'name ' || g"),
    "e": ("date", "date '1990-01-01' + g"),
    "z": ("timestamptz", "timestamptz '2024-01-01 00:00Z' + g * interval '1.5s'"),
    "u": ("uuid", "md5(g::text)::uuid"),
    "j": ("json", "json_build_object('k', g)"),
    "o": ("oid", "g::oid"),
    "x": ("time", "time '00:00' + g * interval '1.000001s'"),
}
COMPARE = {"c": "ascii(c::text)", "u": "decode(replace(u::text, '-', ''), 'hex')", "j": "j::text", "m": "m::text"}


@needs_compiler
@pytest.mark.parametrize("seed", range(4))
def test_column_orders_nulls_drops_and_defaults_read_as_select_does(pg: PostgresServer, schema: str, seed: int) -> None:
    """Alignment: random column orders, random nulls, dropped columns, columns that were added later."""
    rng = random.Random(f"{seed} orders")
    order = rng.sample(sorted(TYPES), rng.randint(6, len(TYPES)))
    late = rng.sample(order, 2)
    early = [c for c in order if c not in late]
    gone = [f"gone{k}" for k in range(3)]
    table = f"{schema}.t"
    columns = [f"{c} {TYPES[c][0]}" for c in early]
    for name, of in zip(gone, ("text", "int2", "char(3)"), strict=True):
        columns.insert(rng.randrange(len(columns) + 1), f"{name} {of}")
    pg.execute(f"create table {table} ({', '.join(columns)})")
    names = [c.split()[0] for c in columns]

    def values(g: str, all_names: list[str]) -> str:
        out = []
        for name in all_names:
            if name in gone:
                out.append(f"nullif('g', case when {g} % 2 = 0 then 'g' end)" if name != "gone1" else "7")
            else:
                chance = rng.choice([0, 0, 3, 7])
                value = f"({TYPES[name][1]})::{TYPES[name][0]}"
                out.append(f"case when ({g} * 7919 + {rng.randrange(1000)}) % 10 >= {chance} then {value} end")
        return ", ".join(out)

    pg.execute(f"insert into {table} select {values('g', names)} from generate_series(1, 700) g")
    pg.execute(f"alter table {table} drop column gone0")
    for column in late:
        default = pg.execute(f"select ({TYPES[column][1]})::{TYPES[column][0]}::text from (values (77)) v(g)")[0][0]
        pg.execute(f"alter table {table} add column {column} {TYPES[column][0]} default '{default}'")
    pg.execute(f"alter table {table} drop column gone1, drop column gone2")
    live = [c for c in names if c not in gone] + late
    pg.execute(f"insert into {table} ({', '.join(live)}) select {values('g', live)} from generate_series(701, 900) g")
    expected = selected(pg, table, ", ".join(COMPARE.get(c, c) for c in live))
    assert len(expected) == 900
    assert rows_of(decoded(pg, table)) == expected, f"column order {live}"
    assert rows_of(decoded(pg, table, block_rows=64)) == expected


@needs_compiler
def test_virtual_generated_columns_take_no_room(server_of: Callable[[int], PostgresServer]) -> None:
    if 18 not in available_majors():
        pytest.skip("virtual generated columns came with Postgres 18")
    pg = server_of(18)
    pg.execute("drop table if exists virt; create table virt(a int, v int generated always as (a + 1) virtual, b text)")
    pg.execute("insert into virt(a, b) select g, 'b' || g from generate_series(1, 50) g")
    pg.execute("insert into virt(a, b) select null, null from generate_series(1, 50) g")
    pg.execute("alter table virt add column w int8 generated always as (a * 2) virtual, add column c int8 default 5")
    batches = decoded(pg, "virt")
    assert batches[0].schema.names == ["a", "b", "c"]
    assert rows_of(batches) == selected(pg, "virt", "a, b, c")


@needs_compiler
def test_a_table_without_columns_has_its_rows(pg: PostgresServer, schema: str) -> None:
    pg.execute(f"create table {schema}.none(); insert into {schema}.none select from generate_series(1, 1000)")
    assert [b.num_rows for b in decoded(pg, f"{schema}.none", block_rows=300)] == [300, 300, 300, 100]
    pg.execute(f"create table {schema}.gone(a int, b text); insert into {schema}.gone values (1, 'x'), (null, 'y')")
    pg.execute(f"alter table {schema}.gone drop column a, drop column b")
    assert [b.num_rows for b in decoded(pg, f"{schema}.gone")] == [2]


@needs_compiler
@pytest.mark.parametrize("block_bytes", [1 << 20, 5000])
def test_values_compressed_in_line(pg: PostgresServer, schema: str, block_bytes: int) -> None:
    """In several columns, between plain ones and NULLs; a block has about as many bytes as it may."""
    pg.execute(f"create table {schema}.big(a int, body text, data bytea, n numeric, last text)")
    pg.execute(f"alter table {schema}.big alter body set storage main, alter data set storage main")
    pg.execute(
        f"""insert into {schema}.big select g, case when g % 7 > 0 then repeat(md5(g::text), g % 90) end,
            case when g % 3 > 0 then convert_to(repeat('abc' || g, g * 11 % 700), 'UTF8') end,
            (case when g % 2 = 0 then repeat(g::text, 3000) else g::text end)::numeric, 'x' || g
            from generate_series(1, 300) g"""
    )
    batches = decoded(pg, f"{schema}.big", block_bytes=block_bytes)
    expected = selected(pg, f"{schema}.big", "a, body, data, n::text, last")
    assert rows_of(batches) == expected
    compressed = "select count(*) from {}.big where pg_column_compression({}) is not null"
    assert all(pg.execute(compressed.format(schema, c))[0][0] > 50 for c in ("body", "data", "n"))
    if block_bytes == 5000:
        assert len(batches) > 100
        assert max(b.nbytes for b in batches) < 60_000


@needs_compiler
def test_values_out_of_line_need_their_relation(pg_newest: PostgresServer) -> None:
    pg = pg_newest
    pg.execute("drop table if exists outside; create table outside(a int, body text, skipped text)")
    pg.execute("alter table outside alter body set storage external, alter skipped set storage external")
    pg.execute("insert into outside values (1, 'short', repeat('y', 9000)), (2, repeat('x', 9000), 'z')")
    with pytest.raises(FormatError, match='column "body": a pointer to TOAST') as error:
        decoded(pg, "outside")
    assert error.value.tuple_index == 1
    relation = dataclasses.replace(describe(pg, "outside"), excluded=frozenset([3]))
    pages = heap_pages(pg, "outside")
    walk = PageWalker(4).walk(pages, 0)
    decoder = TableDecoder(relation, DecodeOptions())
    assert decoder.outside(pages, walk.data).tolist() == [False, True]
    decoder.append(pages, walk.data.take(np.array([0])))
    assert rows_of([decoder.finish()]) == [(1, "short")]


@needs_compiler
def test_a_real_load_compiles_nothing_after_the_warm_up(pg_newest: PostgresServer) -> None:
    pg = pg_newest
    pg.execute("drop table if exists warm")
    pg.execute(f"create table warm({', '.join(f'{k} {v[0]}' for k, v in TYPES.items())})")
    values = ", ".join(f"({v[1]})::{v[0]}" for v in TYPES.values())
    pg.execute(f"insert into warm select {values} from generate_series(1, 500) g")
    pg.execute("insert into warm default values")
    pg.execute("alter table warm add n1 numeric, add n2 numeric(50,3) default 1.5, add z1 timetz, add i1 interval")
    pg.execute("insert into warm(n1, n2, z1, i1) values ('NaN', 1, '12:00+02', '1 day'), (1.50, 2, '00:00Z', '-1 mon')")
    asked = []
    warmup(progress=asked.append)
    assert asked[0] == "text" and len(asked) == len(set(asked))
    before = {name: list(kernel.signatures) for name, kernel in kernels()}
    assert sum(map(len, before.values())) > 15
    decoded(pg, "warm")
    after = {name: list(kernel.signatures) for name, kernel in kernels()}
    assert after == before


# --------------------------------------------------------------------------------------- tuples made by hand


def attribute(number: int, name: str, type_oid: int, length: int, align: str, **more: Any) -> Attribute:
    given = {"typmod": -1, "not_null": False, **more}
    return Attribute(
        number=number, name=name, type_oid=type_oid, type_name=given.pop("type_name", name), length=length,
        alignment=align, by_value=length > 0, storage="p", **given,
    )  # fmt: skip


def relation(*attributes: Attribute, encoding: str = "UTF8") -> RelationDescriptor:
    return RelationDescriptor(
        oid=1, database="d", schema="app", name="things", locator=RelFileLocator(1663, 5, 7), kind="r",
        persistence="p", replica_identity="d", key=(), attributes=attributes, encoding=encoding,
    )  # fmt: skip


def tuples(*bodies: bytes, natts: int) -> tuple[Bytes, TupleData]:
    """Tuples without nulls, one after the other, each at a multiple of 8."""
    starts, ends, data = [], [], bytearray()
    for body in bodies:
        starts.append(len(data))
        data += body
        ends.append(len(data))
        data += bytes(-len(data) % 8)
    n = len(bodies)
    return np.frombuffer(data, np.uint8), TupleData(
        np.array(starts, np.int32), np.zeros(n, np.int32), np.full(n, natts, np.int32), np.zeros(n, np.uint8),
        np.array(ends, np.int32),
    )  # fmt: skip


def short(text: bytes) -> bytes:
    return bytes((2 * len(text) + 3,)) + text


TWO = relation(attribute(1, "id", oid.INT4, 4, "i", not_null=True), attribute(2, "word", oid.TEXT, -1, "i"))


def two(number: int, word: str) -> bytes:
    return number.to_bytes(4, "little") + short(word.encode())


def test_batches_are_cut_at_block_rows() -> None:
    decoder = TableDecoder(TWO, DecodeOptions(), block_rows=3)
    assert decoder.finish() is None
    batches = decoder.append(*tuples(*[two(k, f"w{k}") for k in range(7)], natts=2))
    assert [b.num_rows for b in batches] == [3, 3]
    batches += decoder.append(*tuples(two(7, "w7"), natts=2))
    batches.append(decoder.finish())
    assert rows_of(batches) == [(k, f"w{k}") for k in range(8)]
    assert batches[0].schema == decoder.schema
    assert decoder.schema == pa.schema([pa.field("id", pa.int32(), nullable=False), pa.field("word", pa.string())])
    assert decoder.finish() is None


def test_batches_are_cut_at_block_bytes_and_stay_as_they_were() -> None:
    decoder = TableDecoder(TWO, DecodeOptions(), block_bytes=100)
    batches: list[pa.RecordBatch] = []
    for k in range(20):
        batches += decoder.append(*tuples(two(k, "x" * 40), natts=2))
    assert [b.num_rows for b in batches] == [3] * 6
    assert rows_of(batches) == [(k, "x" * 40) for k in range(18)]


def test_long_missing_values_are_not_multiplied_beyond_a_block() -> None:
    late = attribute(2, "word", oid.TEXT, -1, "i", missing=b"m" * 1000)
    decoder = TableDecoder(relation(TWO.attributes[0], late), DecodeOptions(), block_bytes=10_000)
    batches = decoder.append(*tuples(*[k.to_bytes(4, "little") for k in range(95)], natts=1))
    assert [b.num_rows for b in batches] == [10] * 9
    assert rows_of([*batches, decoder.finish()]) == [(k, "m" * 1000) for k in range(95)]


def test_a_bad_tuple_is_named_by_its_index() -> None:
    decoder = TableDecoder(TWO, DecodeOptions(), block_rows=2)
    bodies = [two(k, "word") for k in range(5)]
    bodies[3] = bodies[3][:-1]
    with pytest.raises(FormatError, match="past the end of the tuple") as caught:
        decoder.append(*tuples(*bodies, natts=2))
    assert caught.value.tuple_index == 3  # type: ignore[attr-defined]
    with pytest.raises(
        FormatError, match=r"more attributes than the table; if the table was altered .* load again"
    ) as caught:
        TableDecoder(TWO, DecodeOptions()).append(*tuples(two(1, "a"), natts=3))
    assert caught.value.tuple_index == 0  # type: ignore[attr-defined]


def test_a_bad_value_is_named_by_column_and_index() -> None:
    flags = relation(attribute(1, "flag", oid.BOOL, 1, "c", type_name="boolean"))
    decoder = TableDecoder(flags, DecodeOptions())
    with pytest.raises(FormatError, match='column "flag": not a value of bool') as caught:
        decoder.append(*tuples(b"\0", b"\1", b"\2", natts=1))
    assert caught.value.tuple_index == 2  # type: ignore[attr-defined]


def test_invalid_text_is_never_replaced_in_a_key() -> None:
    """Two keys would become one, and a row be lost."""
    columns = attribute(1, "id", oid.TEXT, -1, "i"), attribute(2, "t", oid.TEXT, -1, "i")
    table = dataclasses.replace(relation(*columns), key=(1,))

    def decoded(key: bytes, policy: Literal["replace", "bytes"]) -> list[tuple[Any, ...]]:
        decoder = TableDecoder(table, DecodeOptions(invalid_text=policy))
        decoder.append(*tuples(b"\x05" + key + b"\x05\xff", natts=2))
        return rows_of([decoder.finish()])

    assert decoded(b"k", "replace") == [("k", "\ufffd")]
    assert decoded(b"\xff", "bytes") == [(b"\xff", b"\xff")]
    with pytest.raises(FormatError, match=r'column "id": .* bytes, or \(not in a key\) replace'):
        decoded(b"\xff", "replace")


def test_a_missing_value_of_the_wrong_width_is_an_error() -> None:
    late = attribute(2, "late", oid.INT8, 8, "d", missing=b"1234")
    with pytest.raises(FormatError, match='missing value of column "late" has 4 bytes, not 8'):
        TableDecoder(relation(TWO.attributes[0], late), DecodeOptions())


def test_every_column_of_an_unknown_type_is_named() -> None:
    shapes = relation(
        TWO.attributes[0],
        attribute(2, "place", 99999, 16, "d", type_name="app.place"),
        attribute(3, "old", 99999, 16, "d", type_name="app.place", dropped=True),
        attribute(4, "tags", 1009, -1, "i", type_name="text[]"),
    )
    with pytest.raises(TableRefused) as caught:
        decodable(shapes, DecodeOptions())
    message = str(caught.value)
    assert "app.things" in message and "old" not in message
    assert 'column "place" has type app.place' in message and 'column "tags" has type text[]' in message
    decodable(TWO, DecodeOptions())


def test_decimal_columns_come_through_the_registry() -> None:
    prices = relation(attribute(1, "price", oid.NUMERIC, -1, "i", typmod=(12 << 16 | 2) + 4))
    decoder = TableDecoder(prices, DecodeOptions())
    decoder.append(*tuples(short(bytes.fromhex("008101008813")), natts=1))
    assert rows_of([decoder.finish()]) == [(Decimal("1.50"),)]
