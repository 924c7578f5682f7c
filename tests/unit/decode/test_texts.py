"""Texts of the simple types at their edges; the server's word on thousands of values is in test_container_types."""

from __future__ import annotations

import datetime
import random
import struct

import pytest

from tests.stored_values import INT2, INT4, INT8, TEXT, append, build, codec_of
from walshadow_core.api import PgType
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.columns import BadValue


def of(type_oid: int, length: int) -> PgType:
    return PgType(type_oid, "pg_catalog", "it", "b", length, "c", False)


@pytest.mark.parametrize("known", [INT2, INT4, INT8], ids=lambda t: t.name)
def test_integers(known: PgType) -> None:
    bits = 8 * known.length
    layout = {2: "<h", 4: "<i", 8: "<q"}[known.length]
    values = [0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))]
    values += [s * 10**k + d for k in range(19) for s in (1, -1) for d in (-1, 0, 1) if 10**k < 2 ** (bits - 1) - 1]
    payloads = [struct.pack(layout, v) for v in values]
    assert build(codec_of(known, "text"), [*payloads, None]).to_pylist() == [*map(str, values), None]


def test_days_of_the_calendar() -> None:
    epoch = datetime.date(2000, 1, 1).toordinal()
    rng = random.Random(5)
    days = [1, 59, 60, 365, 366, 36524, 36525, 146096, 146097, 146098, datetime.date.max.toordinal()]
    days += [rng.randrange(1, 3652059) for _ in range(300)]
    expected = [datetime.date.fromordinal(day).isoformat() for day in days]
    payloads = [struct.pack("<i", day - epoch) for day in days]
    assert build(codec_of(of(oid.DATE, 4), "text"), payloads).to_pylist() == expected
    micros = [struct.pack("<q", (day - epoch) * 86_400_000_000 - 1) for day in days[1:]]
    before = [datetime.date.fromordinal(day - 1).isoformat() + " 23:59:59.999999" for day in days[1:]]
    assert build(codec_of(of(oid.TIMESTAMP, 8), "text"), micros).to_pylist() == before
    assert build(codec_of(of(oid.TIMESTAMPTZ, 8), "text"), micros).to_pylist() == [b + "+00" for b in before]


def test_bytes_and_one_byte() -> None:
    values = [b"", b"\0\xff", bytes(range(256)) * 300]
    assert build(codec_of(of(oid.BYTEA, -1), "text"), values).to_pylist() == ["\\x" + v.hex() for v in values]
    for known in (of(oid.BYTEA, -1), TEXT, of(999999, -1)):
        assert build(codec_of(known, "hex"), [*values, None]).to_pylist() == [*(v.hex() for v in values), None]
    chars = [bytes((k,)) for k in range(256)]
    expected = ["" if k == 0 else chr(k) if k < 128 else f"\\{k:o}" for k in range(256)]
    assert build(codec_of(of(oid.CHAR, 1), "text"), chars).to_pylist() == expected


@pytest.mark.parametrize(
    ("type_oid", "layout", "wrong"),
    [
        (oid.BOOL, "<B", 2),
        (oid.DATE, "<i", -2_451_546),
        (oid.DATE, "<i", 2_145_031_949),
        (oid.TIME, "<q", -1),
        (oid.TIME, "<q", 86_400_000_001),
        (oid.TIMESTAMP, "<q", 9_223_371_331_200_000_000),
        (oid.TIMESTAMPTZ, "<q", -211_813_488_000_000_001),
    ],
)
def test_impossible_values_are_named_with_their_row(type_oid: int, layout: str, wrong: int) -> None:
    builder = codec_of(of(type_oid, struct.calcsize(layout)), "text").builder()
    with pytest.raises(BadValue, match="not a value of it") as error:
        append(builder, [None, struct.pack(layout, 0), struct.pack(layout, wrong)])
    assert error.value.row == 2
