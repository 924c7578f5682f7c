"""Ranges, multiranges and enums, made by hand. Runs under NUMBA_DISABLE_JIT=1 as well."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stored_values import (
    BOOL,
    INT4,
    TEXT,
    append,
    array,
    array_of,
    build,
    codec_of,
    enum_of,
    long,
    multirange_of,
    multirange_value,
    range_of,
    range_value,
    short,
)
from walshadow_core.decode import type_range
from walshadow_core.decode.columns import BadValue
from walshadow_core.decode.text_range import EMPTY, LOWER_INCLUSIVE, LOWER_INFINITE, UPPER_INCLUSIVE, UPPER_INFINITE

Range = tuple[int, list[str]]

WORDS = st.sampled_from(["", "a b", '"', "\\", "(", ")", "[", "]", ",", "\t", "\v", "é", "NULL"]) | st.text(
    st.characters(exclude_characters="\0", codec="utf-8")
)


@st.composite
def ranges(draw: st.DrawFn) -> Range:
    flags = draw(st.integers(0, 31))
    bounds = 0 if flags & EMPTY else (not flags & LOWER_INFINITE) + (not flags & UPPER_INFINITE)
    return flags, draw(st.lists(WORDS, min_size=bounds, max_size=bounds))


def quoted(text: str) -> str:
    if text == "" or set('"\\()[], \t\n\r\v\f') & set(text):
        return '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'
    return text


def printed(value: Range) -> str:
    flags, bounds = value
    if flags & EMPTY:
        return "empty"
    left = list(map(quoted, bounds))
    lower = "" if flags & LOWER_INFINITE else left.pop(0)
    upper = "" if flags & UPPER_INFINITE else left.pop(0)
    return f"{'[' if flags & LOWER_INCLUSIVE else '('}{lower},{upper}{']' if flags & UPPER_INCLUSIVE else ')'}"


def stored(text: str) -> bytes:
    data = text.encode()
    return short(data) if len(data) < 126 and len(data) % 3 else long(data)


@settings(deadline=None, max_examples=60)
@given(st.lists(ranges() | st.none(), max_size=9))
def test_ranges_of_texts(rows: list[Range | None]) -> None:
    known = range_of(TEXT)
    payloads = [row and range_value(row[0], list(map(stored, row[1])), known) for row in rows]
    assert build(codec_of(known), payloads, payloads).to_pylist() == [row and printed(row) for row in rows] * 2
    assert build(codec_of(known, "text"), payloads).to_pylist() == [row and printed(row) for row in rows]


@pytest.mark.parametrize("chunk", [2, 3, type_range.CHUNK])
def test_multiranges_of_texts(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type_range, "CHUNK", chunk)
    known = multirange_of(TEXT)

    @settings(deadline=None, max_examples=20)
    @given(st.lists(st.lists(ranges(), max_size=9) | st.none(), max_size=5))
    def check(rows: list[list[Range] | None]) -> None:
        payloads = [
            None if row is None else multirange_value([(f, list(map(stored, b))) for f, b in row], known)
            for row in rows
        ]
        expected = [None if row is None else "{" + ",".join(map(printed, row)) + "}" for row in rows]
        assert build(codec_of(known), payloads, payloads).to_pylist() == expected * 2

    check()


def test_arrays_of_ranges_of_arrays() -> None:
    inner = range_of(array_of(INT4))
    bound = long(array([struct.pack("<i", 1), None], INT4))
    value = range_value(LOWER_INCLUSIVE | UPPER_INFINITE, [bound], inner)
    outer = array([long(value), None], inner)
    assert build(codec_of(array_of(inner), "text"), [outer]).to_pylist() == [r'{"[\"{1,NULL}\",)",NULL}']
    assert build(codec_of(array_of(inner)), [outer]).to_pylist() == [['["{1,NULL}",)', None]]


@pytest.mark.parametrize("chunk", [2, 5])
def test_rows_of_errors(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type_range, "CHUNK", chunk)
    known = multirange_of(BOOL)
    good, bad = [(0, [b"\0", b"\1"])] * 4, [(0, [b"\0", b"\1"])] * 2 + [(0, [b"\0", b"\3"])]
    with pytest.raises(BadValue, match="a bound of a range: not a value of bool") as error:
        build(codec_of(known), [multirange_value(v, known) if v is not None else None for v in (good, None, good, bad)])
    assert error.value.row == 3


def test_damage_is_named_with_its_row() -> None:
    one, many = range_of(INT4), multirange_of(INT4)
    good = range_value(LOWER_INCLUSIVE, [struct.pack("<i", 1), struct.pack("<i", 2)], one)
    goods = multirange_value([(LOWER_INCLUSIVE, [struct.pack("<i", 1), struct.pack("<i", 2)])] * 2, many)
    wrong = {
        "r": [good[:4], b"", struct.pack("<I", 9) + good[4:], good[:-1], good[:-5]],
        "m": [goods[:7], b"", struct.pack("<I", 9) + goods[4:], goods[:4] + b"\3" + goods[5:], goods[:-1], goods[:9],
              goods[:4] + b"\xff\xff\xff\xff" + goods[8:]],
    }  # fmt: skip
    for known, fine in ((one, good), (many, goods)):
        for payload in wrong[known.kind]:
            builder = codec_of(known).builder()
            append(builder, [fine])
            with pytest.raises(BadValue, match="a range runs past its end") as error:
                append(builder, [fine, None, payload])
            assert error.value.row == 2


def test_enum_labels() -> None:
    known = enum_of(**{"sad": 16390, "so so": 5, "": 4294967295, "é" * 30: 16400})
    order = [5, 4294967295, 16390, 16390, 16400, 5]
    labels = dict(known.labels)
    payloads = [struct.pack("<I", number) for number in order]
    for form in ("own", "text"):
        made = build(codec_of(known, form), [*payloads, None], payloads)  # type: ignore[arg-type]
        assert made.to_pylist() == [*map(labels.get, order), None, *map(labels.get, order)]
    for other in (known, enum_of()):
        with pytest.raises(BadValue, match="not a label of mood") as error:
            build(codec_of(other), [None, struct.pack("<I", 6)])
        assert error.value.row == 1
