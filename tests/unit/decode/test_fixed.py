"""Types of one width: extremes, infinities, nulls, and what no server writes."""

from __future__ import annotations

import struct
from datetime import date, datetime, time, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from walshadow_core.api import (
    DATE_INFINITY,
    DATE_NEG_INFINITY,
    TIMESTAMP_INFINITY,
    TIMESTAMP_NEG_INFINITY,
    Attribute,
    Bytes,
)
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.columns import FIRST_ROWS, BadValue, ColumnBuilder, DecodeOptions
from walshadow_core.decode.type_fixed import CODECS, EPOCH_DAYS, EPOCH_MICROSECONDS
from walshadow_core.decode.types import use_of
from walshadow_core.testing.postgres import PostgresServer

WIDTHS = {
    oid.BOOL: 1, oid.CHAR: 1, oid.INT2: 2, oid.INT4: 4, oid.INT8: 8, oid.OID: 4, oid.FLOAT4: 4, oid.FLOAT8: 8,
    oid.DATE: 4, oid.TIME: 8, oid.TIMESTAMP: 8, oid.TIMESTAMPTZ: 8, oid.UUID: 16,
}  # fmt: skip


def builder(type_oid: int) -> ColumnBuilder:
    a = Attribute(1, "a", type_oid, "t", -1, WIDTHS[type_oid], "c", True, "p", False)
    return CODECS[type_oid](use_of(a, "UTF8", DecodeOptions())).builder()


def stored(
    values: list[bytes | None], width: int
) -> tuple[Bytes, NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8]]:
    """The values, one odd byte before each; the last one ends where the buffer does."""
    buf = bytearray()
    offset = []
    for value in values:
        buf += b"\xaa"
        offset.append(len(buf) if value is not None else 0)
        buf += value or b""
    n = len(values)
    return (
        np.frombuffer(buf, np.uint8), np.array(offset, np.int32), np.full(n, width, np.int32),
        np.array([v is not None for v in values], np.uint8),
    )  # fmt: skip


def build(type_oid: int, values: list[bytes | None], pieces: int = 1) -> pa.Array:
    b = builder(type_oid)
    for k in range(pieces):
        part = values[len(values) * k // pieces : len(values) * (k + 1) // pieces]
        b.append(*stored(part, WIDTHS[type_oid]))
    array = b.finish()
    array.validate(full=True)
    return array


def packed(code: str, *values: Any) -> list[bytes | None]:
    return [None if v is None else struct.pack("<" + code, v) for v in values]


NUMBERS = [
    (oid.CHAR, "b", [0, 65, 127, -128, -1, None]),
    (oid.INT2, "h", [0, 2**15 - 1, None, -(2**15), -1]),
    (oid.INT4, "i", [None, 2**31 - 1, -(2**31), -1, 0]),
    (oid.INT8, "q", [2**63 - 1, None, -(2**63), -1, 0]),
    (oid.OID, "I", [0, 2**32 - 1, None]),
    (oid.FLOAT4, "f", [0.5, None, float("inf"), -float("inf"), -(2.0**-149)]),
    (oid.FLOAT8, "d", [0.1, None, float("inf"), -float("inf"), 5e-324, -1.7976931348623157e308]),
]


@pytest.mark.parametrize(("type_oid", "code", "values"), NUMBERS)
def test_numbers(type_oid: int, code: str, values: list[Any]) -> None:
    assert build(type_oid, packed(code, *values)).to_pylist() == values
    assert build(type_oid, packed(code, *values) * 7, pieces=5).to_pylist() == values * 7


def test_float_bits_are_kept() -> None:
    patterns = [0x8000000000000000, 0x7FF8000000000001, 0xFFF8000000000000]
    array = build(oid.FLOAT8, packed("Q", *patterns))
    assert np.frombuffer(array.buffers()[1], np.uint64).tolist() == patterns


@pytest.mark.parametrize("seed", range(6))
def test_bools_at_every_bit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    b = builder(oid.BOOL)
    expected: list[bool | None] = []
    for size in rng.integers(0, 20, 30).tolist():
        part = [[True, False, None][k] for k in rng.integers(0, 3, size)]
        b.append(*stored([None if v is None else bytes((v,)) for v in part], 1))
        expected += part
    array = b.finish()
    array.validate(full=True)
    assert array.to_pylist() == expected
    assert array.null_count == expected.count(None)


def test_validity_is_left_out_where_nothing_is_null() -> None:
    for type_oid, value in ((oid.INT4, bytes(4)), (oid.BOOL, b"\1")):
        assert build(type_oid, [value] * 9).buffers()[0] is None
        assert build(type_oid, [value, None] * 9).null_count == 9


def test_dates() -> None:
    values = [0, -1, -EPOCH_DAYS, 2_145_031_948, -2_451_545, 2**31 - 1, -(2**31), None]
    array = build(oid.DATE, packed("i", *values))
    assert array[:3].to_pylist() == [date(2000, 1, 1), date(1999, 12, 31), date(1970, 1, 1)]
    raw = np.frombuffer(array.buffers()[1], np.int32)[:7].tolist()
    assert raw[3:] == [2_145_031_948 + EPOCH_DAYS, -2_451_545 + EPOCH_DAYS, DATE_INFINITY, DATE_NEG_INFINITY]
    assert array[7].as_py() is None


def test_timestamps() -> None:
    last = 9_223_371_331_199_999_999
    held = TIMESTAMP_INFINITY - 1
    first_held = held - EPOCH_MICROSECONDS
    values = [0, -1, 86_400_000_000, first_held, first_held + 1, last, -211_813_488_000_000_000, 2**63 - 1, -(2**63)]
    for type_oid in (oid.TIMESTAMP, oid.TIMESTAMPTZ):
        array = build(type_oid, packed("q", *values, None))
        start = datetime(2000, 1, 1, tzinfo=array[0].as_py().tzinfo)
        assert [v.as_py() - start for v in array[:3]] == [
            timedelta(0), timedelta(microseconds=-1), timedelta(days=1)
        ]  # fmt: skip
        assert np.frombuffer(array.buffers()[1], np.int64)[3:9].tolist() == [
            held, held, held, -211_813_488_000_000_000 + EPOCH_MICROSECONDS, TIMESTAMP_INFINITY, TIMESTAMP_NEG_INFINITY,
        ]  # fmt: skip
        assert array[9].as_py() is None


def test_times() -> None:
    b = builder(oid.TIME)
    b.append(*stored(packed("q", 0, 86_399_999_999, 86_400_000_000, None), 8))
    array = b.finish()
    assert array[:2].to_pylist() == [time(0), time(23, 59, 59, 999_999)]
    assert np.frombuffer(array.buffers()[1], np.int64).tolist() == [0, 86_399_999_999, 86_400_000_000, 0]
    assert array.null_count == 1


def test_uuids() -> None:
    values = [bytes(range(16)), None, b"\xff" * 16]
    assert build(oid.UUID, values).to_pylist() == values


BAD = [
    (oid.BOOL, b"\2"),
    (oid.BOOL, b"\xff"),
    (oid.DATE, struct.pack("<i", 2_145_031_949)),
    (oid.DATE, struct.pack("<i", -2_451_546)),
    (oid.TIME, struct.pack("<q", -1)),
    (oid.TIME, struct.pack("<q", 86_400_000_001)),
    (oid.TIMESTAMP, struct.pack("<q", 9_223_371_331_200_000_000)),
    (oid.TIMESTAMPTZ, struct.pack("<q", -211_813_488_000_000_001)),
]


@pytest.mark.parametrize(("type_oid", "value"), BAD)
def test_impossible_values_are_named(type_oid: int, value: bytes) -> None:
    good = bytes(len(value))
    with pytest.raises(BadValue) as caught:
        builder(type_oid).append(*stored([good, None, good, value, value], len(value)))
    assert caught.value.row == 3


def test_builders_start_anew_and_keep_what_they_gave() -> None:
    for type_oid, one, two in ((oid.INT4, 1, 2), (oid.BOOL, True, False)):
        width = WIDTHS[type_oid]
        b = builder(type_oid)
        n = 3 * FIRST_ROWS + 5
        b.append(*stored([int(one).to_bytes(width, "little")] * n, width))
        assert b.nbytes == (n * 4 if type_oid == oid.INT4 else n // 8)
        first = b.finish()
        assert b.nbytes == 0
        b.append(*stored([int(two).to_bytes(width, "little"), None] * (n // 2), width))
        second = b.finish()
        assert first.to_pylist() == [one] * n
        assert second.to_pylist() == [two, None] * (n // 2)
        assert len(b.finish()) == 0


def test_dates_and_times_of_a_server(pg_newest: PostgresServer) -> None:
    """What the server sends in binary is its on-disk value, big-endian."""
    dates = ["4714-11-24 BC", "0001-01-01", "1969-12-31", "2000-01-01", "5874897-12-31", "infinity", "-infinity"]
    stamps = ["4714-11-24 00:00 BC", "1969-12-31 23:59:59.999999", "294247-01-10 04:00:54.775806",
              "294276-12-31 23:59:59.999999", "infinity", "-infinity"]  # fmt: skip
    for type_oid, name, values, unit in ((oid.DATE, "date", dates, "days"), (oid.TIMESTAMP, "timestamp", stamps, "us")):
        with pg_newest.connect() as connection:
            rows = connection.execute(
                f"select v::{name}, extract(epoch from v::{name})::text from unnest(%s::text[]) v",
                (values,),
                binary=True,
            )
            raw = [rows.pgresult.get_value(i, 0)[::-1] for i in range(len(values))]  # type: ignore[union-attr,index]
            epochs = [rows.pgresult.get_value(i, 1).decode() for i in range(len(values))]  # type: ignore[union-attr]
        array = build(type_oid, raw)
        got = np.frombuffer(array.buffers()[1], np.int32 if unit == "days" else np.int64).tolist()
        for value, epoch, decoded in zip(values, epochs, got, strict=True):
            if "inf" in value:
                limit = (DATE_INFINITY, DATE_NEG_INFINITY) if unit == "days" else (
                    TIMESTAMP_INFINITY, TIMESTAMP_NEG_INFINITY)  # fmt: skip
                assert decoded == limit[value.startswith("-")]
            elif unit == "days":
                assert decoded * 86400 == round(float(epoch)), value
            else:
                exact = int(epoch.replace(".", ""))
                assert decoded == min(exact, TIMESTAMP_INFINITY - 1), value
