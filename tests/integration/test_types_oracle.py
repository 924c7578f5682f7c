"""Every type, decoded out of heap files, against what the server itself says of the same rows.

The server writes a table; after a CHECKPOINT its file is walked and decoded, and compared column by column with
a SELECT in the same order: ``col::text``, or for types that text would lose (floats) or that come as raw values,
an integer by the expression in CANONICAL. Rows are random: the seed is printed.
"""

from __future__ import annotations

import itertools
import random
from io import BytesIO
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pytest
from numpy.typing import NDArray

from tests.integration.types import test_simple_types
from walshadow_core.api import (
    DATE_INFINITY,
    DATE_NEG_INFINITY,
    TIMESTAMP_INFINITY,
    Attribute,
    FormatError,
    RelationDescriptor,
)
from walshadow_core.catalog.sql import read_catalog
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.columns import DecodeOptions
from walshadow_core.decode.encodings import refuse_encoding, supported_encodings, transcode
from walshadow_core.decode.table import TableDecoder
from walshadow_core.decode.types import CODECS
from walshadow_core.pgformat.heap import PAGE_SIZE, PageWalker
from walshadow_core.pgformat.relpath import relation_path
from walshadow_core.testing.postgres import PostgresServer

RANDOM_ROWS = 100_000
PAGES = 128

# extract(epoch) of Postgres is not exact near the end of int64.
_EPOCH = (
    "case when {{c}} is null then null when isfinite({{c}}) then"
    " least(('x' || encode({send}({{c}}), 'hex'))::bit(64)::int8 + 946684800000000::numeric,"
    f" {TIMESTAMP_INFINITY - 1})::int8"
    " when {{c}} > '2000-01-01' then 9223372036854775807 else (-9223372036854775808)::int8 end"
)
CANONICAL: Final = {
    oid.BOOL: "{c}::int",
    oid.CHAR: "{c}::int",
    oid.OID: "{c}::int8",
    oid.FLOAT4: "('x' || encode(float4send({c}), 'hex'))::bit(32)::int4",
    oid.FLOAT8: "('x' || encode(float8send({c}), 'hex'))::bit(64)::int8",
    oid.DATE: "case when {c} is null then null when isfinite({c}) then {c} - date '1970-01-01'"
    f" when {{c}} > '2000-01-01' then {DATE_INFINITY} else {DATE_NEG_INFINITY} end",
    oid.TIME: "(extract(epoch from {c}) * 1000000)::int8",
    oid.TIMESTAMP: _EPOCH.format(send="timestamp_send"),
    oid.TIMESTAMPTZ: _EPOCH.format(send="timestamptz_send"),
    oid.UUID: "replace({c}::text, '-', '')",
    oid.BYTEA: "encode({c}, 'hex')",
    # A cast to text would strip the padding.
    oid.BPCHAR: "case when {c} is not null then concat({c}) end",
}

# ------------------------------------------------------------------------------- reading and comparing


def heap_pages(server: PostgresServer, relation: RelationDescriptor) -> NDArray[np.uint8]:
    return np.fromfile(server.data / relation_path(relation.locator), np.uint8)


def decode(pages: NDArray[np.uint8], relation: RelationDescriptor, options: DecodeOptions | None = None) -> pa.Table:
    decoder = TableDecoder(relation, options or DecodeOptions(), block_rows=30_000)
    walker = PageWalker(PAGES)
    batches = []
    for start in range(0, len(pages), PAGES * PAGE_SIZE):
        part = pages[start : start + PAGES * PAGE_SIZE].copy()
        walk = walker.walk(part, start // PAGE_SIZE)
        assert walk.damage == ()
        batches += decoder.append(part, walk.data)
    last = decoder.finish()
    return pa.Table.from_batches([*batches, *([last] if last else [])], decoder.schema)


def select(server: PostgresServer, database: str, relation: RelationDescriptor) -> pa.Table:
    """The rows as strings, in the order of the heap."""
    expressions = ", ".join(CANONICAL.get(a.type_oid, "{c}::text").format(c=f'"{a.name}"') for a in relation.columns)
    with server.connect(database) as connection:
        if relation.encoding != "SQL_ASCII":
            connection.execute("set client_encoding = 'UTF8'")
        connection.execute(
            "set synchronize_seqscans = off; set max_parallel_workers_per_gather = 0; set datestyle = 'ISO';"
            " set intervalstyle = 'postgres'; set timezone = 'UTC'"
        )
        copy = f"copy (select {expressions} from {relation.qualified_name}) to stdout (format csv)"
        with connection.cursor().copy(copy.encode()) as chunks:
            content = b"".join(chunks)
    names = [a.name for a in relation.columns]
    return pa.csv.read_csv(
        BytesIO(content),
        pa.csv.ReadOptions(column_names=names, block_size=64 << 20),
        pa.csv.ParseOptions(newlines_in_values=True),
        pa.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )  # fmt: skip


def hexadecimal(array: pa.Array) -> pa.Array:
    """binary or binary(n) as hex strings."""
    if pa.types.is_fixed_size_binary(array.type):
        array = array.cast(pa.binary())
    offsets = np.frombuffer(array.buffers()[1], np.int32)[: len(array) + 1]
    data = array.buffers()[2]
    digits = (data.to_pybytes()[: offsets[-1]] if data else b"").hex().encode()
    nulls = array.is_null().to_numpy(zero_copy_only=False)
    strings = pa.StringArray.from_buffers(len(array), pa.py_buffer(offsets * 2), pa.py_buffer(digits))
    return pc.if_else(pa.array(nulls), pa.scalar(None, pa.string()), strings)


def nan_of(array: pa.Array) -> NDArray[np.bool_]:
    """Where a decimal array holds the raw value of NaN, the least integer."""
    longs = np.frombuffer(array.buffers()[1], np.int64).reshape(len(array), -1)
    least: NDArray[np.bool_] = (longs[:, -1] == -(2**63)) & (longs[:, :-1] == 0).all(axis=1)
    valid: NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return least & valid


def comparable(attribute: Attribute, got: pa.Array, expected: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Both sides as arrays of one type that can be compared for equality."""
    kind = got.type
    if pa.types.is_string(kind):
        return got, expected
    if pa.types.is_binary(kind) or (pa.types.is_fixed_size_binary(kind) and not pa.types.is_decimal(kind)):
        return hexadecimal(got), expected
    if pa.types.is_decimal(kind):
        nan = pa.array(nan_of(got))
        assert nan.equals(pc.fill_null(pc.equal(expected, "NaN"), False)), f"NaN of {attribute.name}"
        missing = pa.scalar(None, pa.string())
        return pc.if_else(nan, pa.scalar(None, kind), got), pc.if_else(nan, missing, expected).cast(kind)
    views = {pa.float32(): pa.int32(), pa.float64(): pa.int64(), pa.date32(): pa.int32()}
    got = got.view(views[kind]) if kind in views else got
    if pa.types.is_temporal(got.type):
        got = got.view(pa.int64())
    return got.cast(pa.int64()), expected.cast(pa.int64())


def assert_same(relation: RelationDescriptor, got: pa.Table, expected: pa.Table, seed: float) -> None:
    assert got.column_names == expected.column_names
    assert got.num_rows == expected.num_rows > 0
    for attribute in relation.columns:
        mine = got.column(attribute.name).combine_chunks()
        mine.validate()
        theirs = expected.column(attribute.name).combine_chunks()
        left, right = comparable(attribute, mine, theirs)
        if not left.equals(right):
            both_null = pc.and_(left.is_null(), right.is_null())
            same = pc.or_(pc.fill_null(pc.equal(left, right), False), both_null)
            row = same.to_pylist().index(False)
            raise AssertionError(
                f"{relation.qualified_name}.{attribute.name} {attribute.type_name}, row {row}, seed {seed}:"
                f" decoded {left[row]!r}, Postgres has {theirs[row]!r}"
            )


def check(server: PostgresServer, database: str, table: str, seed: float = 0) -> RelationDescriptor:
    """Compare one table; its descriptor."""
    server.execute("checkpoint", database=database)
    snapshot = read_catalog(server.dsn(database), [table])
    assert snapshot.refused == ()
    (relation,) = snapshot.relations
    assert_same(relation, decode(heap_pages(server, relation), relation), select(server, database, relation), seed)
    return relation


# ----------------------------------------------------------------------------------------- the values

BASE = (
    "(select translate(h, 'abcdef', '012340') as digits, translate(h, '0189', 'ä€ Z') as words from"
    f" (select {' || '.join(['md5(random()::text)'] * 4)} as h from generate_series(1, {{rows}}) offset 0) hex"
    " offset 0) base"
)
"""A row's 128 random decimals and letters, for the expressions below to cut from."""


def decimal_sql(before: int, after: int) -> str:
    """Text of a number of up to so many digits before and after the point, negative for every second."""
    start = "1 + (random() * 80)::int"
    return (
        f"((array['', '-'])[1 + random()::int] || '0' || substr(digits, {start}, (random() * {before})::int)"
        f" || '.' || substr(digits, {start}, (random() * {after})::int) || '0')"
    )


def text_sql(longest: int) -> str:
    return f"left(words, (random() * {longest})::int)"


_FAR = "timestamp '2000-01-01' + make_interval(days => (random() * 108000000 - 2400000)::int, secs => random() * 86400)"
_NEAR = "timestamp '2000-01-01' + make_interval(days => (random() * 20000 - 10000)::int, secs => random() * 86400)"
_TIMESTAMP = f"case when random() < 0.5 then {_NEAR} else {_FAR} end"
_TIME = "(time '00:00' + random() * interval '1 day')"
_ZONE = (
    "(array['+', '-'])[1 + random()::int] || to_char((random() * 15)::int, 'FM00')"
    " || (array['', ':30', ':45:07'])[1 + (random() * 2)::int]"
)
_YEARS = "178956970 years"
_DAYS = "2147483647 days 2562047788:00:54.775807"

COLUMNS: Final[dict[str, tuple[str, list[str]]]] = {
    "bool": ("random() < 0.5", ["true", "false"]),
    '"char"': ("(floor(random() * 256) - 128)::int", ["", "a", "\\200", "\\377"]),
    "int2": ("(random() * 65535 - 32768)::int", ["-32768", "32767", "0", "-1"]),
    "int4": ("(random() * 4294967295 - 2147483648)::int8", ["-2147483648", "2147483647"]),
    "int8": (
        "((random() * 4294967295)::int8 << 32) | (random() * 4294967295)::int8",
        ["-9223372036854775808", "9223372036854775807"],
    ),
    "oid": ("(random() * 4294967295)::int8", ["0", "2147483648", "4294967295"]),
    "float4": (
        "(random() - 0.5) * 10 ^ (random() * 70 - 35)",
        ["NaN", "Infinity", "-Infinity", "-0", "1e-45", "-1e-45", "1.17549435e-38", "3.4028235e38"],
    ),
    "float8": (
        "(random() - 0.5) * 10::float8 ^ (random() * 600 - 300)",
        ["NaN", "Infinity", "-Infinity", "-0", "5e-324", "-5e-324", "2.2250738585072014e-308",
         "1.7976931348623157e308"],
    ),
    "numeric": (
        decimal_sql(40, 40),
        ["NaN", "Infinity", "-Infinity", "0", "0.000", "-0.0", "1e-60", "1e-63", "1.0e-64", "-1e-300", "1e252", "1e255",
         "1e256", "-1e259", "1e131071", "-1e-16383", "0." + "0" * 300, "10000", "9999.9999", "-0.0001", "0.00010",
         "99999999.00000001", "1e300"],
    ),
    "numeric(10,2)": (decimal_sql(7, 1), ["NaN", "99999999.99", "-99999999.99", "0", "0.01", "-0.1", "10000"]),
    "numeric(18,4)": (decimal_sql(12, 3), ["99999999999999.9999", "-99999999999999.9999", "0.0001"]),
    "numeric(19,0)": (decimal_sql(17, 0), ["9999999999999999999", "-9999999999999999999", "999999999999999999"]),
    "numeric(38,18)": (decimal_sql(18, 17), ["NaN", "-" + "9" * 20 + "." + "9" * 18, "1e-18"]),
    "numeric(38,0)": (decimal_sql(36, 0), ["9" * 38, "-" + "9" * 38, "1e37"]),
    "numeric(60,20)": (decimal_sql(38, 19), ["NaN", "9" * 40 + "." + "9" * 20, "-1e-20", "1e39"]),
    "numeric(76,76)": (decimal_sql(0, 60), ["0." + "9" * 76, "-1e-76", "0"]),
    "numeric(5,-2)": (decimal_sql(5, 0), ["NaN", "9999900", "-9999900", "100", "49"]),
    "numeric(36,-40)": (f"({decimal_sql(30, 0)} || 'e38')", ["9" * 36 + "0" * 40, "1e40"]),
    "numeric(3,5)": (f"({decimal_sql(0, 3)} || 'e-2')", ["NaN", "0.00999", "-0.00999", "0.00001"]),
    "numeric(100,50)": (decimal_sql(40, 45), ["NaN", "1e49", "-1e-50"]),
    "text": (text_sql(128), ["", "a" * 125, "b" * 126, "c" * 127, "d" * 128, "e" * 1000, 'a"b\\c\n,\r\té€😀', "NULL"]),
    "varchar(50)": (text_sql(50), ["", " trailing  "]),
    "varchar": (text_sql(20), [""]),
    "char(12)": (text_sql(12), ["", "x", "€"]),
    "char": ("(array['a', 'é', ''])[1 + (random() * 2)::int]", [" "]),
    "name": (text_sql(20), ["", "n" * 63]),
    "json": (
        "json_build_object('a', random(), 'b', left(words, 20))",
        ["null", ' { "a" : [1, 2.50, "\\u00e9"] ,  "a": 1}'],
    ),
    "bytea": (
        "substr(decode(left(digits, 64), 'hex'), 1, (random() * 32)::int)",
        ["", "\\x00", "\\x00ff", "\\x" + "ab" * 126, "\\x" + "cd" * 127, "\\x" + "00" * 900],
    ),
    "date": (
        "case when random() < 0.5 then date '1970-01-01' + (random() * 20000)::int"
        " else date '2000-01-01' + (random() * 100000000 - 2400000)::int end",
        ["infinity", "-infinity", "4714-11-24 BC", "5874897-12-31", "1969-12-31", "0001-12-31 BC"],
    ),
    "time": (_TIME, ["24:00:00", "00:00:00", "23:59:59.999999", "00:00:00.000001"]),
    "time(2)": (_TIME, ["12:34:56.785"]),
    "timetz": (
        f"{_TIME}::text || {_ZONE}",
        ["24:00:00+15:59:59", "00:00:00-15:59:59", "00:00:00.000001+00:00:01", "12:34:56.789-07:30", "01:02:03.1+00"],
    ),
    "timestamp": (
        _TIMESTAMP,
        ["infinity", "-infinity", "4714-11-24 00:00:00 BC", "294276-12-31 23:59:59.999999",
         "1969-12-31 23:59:59.999999", "294247-01-10 04:00:54.775805", "294247-01-10 04:00:54.775806",
         "294247-01-10 04:00:54.775807",         "294247-01-10 04:00:54.775808"],
    ),
    "timestamp(3)": (_NEAR, ["2000-01-01 00:00:00.9996"]),
    "timestamptz": (
        f"({_TIMESTAMP}) at time zone 'UTC'",
        ["infinity", "-infinity", "4714-11-24 00:00:00+00 BC", "294276-12-31 23:59:59.999999+00",
         "1985-03-04 05:06:07.891+05:30"],
    ),
    "interval": (
        "make_interval("
        "months => (case when random() < 0.5 then random() * 60 - 30 else (random() - 0.5) * 4e9 end)::int,"
        " days => (case when random() < 0.5 then 0 else (random() - 0.5) * 100 end)::int,"
        " secs => case when random() < 0.3 then 0 else (random() - 0.5) * 10 ^ (random() * 9)::int end)",
        ["0", "1 second", "-1 second", "1 day -1 second", "-1 day +1 second", "-1 year +2 mons -3 days +04:05:06.789",
         "1 year -2 mons 3 days -04:05:06.7", "1 mon", "-1 mon", "1 year", "-1 day", "0.000001 second",
         f"{_YEARS} 7 mons {_DAYS.replace('807', '806')}",
         f"-{_YEARS} -8 mons -2147483648 days -2562047788:00:54.775807"],
    ),
    "uuid": ("left(digits, 32)::uuid", ["0" * 32, "f" * 32, "01234567-89ab-cdef-0123-456789abcdef"]),
}  # fmt: skip
"""Per column type an SQL expression for random values, and extremes as text."""
ELSEWHERE: Final = (
    *test_simple_types.TYPES, *test_simple_types.AS_NUMBERS, "jsonb", "jsonpath", "tsvector", "tsquery", "pg_snapshot",
    "txid_snapshot", "int2vector", "oidvector",
)  # fmt: skip
"""Types of which tests/integration/types has the values."""

SINCE_17: Final = {"interval": ["infinity", "-infinity"]}
LONG: Final = {
    "text": ["é" * 4000],
    "bytea": ["\\x" + "01" * 8000],
    "numeric": ["1e8000", "9" * 14000 + "." + "9" * 2000, "-1e-16382"],
    "json": ['"' + "j" * 7000 + '"'],
}
"""Values that stay in a page only if the column's storage is plain."""


def names() -> dict[str, str]:
    """Column type to column name."""
    return {kind: f"c{i}" for i, kind in enumerate(COLUMNS)}


def extremes_sql(table: str, kind: str, values: list[str]) -> str:
    """A row per extreme, nulls in all other columns."""
    rows = ", ".join("('" + v.replace("'", "''") + "')" for v in values)
    return f"insert into {table} ({names()[kind]}) select v::{kind} from (values {rows}) x(v)"


def random_sql(table: str, kinds: dict[str, str], rows: int) -> str:
    """``rows`` rows of random values of the columns (name to type), a tenth of them null."""
    values = ", ".join(f"case when random() > 0.1 then ({COLUMNS[kind][0]})::{kind} end" for kind in kinds.values())
    return f"insert into {table} ({', '.join(kinds)}) select {values} from {BASE.format(rows=rows)}"


def fresh_seed() -> float:
    seed = random.SystemRandom().randrange(10**6) / 10**6
    print(f"setseed({seed})")
    return seed


def fresh_database(server: PostgresServer, name: str, encoding: str = "UTF8") -> str:
    server.execute(f"drop database if exists {name}")
    server.execute(f"create database {name} template template0 encoding '{encoding}' lc_collate 'C' lc_ctype 'C'")
    return name


# ------------------------------------------------------------------------------------------- the tests


def test_the_values_cover_every_type_that_can_be_decoded(pg_newest: PostgresServer) -> None:
    kinds = (*COLUMNS, *ELSEWHERE)
    assert {pg_newest.execute(f"select '{kind}'::regtype::oid")[0][0] for kind in kinds} == set(CODECS)


def test_every_type(pg: PostgresServer) -> None:
    database = fresh_database(pg, "oracle_types")
    seed = fresh_seed()
    columns = ", ".join(f"{name} {kind}" for kind, name in names().items())
    plain = ", ".join(f"alter {names()[kind]} set storage plain" for kind in LONG)
    with pg.connect(database, client_encoding="UTF8") as connection:
        connection.execute(f"select setseed({seed})".encode())
        connection.execute(f"create table everything ({columns}); create table long_ones (like everything)".encode())
        connection.execute(f"alter table long_ones {plain}".encode())
        for kind, (_, values) in COLUMNS.items():
            since_17 = SINCE_17.get(kind, []) if pg.major >= 17 else []
            connection.execute(extremes_sql("everything", kind, values + since_17).encode())
            connection.execute(extremes_sql("long_ones", kind, values + LONG.get(kind, [])).encode())
        kinds = {name: kind for kind, name in names().items()}
        connection.execute(random_sql("everything", kinds, RANDOM_ROWS).encode())
        connection.execute(random_sql("long_ones", kinds, 500).encode())
    check(pg, database, "everything", seed)
    check(pg, database, "long_ones", seed)


def de_bruijn(symbols: int, order: int) -> list[int]:
    """A cyclic sequence in which every ``order`` symbols in a row occur once."""
    word = [0] * (symbols * order)
    sequence: list[int] = []

    def extend(t: int, period: int) -> None:
        if t > order:
            if order % period == 0:
                sequence.extend(word[1 : period + 1])
            return
        word[t] = word[t - period]
        extend(t + 1, period)
        for symbol in range(word[t - period] + 1, symbols):
            word[t] = symbol
            extend(t + 1, t)

    extend(1, 1)
    return sequence


def test_every_order_of_alignments(pg: PostgresServer) -> None:
    kinds = ["bool", "int2", "int4", "int8", "varchar", "timetz"]
    order = de_bruijn(len(kinds), 3)
    order += order[:2]
    assert len(set(itertools.pairwise(order))) == len(kinds) ** 2
    database = fresh_database(pg, "oracle_orders")
    seed = fresh_seed()
    columns = {f"c{i}": kinds[symbol] for i, symbol in enumerate(order)}
    with pg.connect(database, client_encoding="UTF8") as connection:
        connection.execute(f"select setseed({seed})".encode())
        definition = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        connection.execute(f"create table orders ({definition})".encode())
        for column, kind in columns.items():
            if kind == "varchar":
                connection.execute(f"alter table orders alter {column} set storage external".encode())
        connection.execute(random_sql("orders", columns, 300).encode())
    check(pg, database, "orders", seed)


TEXTS: Final = {"UTF8": "é€😀漢", "LATIN1": "é¦ÿ", "EUC_JP": "漢字①～ｱ丂", "SQL_ASCII": "é€"}
"""What each encoding has besides ASCII."""


@pytest.mark.parametrize("encoding", TEXTS)
def test_dropped_columns_and_columns_added_later(pg: PostgresServer, encoding: str) -> None:
    database = fresh_database(pg, f"oracle_{encoding.lower()}", encoding)
    seed = fresh_seed()
    text = TEXTS[encoding]
    with pg.connect(database) as connection:
        # SQL_ASCII converts nothing, so that the bytes are UTF-8 there.
        if encoding != "SQL_ASCII":
            connection.execute("set client_encoding = 'UTF8'")
        connection.execute(f"select setseed({seed})".encode())

        def run(statement: str) -> None:
            connection.execute(statement.encode())

        run("create table changed (a int, b text, c int2, d numeric, e bool, f int8, g name)")
        fill = (
            "insert into changed (a, b, c, d, e, f, g) select i, case when i % 3 > 0 then repeat('{}', i % 20) end,"
            " i % 100, i / 7.0, i % 2 = 0, case when i % 5 > 0 then i end, '{}' from generate_series(1, 500) i"
        )
        run(fill.format(text, text))
        run("alter table changed drop c, drop e")
        added = 0
        for kind, (_, values) in COLUMNS.items():
            for value in [*values[:3], text]:
                if value == text and kind not in ("text", "varchar", "char(12)", "name"):
                    continue
                if not value.isascii() and value != text:
                    continue
                run(f"alter table changed add m{added} {kind} default '{value}'")
                added += 1
        run("alter table changed add later int, add never text default null")
        run("insert into changed (a, b, later) select i, 'later', i from generate_series(1, 300) i")
        run(f"update changed set b = '{text}' where false")
        run("alter table changed drop m3, drop b, drop later")
        run("insert into changed (a, m5) select i, default from generate_series(1, 300) i".replace("default", "null"))
        run("insert into changed default values")
    relation = check(pg, database, "changed", seed)
    assert sum(a.missing is not None for a in relation.columns) > 80
    assert sum(a.dropped for a in relation.attributes) == 5
    assert relation.encoding == encoding


def test_invalid_text_follows_the_policy(pg_newest: PostgresServer) -> None:
    database = fresh_database(pg_newest, "oracle_invalid", "SQL_ASCII")
    stored = [b"fine", b"\xe9t\xe9", "é".encode(), None, b"a\xff"]
    with pg_newest.connect(database) as connection:
        connection.execute("create table invalid (t text)")
        for value in stored:
            connection.execute("insert into invalid select convert_from(%s, 'SQL_ASCII')", (value,), binary=True)
    pg_newest.execute("checkpoint", database=database)
    (relation,) = read_catalog(pg_newest.dsn(database), ["invalid"]).relations
    pages = heap_pages(pg_newest, relation)
    assert decode(pages, relation, DecodeOptions("bytes")).column("t").to_pylist() == stored
    replaced = [v if v is None else v.decode("utf-8", "replace") for v in stored]
    assert decode(pages, relation, DecodeOptions("replace")).column("t").to_pylist() == replaced
    with pytest.raises(FormatError, match=r'"t".*SQL_ASCII'):
        decode(pages, relation, DecodeOptions("error"))


def test_numeric_of_the_largest_size_through_the_kernel(pg_newest: PostgresServer) -> None:
    """131072 digits before the point and 16383 after it do not fit a page: as a missing value they do."""
    database = fresh_database(pg_newest, "oracle_largest")
    largest = "9" * 131072 + "." + "9" * 16383
    pg_newest.execute(
        f"create table largest (a int); insert into largest values (1), (2);"
        f" alter table largest add n numeric default {largest}, add m numeric default -{largest}",
        database=database,
    )
    pg_newest.execute("checkpoint", database=database)
    (relation,) = read_catalog(pg_newest.dsn(database), ["largest"]).relations
    got = decode(heap_pages(pg_newest, relation), relation)
    assert got.column("n").to_pylist() == [largest] * 2
    assert got.column("m").to_pylist() == ["-" + largest] * 2


# ------------------------------------------------------------------------------------------ encodings

CONVERTED = """
create or replace function pg_temp.converted(b bytea, e text) returns text language plpgsql as
$$ begin return convert_from(b, e); exception when others then return null; end $$
"""


def column(values: list[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    ends = np.cumsum([0, *map(len, values)]).astype(np.int32)
    return np.frombuffer(bytearray(b"".join(values)), np.uint8), ends


def texts(data: NDArray[np.uint8], offsets: NDArray[np.int32]) -> list[str]:
    whole = data.tobytes()
    return [whole[a:b].decode() for a, b in itertools.pairwise(offsets.tolist())]


def test_every_byte_sequence_of_every_encoding(pg: PostgresServer) -> None:
    with pg.connect() as connection:
        connection.execute(CONVERTED)
        for encoding, sequences in supported_encodings().items():
            rows: list[tuple[Any, ...]] = connection.execute(
                "select pg_temp.converted(decode(x, 'hex'), %s) from unnest(%s::text[]) with ordinality t(x, o)"
                " order by o",
                (encoding, [s.hex() for s in sequences]),
            ).fetchall()
            expected = [row[0] for row in rows]
            valid = [s for s, text in zip(sequences, expected, strict=True) if text is not None]
            assert len(valid) > 50, encoding
            got = texts(*transcode(*column([b"<" + s + b">" for s in valid]), encoding, "error"))
            assert got == [f"<{t}>" for t in expected if t is not None], encoding
            got = texts(*transcode(*column(sequences), encoding, "replace"))
            assert got == ["\ufffd" if t is None else t for t in expected], encoding


def test_every_server_encoding_is_supported_or_refused_by_name(pg: PostgresServer) -> None:
    found = {row[0] for row in pg.execute("select pg_encoding_to_char(i) from generate_series(0, 41) i")} - {""}
    client_only = {"SJIS", "BIG5", "GBK", "UHC", "GB18030", "JOHAB", "SHIFT_JIS_2004"}
    refused = {name for name in found if refuse_encoding(name)}
    assert refused - client_only == {"MULE_INTERNAL", "EUC_TW"}
    assert found - refused == {*supported_encodings(), "UTF8", "SQL_ASCII"}
