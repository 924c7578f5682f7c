"""numeric against Python's decimal, and against damage. Runs under NUMBA_DISABLE_JIT=1 as well."""

from __future__ import annotations

import decimal
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.decode.stored_numeric import encode, on_disk
from walshadow_core.api import DECIMAL_NAN_128, DECIMAL_NAN_256, Attribute
from walshadow_core.decode import type_oids
from walshadow_core.decode.columns import BadValue, Codec, DecodeOptions
from walshadow_core.decode.deform import KIND_NULL, KIND_VALUE
from walshadow_core.decode.type_numeric import decimal_shape, numeric_codec, precision_and_scale
from walshadow_core.decode.types import use_of

decimal.getcontext().prec = 200_000
decimal.getcontext().Emax = decimal.MAX_EMAX
decimal.getcontext().Emin = decimal.MIN_EMIN


def typmod(precision: int, scale: int) -> int:
    return ((precision << 16) | (scale & 0x7FF)) + 4


def codec(mod: int) -> Codec:
    attribute = Attribute(1, "n", type_oids.NUMERIC, "numeric", mod, -1, "i", False, "m", False)
    return numeric_codec(use_of(attribute, "UTF8", DecodeOptions()))


def decode(made: Codec, values: list[bytes | None], slack: bytes = b"") -> pa.Array:
    builder = made.builder()
    stored = [v or b"" for v in values]
    length = np.array([len(v) for v in stored], np.int32)
    offset = (np.cumsum(length) - length).astype(np.int32)
    kind = np.array([KIND_NULL if v is None else KIND_VALUE for v in values], np.uint8)
    builder.append(np.frombuffer(bytearray(b"".join(stored) + slack), np.uint8), offset, length, kind)
    array = builder.finish()
    array.validate(full=pa.types.is_string(made.arrow))
    return array


def raw(array: pa.Array) -> list[int]:
    width = array.type.byte_width
    data = array.buffers()[1].to_pybytes()
    return [int.from_bytes(data[i : i + width], "little", signed=True) for i in range(0, len(data), width)]


@st.composite
def declared(draw: st.DrawFn, limit: int) -> tuple[int, int, list[Decimal | None]]:
    """(p, s, values of numeric(p,s))"""
    precision = draw(st.integers(1, limit))
    scale = draw(st.integers(-(limit - precision), limit))
    digits = st.integers(0, precision).flatmap(lambda n: st.integers(-(10**n) + 1, 10**n - 1))
    values = digits.map(lambda u: Decimal(u).scaleb(-scale))
    return precision, scale, draw(st.lists(values | st.none(), min_size=1, max_size=20))


@pytest.mark.parametrize("limit", [38, 76])
def test_decimals_are_exact(limit: int) -> None:
    @settings(deadline=None, max_examples=300)
    @given(declared(limit), st.booleans())
    def check(case: tuple[int, int, list[Decimal | None]], long: bool) -> None:
        precision, scale, values = case
        made = codec(typmod(precision, scale))
        shape = decimal_shape(typmod(precision, scale))
        assert shape is not None
        array = decode(made, [v if v is None else encode(v, max(scale, 0), long) for v in values])
        assert array.type == (pa.decimal128(*shape) if shape[0] <= 38 else pa.decimal256(*shape))
        assert array.to_pylist() == values

    check()


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.tuples(st.integers(-(10**40), 10**40), st.integers(-80, 60), st.integers(0, 90)), max_size=20),
    st.booleans(),
)
def test_text_is_what_postgres_prints(parts: list[tuple[int, int, int]], long: bool) -> None:
    values = [(Decimal(u).scaleb(-e), max(e, d)) for u, e, d in parts]
    array = decode(codec(-1), [encode(v, dscale, long) for v, dscale in values])
    expected = [f"{v if v else abs(v):.{dscale}f}" for v, dscale in values]
    assert array.to_pylist() == expected


def test_extremes_of_unconstrained_numeric() -> None:
    values = {
        "0": on_disk(False, [], 0, 0),
        "0.000": on_disk(False, [], 0, 3),
        "NaN": b"\x00\xc0",
        "Infinity": b"\x00\xd0",
        "-Infinity": b"\x00\xf0",
        "9" * 131072 + "." + "9" * 16383: on_disk(
            False, [9999] * 32768 + [9999] * 4095 + [9990], 32767, 16383, long=True
        ),
        "-1" + "0" * 131071: on_disk(True, [1000], 32767, 0),
        "-0." + "0" * 16382 + "1": on_disk(True, [10], -4096, 16383),
    }
    array = decode(codec(-1), list(values.values()))
    assert array.to_pylist() == list(values)


def test_nan_of_decimals_is_the_least_raw_value() -> None:
    assert raw(decode(codec(typmod(10, 2)), [b"\x00\xc0", None, encode(Decimal("-1.50"), 2)])) == [
        DECIMAL_NAN_128, 0, -150,
    ]  # fmt: skip
    assert raw(decode(codec(typmod(50, 2)), [b"\x00\xc0", encode(Decimal("-1.50"), 2)])) == [DECIMAL_NAN_256, -150]


@pytest.mark.parametrize(
    ("precision", "scale", "shape"),
    [
        (10, 2, (10, 2)), (38, 38, (38, 38)), (39, 0, (39, 0)), (3, -2, (5, 0)), (2, 4, (4, 4)),
        (76, 0, (76, 0)), (77, 0, None), (40, -37, None), (1, 76, (76, 76)), (1000, 1000, None), (1, -1000, None),
    ],
)  # fmt: skip
def test_shape_by_typmod(precision: int, scale: int, shape: tuple[int, int] | None) -> None:
    assert precision_and_scale(typmod(precision, scale)) == (precision, scale)
    assert decimal_shape(typmod(precision, scale)) == shape
    assert decimal_shape(-1) is None


@pytest.mark.parametrize(
    ("mod", "stored", "words"),
    [
        (typmod(4, 2), encode(Decimal("100.00"), 2), "more digits"),
        (typmod(2, 4), encode(Decimal("0.0100"), 4), "more digits"),
        (typmod(3, -2), encode(Decimal("100000"), 0), "more digits"),
        (typmod(38, 0), encode(Decimal(10) ** 38, 0), "more digits"),
        (typmod(76, 0), encode(-(Decimal(10) ** 76), 0), "more digits"),
        (typmod(38, 10), on_disk(False, [1], 32767, 0), "more digits"),
        (typmod(4, 2), encode(Decimal("1.005"), 3), "beyond the scale"),
        (typmod(4, 2), encode(Decimal("0.00001"), 5), "beyond the scale"),
        (typmod(38, 0), on_disk(False, [1], -32768, 5), "beyond the scale"),
        (typmod(38, 18), encode(Decimal("12345678901.1234567890123456789"), 19), "beyond the scale"),
        (typmod(38, 2), on_disk(False, [1, 10, 0, 0, 1], 0, 2), "beyond the scale"),
        (typmod(4, 2), b"\x00\xd0", "infinite"),
        (typmod(4, 2), b"\x00\xe0", "header"),
        (typmod(4, 2), on_disk(False, [10000], 0, 0), "below 10000"),
        (typmod(38, 0), on_disk(False, [1, 1, 1, 1, 1, 0xFFFF], 5, 0), "below 10000"),
        (typmod(4, 2), b"", "length"),
        (typmod(4, 2), b"\x00", "length"),
        (typmod(4, 2), b"\x00\x00\x00", "length"),
        (typmod(4, 2), b"\x00\x80\x01", "length"),
        (-1, b"\x00\xc0\x00\x00", "length"),
        (-1, b"\x00\xe0", "header"),
        (-1, b"\x00", "length"),
        (-1, on_disk(False, [1, 10000], 0, 4), "below 10000"),
        (-1, on_disk(False, [10000], 0, 0), "below 10000"),
    ],
)
def test_bad_values_are_named_not_guessed(mod: int, stored: bytes, words: str) -> None:
    with pytest.raises(BadValue, match=words) as caught:
        decode(codec(mod), [encode(Decimal(0), 0), None, stored])
    assert caught.value.row == 2


@settings(deadline=None, max_examples=300)
@given(st.sampled_from([typmod(10, 2), typmod(38, 19), typmod(76, 30), -1]), st.lists(st.binary(max_size=24)))
def test_any_bytes_give_a_value_or_bad_value(mod: int, stored: list[bytes]) -> None:
    try:
        array = decode(codec(mod), list(stored))
    except BadValue as bad:
        assert 0 <= bad.row < len(stored)
    else:
        assert len(array) == len(stored)


def test_a_value_outside_the_buffer_is_refused() -> None:
    for mod in (typmod(10, 2), -1):
        for start, many in ((-1, 4), (2, 100), (6, 2)):
            with pytest.raises(BadValue, match="length"):
                codec(mod).builder().append(
                    np.frombuffer(bytearray(b"\x00\x80\x01\x00\x00\x80"), np.uint8),
                    np.array([start], np.int32), np.array([many], np.int32), np.array([KIND_VALUE], np.uint8),
                )  # fmt: skip


def test_text_over_many_appends() -> None:
    builder = codec(-1).builder()
    texts = [f"{i * 7919}.{i % 100:02}" for i in range(3000)]
    for start in range(0, len(texts), 1000):
        part = [encode(Decimal(t), 2) for t in texts[start : start + 1000]]
        length = np.array([len(v) for v in part], np.int32)
        builder.append(
            np.frombuffer(bytearray(b"".join(part)), np.uint8),
            (np.cumsum(length) - length).astype(np.int32), length, np.full(len(part), KIND_VALUE, np.uint8),
        )  # fmt: skip
    assert builder.finish().to_pylist() == texts
    assert len(builder.finish()) == 0
