"""timetz and interval against a Python reference; Postgres itself is asked in test_types_oracle."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from walshadow_core.api import Attribute
from walshadow_core.decode import type_oids
from walshadow_core.decode.columns import BadValue, DecodeOptions
from walshadow_core.decode.deform import KIND_NULL, KIND_VALUE
from walshadow_core.decode.type_datetime import CODECS, DAY_MICROSECONDS
from walshadow_core.decode.types import use_of

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


def decode(type_oid: int, width: int, values: list[bytes | None]) -> pa.Array:
    attribute = Attribute(1, "c", type_oid, "", -1, width, "d", False, "p", False)
    builder = CODECS[type_oid](use_of(attribute, "UTF8", DecodeOptions())).builder()
    stored = [bytes(width) if v is None else v for v in values]
    length = np.array([len(v) for v in stored], np.int32)
    kind = np.array([KIND_NULL if v is None else KIND_VALUE for v in values], np.uint8)
    builder.append(
        np.frombuffer(bytearray(b"".join(stored)), np.uint8), (np.cumsum(length) - length).astype(np.int32),
        length, kind,
    )  # fmt: skip
    array = builder.finish()
    array.validate(full=True)
    return array


def timetz(micros: int, zone: int) -> bytes:
    return struct.pack("<qi", micros, zone)


def interval(micros: int, days: int, months: int) -> bytes:
    return struct.pack("<qii", micros, days, months)


def clock(micros: int) -> str:
    minutes, rest = divmod(micros, 60_000_000)
    fraction = f".{rest % 1_000_000:06}".rstrip("0").rstrip(".")
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1_000_000:02}{fraction}"


def interval_text(micros: int, days: int, months: int) -> str:
    words: list[str] = []
    before = False
    sign = -1 if months < 0 else 1
    for value, unit in ((sign * (abs(months) // 12), "year"), (sign * (abs(months) % 12), "mon"), (days, "day")):
        if value:
            words.append(f"{'+' if before and value > 0 else ''}{value} {unit}{'' if value == 1 else 's'}")
            before = value < 0
    if micros or not words:
        words.append(("-" if micros < 0 else "+" if before else "") + clock(abs(micros)))
    return " ".join(words)


@settings(deadline=None, max_examples=300)
@given(st.lists(st.none() | st.tuples(st.integers(0, DAY_MICROSECONDS), st.integers(-57599, 57599)), max_size=30))
def test_timetz(values: list[tuple[int, int] | None]) -> None:
    expected: list[str | None] = []
    for value in values:
        if value is None:
            expected.append(None)
            continue
        away = abs(value[1])
        zone = f"{away // 3600:02}:{away // 60 % 60:02}:{away % 60:02}".removesuffix(":00").removesuffix(":00")
        expected.append(f"{clock(value[0])}{'-' if value[1] > 0 else '+'}{zone}")
    assert decode(type_oids.TIMETZ, 12, [v and timetz(*v) for v in values]).to_pylist() == expected


INFINITE = ((-(2**63), -(2**31), -(2**31)), (2**63 - 1, 2**31 - 1, 2**31 - 1))
"""What stands for -infinity and infinity, see test_interval_extremes."""


@settings(deadline=None, max_examples=500)
@given(
    st.lists(
        st.none()
        | st.tuples(
            INT64 | st.integers(-3, 3).map(lambda s: s * 1_000_000) | st.just(0),
            INT32 | st.integers(-2, 2),
            INT32 | st.integers(-25, 25),
        ).filter(lambda value: value not in INFINITE),
        max_size=30,
    )
)
def test_interval(values: list[tuple[int, int, int] | None]) -> None:
    expected = [v and interval_text(*v) for v in values]
    assert decode(type_oids.INTERVAL, 16, [v and interval(*v) for v in values]).to_pylist() == expected


def test_interval_extremes() -> None:
    least, most = INFINITE
    values = {
        "infinity": most,
        "-infinity": least,
        "-178956970 years -8 mons -2147483648 days -2562047788:00:54.775807": (least[0] + 1, *least[1:]),
        "-178956970 years -8 mons -2147483647 days -2562047788:00:54.775808": (least[0], least[1] + 1, least[2]),
        "178956970 years 7 mons 2147483647 days 2562047788:00:54.775806": (most[0] - 1, *most[1:]),
        "-00:00:01": (-1_000_000, 0, 0),
        "-1 days +00:00:00.5": (500_000, -1, 0),
        "1 day -00:00:00.5": (-500_000, 1, 0),
        "-1 years +2 days": (0, 2, -12),
        "00:00:00": (0, 0, 0),
    }
    assert decode(type_oids.INTERVAL, 16, [interval(*v) for v in values.values()]).to_pylist() == list(values)


@pytest.mark.parametrize(
    "bad",
    [
        timetz(-1, 0), timetz(DAY_MICROSECONDS + 1, 0), timetz(0, 57600), timetz(0, -57600),
        timetz(0, -(2**31)), timetz(0, 0)[:-1], b"",
    ],
)  # fmt: skip
def test_timetz_out_of_range_is_bad(bad: bytes) -> None:
    with pytest.raises(BadValue, match="time zone") as caught:
        decode(type_oids.TIMETZ, 12, [timetz(0, 0), bad])
    assert caught.value.row == 1


def test_interval_of_another_length_is_bad() -> None:
    with pytest.raises(BadValue, match="interval"):
        decode(type_oids.INTERVAL, 16, [interval(0, 0, 0)[:-1]])


def test_columns_grow() -> None:
    values = [(i * 1_000_003, i - 5000, i) for i in range(20_000)]
    array = decode(type_oids.INTERVAL, 16, [interval(*v) for v in values])
    assert array.to_pylist() == [interval_text(*v) for v in values]
