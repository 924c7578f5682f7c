"""The text of floats: forms, bounds, and that it reads back as the same bits. The server's word on hundreds of
thousands of values is in tests/integration/types/test_float_text.py."""

from __future__ import annotations

import math
import struct
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.decode.built import codec, decoded, use
from walshadow_core.decode import type_oids as oid

FLOAT8 = codec(use(oid.FLOAT8, "float8", length=8), "text")
FLOAT4 = codec(use(oid.FLOAT4, "float4", length=4), "text")


def text8(*values: float) -> list[str]:
    return decoded(FLOAT8, [struct.pack("<d", v) for v in values])


def text4(*values: float) -> list[str]:
    return decoded(FLOAT4, [struct.pack("<f", v) for v in values])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (-0.0, "-0"), (1.0, "1"), (-1.5, "-1.5"), (math.inf, "Infinity"), (-math.inf, "-Infinity"),
        (math.nan, "NaN"), (0.1, "0.1"), (0.0001, "0.0001"), (0.00001, "1e-05"), (1e14, "100000000000000"),
        (1e15, "1e+15"), (123456789012345.6, "123456789012345.6"), (1e20, "1e+20"), (1.5e300, "1.5e+300"),
        (5e-324, "5e-324"), (1.7976931348623157e308, "1.7976931348623157e+308"),
        (-2.2250738585072014e-308, "-2.2250738585072014e-308"), (2.5e-310, "2.5e-310"), (100.0, "100"),
        # The midpoint itself, which has fewer digits and reads back right, is not taken.
        (1e23, "9.999999999999999e+22"), (9007199254740993.0, "9.007199254740992e+15"), (-68659681752636816.0, "-6.8659681752636816e+16"),
    ],
)  # fmt: skip
def test_float8(value: float, text: str) -> None:
    assert text8(value) == [text]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (-0.0, "-0"), (123456.0, "123456"), (1e6, "1e+06"), (1234567.0, "1.234567e+06"), (0.1, "0.1"),
        (3.4028235e38, "3.4028235e+38"), (1e-45, "1e-45"), (-1.17549435e-38, "-1.1754944e-38"), (math.nan, "NaN"),
        (0.0001, "0.0001"), (0.00001, "1e-05"), (121636864.0, "1.21636864e+08"), (-math.inf, "-Infinity"),
    ],
)  # fmt: skip
def test_float4(value: float, text: str) -> None:
    assert text4(value) == [text]


def significant(text: str) -> int:
    return len(Decimal(text).normalize().as_tuple().digits)


@given(st.lists(st.integers(0, 2**64 - 1).map(lambda b: struct.unpack("<d", struct.pack("<Q", b))[0]), max_size=20))
@example([5e-324, 1e-323, 2.2250738585072014e-308, 2.225073858507201e-308])
def test_float8_reads_back_with_no_more_digits_than_needed(values: list[float]) -> None:
    for value, text in zip(values, text8(*values), strict=True):
        if math.isfinite(value):
            assert struct.pack("<d", float(text)) == struct.pack("<d", value)
            # One digit more than Python's where the shortest decimal is a midpoint.
            assert significant(repr(value)) <= significant(text) <= 17
        else:
            assert text == ("NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity")


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=20))
def test_float4_reads_back(values: list[float]) -> None:
    for value, text in zip(values, text4(*values), strict=True):
        assert np.float32(text).tobytes() == np.float32(value).tobytes()
        assert significant(text) <= 9
