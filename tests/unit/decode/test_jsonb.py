"""jsonb: text as jsonb_out prints it, nesting, growth, encodings, and damage. Runs under NUMBA_DISABLE_JIT=1 as well."""

from __future__ import annotations

import struct
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stored_values import append
from tests.unit.decode.built import codec, decoded, use
from tests.unit.decode.stored_json import SCALARS, VALUES, printed, stored
from walshadow_core.decode import columns, type_oids
from walshadow_core.decode import type_jsonb as jb
from walshadow_core.decode.columns import BadValue, DecodeOptions

SMALL = 1024
"""Bytes of a buffer that is soon full."""

USE = use(type_oids.JSONB, "jsonb")


def texts(*payloads: bytes | None) -> list[Any]:
    return decoded(codec(USE), payloads)


@settings(deadline=None, max_examples=60)
@given(st.lists(VALUES, max_size=5))
def test_text_is_what_postgres_prints(values: list[Any]) -> None:
    assert texts(*map(stored, values)) == [printed(v) for v in values]


@settings(deadline=None, max_examples=15)
@given(st.lists(SCALARS, min_size=60, max_size=110))
def test_entries_with_offsets_and_with_lengths(values: list[Any]) -> None:
    pairs = {f"k{i}": v for i, v in enumerate(values)}
    assert texts(stored(values), None, stored(pairs)) == [printed(values), None, printed(pairs)]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("", '""'),
        ([], "[]"),
        ({}, "{}"),
        ([[]], "[[]]"),
        ({"": {"": [None]}}, '{"": {"": [null]}}'),
        ('\b\f\n\r\t"\\/\x01\x1f\x7f', '"\\b\\f\\n\\r\\t\\"\\\\/\\u0001\\u001f\x7f"'),
        (Decimal("-0.0010"), "-0.0010"),
        (Decimal("1.50"), "1.50"),
        ([True, False, None], "[true, false, null]"),
    ],
)
def test_known_values(value: Any, text: str) -> None:
    assert texts(stored(value)) == [text]


@pytest.mark.parametrize("where", range(20))
def test_an_escape_at_every_place_of_a_string(where: int) -> None:
    value = ["x" * where + '"' + "y" * (20 - where), "\n" * where]
    assert texts(stored(value)) == [printed(value)]


def test_any_depth() -> None:
    value: Any = "leaf"
    for k in range(300):
        value = [value, k] if k % 2 else {"k": value}
    assert texts(stored(value)) == [printed(value)]


def test_values_that_do_not_fit_into_the_first_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "FIRST_BYTES", SMALL)
    values = ["\x01" * (SMALL // 6), {"a": ["b" * (SMALL // 3)] * 3}, [1] * 500]
    assert texts(*map(stored, values)) == [printed(v) for v in values]


def test_text_of_another_encoding_is_transcoded_with_its_escapes() -> None:
    latin = stored("caf_\n").replace(b"_", b"\xe9")
    array = decoded(codec(use(type_oids.JSONB, "jsonb", encoding="LATIN1")), [latin])
    assert array == ['"café\\n"']


def refused(payload: bytes) -> None:
    builder = codec(USE).builder()
    with pytest.raises(BadValue, match="not a value of jsonb") as caught:
        append(builder, [None, stored([1]), payload])
    assert caught.value.row == 2


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\1\0\0",
        struct.pack("<I", jb.ARRAY | 1),
        struct.pack("<I", jb.OBJECT | 1) + bytes(4),
        struct.pack("<I", jb.ARRAY | jb.OBJECT),
        struct.pack("<I", 0),
        struct.pack("<I", jb.SCALAR | jb.ARRAY),
        struct.pack("<II", jb.SCALAR | jb.OBJECT | 1, jb.NULL),
        struct.pack("<II", jb.ARRAY | 1, 0x60000000),
        struct.pack("<II", jb.ARRAY | 1, jb.STRING | 1),
        struct.pack("<II", jb.ARRAY | 1, jb.NUMERIC | 4) + bytes(4),
        struct.pack("<III", jb.ARRAY | 1, jb.NUMERIC | 4, 10 << 2),
        struct.pack("<III", jb.OBJECT | 1, jb.NUMERIC, jb.NULL),
        struct.pack("<III", jb.ARRAY | jb.SCALAR | 1, jb.CONTAINER | 4, jb.ARRAY),
    ],
)
def test_damage_is_a_bad_value(payload: bytes) -> None:
    refused(payload)


def test_children_that_overlap_are_damage() -> None:
    inner = stored(["a"] * 3)
    shared = struct.pack("<I", jb.ARRAY | 2) + struct.pack("<I", jb.CONTAINER | jb.HAS_OFF | len(inner)) * 2 + inner
    # The second one ends where the first does, so that nothing is left for it.
    refused(shared)
    refused(struct.pack("<IIII", jb.ARRAY | 3, jb.HAS_OFF | 4, jb.HAS_OFF | 1, 0) + b"abcd")


def test_bytes_as_they_are_under_the_policy_bytes() -> None:
    made = codec(replace(USE, encoding="MULE_INTERNAL", options=DecodeOptions(invalid_text="bytes")))
    assert made.arrow == pa.binary()
    assert decoded(made, [stored("_").replace(b"_", b"\xff")]) == [b'"\xff"']
