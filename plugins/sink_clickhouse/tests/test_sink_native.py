"""Native blocks equal what a plain writer, value by value, makes."""

from __future__ import annotations

import decimal
import struct
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from walshadow_sink_clickhouse import kernels
from walshadow_sink_clickhouse.blocks import Block
from walshadow_sink_clickhouse.native import NativeEncoder, SentColumn, varint
from walshadow_sink_clickhouse.pgtypes import numeric_shape, own_type
from walshadow_sink_clickhouse.typemap import (
    META_TYPES,
    STRING,
    ColumnType,
    Part,
    array_type,
    decimal_type,
    timestamp_type,
    tuple_type,
)

from walshadow_core.api import DestinationError, PgType
from walshadow_core.testing.destination_contract import numeric_typmod


def text(value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(len(data)) + data


def one(kind: ColumnType, value: Any) -> bytes:
    """One value, not NULL, as a plain writer does it."""
    if kind.encoding == "string":
        return text(value)
    if kind.encoding == "bool":
        return bytes([value])
    if kind.encoding == "uuid":
        whole = uuid.UUID(bytes=value).int
        return struct.pack("<QQ", whole >> 64, whole & (1 << 64) - 1)
    if kind.encoding == "decimal":
        unscaled = int(value.scaleb(kind.scale, decimal.Context(100)))
        return unscaled.to_bytes(kind.width, "little", signed=True)
    code = {"Float32": "<f", "Float64": "<d"}.get(kind.name)
    if code:
        return struct.pack(code, value)
    return int(value).to_bytes(kind.width, "little", signed=not kind.name.startswith("U"))


def plain_column(kind: ColumnType, nullable: bool, values: list[Any]) -> bytes:
    """One column's values; NULL of an array is an empty one."""
    if kind.encoding == "array":
        lists = [v or [] for v in values]
        ends = np.cumsum([len(v) for v in lists]).astype("<u8").tobytes()
        element = kind.parts[0]
        return ends + plain_column(element.type, element.nullable, [v for one in lists for v in one])
    if kind.encoding == "tuple":
        return b"".join(plain_column(part.type, part.nullable, [v[part.name] for v in values]) for part in kind.parts)
    nulls = bytes(v is None for v in values) if nullable else b""
    empty: Any = {"string": b"", "uuid": bytes(16), "decimal": decimal.Decimal(0)}.get(kind.encoding, 0)
    return nulls + b"".join(one(kind, empty if v is None else v) for v in values)


def plain_block(columns: list[SentColumn], cells: list[list[Any]]) -> bytes:
    out = varint(len(columns)) + varint(len(cells[0]))
    for column, values in zip(columns, cells, strict=True):
        out += text(column.name) + text(column.sent_type) + plain_column(column.type, column.nullable, values)
    return out


def arrow_of(kind: ColumnType) -> pa.DataType:
    """The Arrow type of a column's values."""
    if kind.encoding == "array":
        return pa.list_(arrow_of(kind.parts[0].type))
    if kind.encoding == "tuple":
        return pa.struct([(part.name, arrow_of(part.type)) for part in kind.parts])
    return kind.arrow[-1]


FIXED = {
    "i8": (ColumnType("Int8", "fixed", (pa.int8(),), 1), st.integers(-128, 127)),
    "i64": (ColumnType("Int64", "fixed", (pa.int64(),), 8), st.integers(-(2**63), 2**63 - 1)),
    "u32": (ColumnType("UInt32", "fixed", (pa.uint32(),), 4), st.integers(0, 2**32 - 1)),
    "f64": (ColumnType("Float64", "fixed", (pa.float64(),), 8), st.floats(allow_nan=False)),
    "bool": (META_TYPES[3][1], st.booleans()),
    "text": (STRING, st.binary(max_size=300)),
    "uuid": (ColumnType("UUID", "uuid", (pa.binary(16),), 16), st.binary(min_size=16, max_size=16)),
} | {
    f"d{p}": (decimal_type(p, 3), st.integers(-(10**p) + 1, 10**p - 1).map(
        lambda n: decimal.Decimal(n).scaleb(-3, decimal.Context(100))
    ))
    for p in (9, 10, 18, 19, 38, 39, 76)
}  # fmt: skip
SCALARS = sorted(FIXED)


def listed(name: str, nullable: bool = True) -> tuple[ColumnType, st.SearchStrategy[Any]]:
    """Lists of what FIXED has."""
    kind, values = FIXED[name]
    return array_type(Part(kind, nullable)), st.lists(values | st.none() if nullable else values, max_size=5)


FIXED |= {f"{name}[]": listed(name) for name in SCALARS}
FIXED["lists"] = (array_type(Part(listed("text")[0], False)), st.lists(listed("text")[1], max_size=3))
FIXED["firm"] = listed("i64", nullable=False)
FIXED["tuple"] = (
    tuple_type([Part(FIXED["text"][0], True, "t"), Part(listed("bool")[0], True, "l"), Part(FIXED["d19"][0], True, "d")]),
    st.fixed_dictionaries({
        "t": FIXED["text"][1] | st.none(), "l": listed("bool")[1] | st.none(), "d": FIXED["d19"][1] | st.none(),
    }),
)  # fmt: skip


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[SentColumn], list[list[Any]], int]:
    rows = draw(st.integers(1, 40))
    columns, cells = [], []
    for i, name in enumerate(draw(st.lists(st.sampled_from(sorted(FIXED)), min_size=1, max_size=5))):
        kind, values = FIXED[name]
        nullable = kind.encoding != "tuple" and draw(st.booleans())
        columns.append(SentColumn(f"c{i}", kind, nullable))
        cells.append(draw(st.lists(values | st.none() if nullable else values, min_size=rows, max_size=rows)))
    return columns, cells, draw(st.integers(0, rows))


@settings(max_examples=150, deadline=None)
@given(tables())
def test_blocks(table: tuple[list[SentColumn], list[list[Any]], int]) -> None:
    """Two batches, slices of one, are two blocks; NULL slots hold whatever Arrow has there."""
    columns, cells, cut = table
    arrays = [pa.array(values, arrow_of(c.type)) for c, values in zip(columns, cells, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, names=[c.name for c in columns])
    encoder = NativeEncoder(columns, "clamp")
    block = Block(in_file=False)
    expected = b""
    for start, end in ((0, cut), (cut, batch.num_rows)):
        encoder.append(batch.slice(start, end - start), block)
        expected += plain_block(columns, [values[start:end] for values in cells])
    assert bytes(block.content()) == expected
    assert block.rows == batch.num_rows
    empties = {c.name: lost for c, values in zip(columns, cells, strict=True) if (lost := lost_nulls(c.type, values))}
    assert encoder.adjusted == empties


def lost_nulls(kind: ColumnType, values: list[Any]) -> int:
    """Arrays that were NULL."""
    if kind.encoding == "tuple":
        return sum(lost_nulls(part.type, [v[part.name] for v in values]) for part in kind.parts)
    return values.count(None) if kind.encoding == "array" else 0


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 31, 32, 127, 128, 16383, 16384, 100_000])
def test_string_lengths(length: int) -> None:
    """Around a copy step, a varint's byte, the end of the source and of the target."""
    rng = np.random.default_rng(length)
    data = rng.integers(0, 256, 3 * length).astype(np.uint8)
    offsets = np.array([0, length, 2 * length, 3 * length], np.int32)
    for slack in (5, 20):
        out = np.zeros(3 * (length + 5) + slack, np.uint8)
        end = kernels.strings(kernels.readonly(offsets), kernels.readonly(data), out, 2)
        expected = b"".join(text(data[i * length : (i + 1) * length].tobytes()) for i in range(3))
        assert end == 2 + len(expected) and out[2:end].tobytes() == expected


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(-5, 60), min_size=1, max_size=8),
    st.integers(0, 50),
    st.integers(0, 120),
    st.integers(0, 30),
)
def test_bad_offsets_never_leave_the_buffers(offsets: list[int], data: int, room: int, at: int) -> None:
    """Offsets that lie are refused by row number; nothing is read or written outside."""
    guarded = np.full(room + 64, 7, np.uint8)
    out = guarded[:room]
    found = kernels.strings(
        kernels.readonly(np.array(offsets, np.int32)), kernels.readonly(np.zeros(data, np.uint8)), out, at
    )
    assert found < 0 or found <= max(room, at)
    assert (guarded[room:] == 7).all()


def test_block_keeps_content_when_it_grows() -> None:
    """In a file and in memory; a sealed file is as long as its content."""
    for in_file in (False, True):
        block = Block(in_file)
        block.reserve(10)
        block.array[:10] = np.arange(10)
        block.used = 10
        block.reserve(9 << 20)
        assert block.array[:10].tolist() == list(range(10)) and len(block.array) >= (9 << 20) + 10
        block.seal()
        if block.path:
            assert Path(block.path).read_bytes() == bytes(range(10))
        block.clear()
        block.array[-1] = 1
        block.close()


def test_what_is_not_the_plan_is_an_error() -> None:
    """Another type, another number of columns, NULL where none may be: named, and the block stays as it was."""
    column = SentColumn("price", decimal_type(12, 2), False)
    encoder = NativeEncoder([column], "clamp")
    block = Block(in_file=False)
    for array, words in (
        (pa.array([1.5]), "'price' came as Arrow type double"),
        (pa.array([None], pa.decimal128(12, 2)), "'price' holds NULL"),
    ):
        with pytest.raises(DestinationError, match=words):
            encoder.append(pa.RecordBatch.from_arrays([array], names=["price"]), block)
        assert block.used == 0 and block.rows == 0
    with pytest.raises(DestinationError, match="0 columns came where 1 are due"):
        encoder.append(pa.RecordBatch.from_arrays([], names=[]), block)


@pytest.mark.parametrize("digits", range(7))
def test_timestamp_digits(digits: int) -> None:
    """timestamp(p) is sent in units of its own digits, floor for those before 1970."""
    column = SentColumn("t", timestamp_type(digits), False)
    unit = 10 ** (6 - digits)
    micros = [0, unit, -unit, -2208988800000000, 10413791999000000 + (10**6 - unit)]
    array = pa.array(micros, pa.int64()).cast(pa.timestamp("us"))
    block = Block(in_file=False)
    NativeEncoder([column], "error").append(pa.RecordBatch.from_arrays([array], names=["t"]), block)
    assert np.frombuffer(block.content()[-40:], np.int64).tolist() == [m // unit for m in micros]


@pytest.mark.parametrize(
    ("precision", "scale", "shape"),
    [(12, 2, (12, 2)), (3, 5, (5, 5)), (3, -2, (5, 0)), (1000, 0, (1000, 0)), (5, 0, (5, 0)), (2, -1000, (1002, 0))],
)
def test_numeric_shape(precision: int, scale: int, shape: tuple[int, int]) -> None:
    """Scales above the precision and below nought (Postgres 15)."""
    assert numeric_shape(numeric_typmod(precision, scale)) == shape
    assert numeric_shape(-1) is None


def test_numeric_beyond_decimal_is_text() -> None:
    """77 digits, or none said."""

    def numeric(typmod: int) -> str:
        found = own_type(PgType(1700, "pg_catalog", "numeric", "b", -1, "i", False), typmod, 0)
        assert found is not None
        return found.name

    assert numeric(numeric_typmod(76, 76)) == "Decimal(76, 76)"
    assert numeric(numeric_typmod(77, 0)) == "String" and numeric(-1) == "String"
