"""Composites against plain models of them, and against damage. Runs under NUMBA_DISABLE_JIT=1 as well."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stored_values import (
    BOOL,
    INT2,
    INT4,
    INT8,
    TEXT,
    append,
    array,
    array_of,
    build,
    codec_of,
    composite,
    composite_of,
    domain_of,
    long,
    short,
)
from walshadow_core.decode import type_composite
from walshadow_core.decode.columns import BadValue

RECORD = composite_of(a=INT4, b=TEXT, gone=None, c=INT8, d=BOOL)


def quoted(text: str | None) -> str:
    """A field as record_out prints it."""
    if text is None:
        return ""
    if text == "" or set('"\\(), \t\n\r\v\f') & set(text):
        return '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'
    return text


WORDS = st.sampled_from(["", "NULL", "a b", '"', "\\", "(", ")", ",", "\t", "\v", "\n", "é", "plain"])


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.integers(-(2**31), 2**31 - 1) | st.none(),
            WORDS | st.text(st.characters(exclude_characters="\0", codec="utf-8")) | st.none(),
            st.integers(-(2**63), 2**63 - 1) | st.none(),
            st.booleans() | st.none(),
            st.integers(0, 5),
        )
        | st.none(),
        max_size=8,
    )
)
def test_values_with_nulls_and_fewer_fields(rows: list[tuple[Any, ...] | None]) -> None:
    payloads: list[bytes | None] = []
    values: list[dict[str, Any] | None] = []
    for row in rows:
        if row is None:
            payloads.append(None)
            values.append(None)
            continue
        a, b, c, d, natts = row
        stored = [
            a if a is None else struct.pack("<i", a),
            b if b is None else (short if len(b.encode()) < 126 and natts % 2 else long)(b.encode()),
            None if natts % 2 else bytes(4),
            c if c is None else struct.pack("<q", c),
            d if d is None else bytes((d,)),
        ]
        payloads.append(composite(stored[:natts], RECORD))
        fields = zip(("a", "b", "gone", "c", "d"), (a, b, None, c, d), strict=True)
        values.append({name: v if k < natts else None for k, (name, v) in enumerate(fields) if name != "gone"})
    assert build(codec_of(RECORD), payloads, payloads).to_pylist() == values * 2

    def text(value: Any) -> str:
        if isinstance(value, bool):
            return "ft"[value]
        return quoted(value if value is None or isinstance(value, str) else str(value))

    expected = [v and "(" + ",".join(map(text, v.values())) + ")" for v in values]
    assert build(codec_of(RECORD, "text"), payloads, payloads).to_pylist() == expected * 2


def test_composites_in_composites() -> None:
    outer = composite_of(x=RECORD, y=array_of(TEXT), z=domain_of(RECORD))
    inner = composite([struct.pack("<i", 1), short(b"a,b")], RECORD)
    stored = composite([long(inner), short(array([short(b"q w")], TEXT)), short(inner)], outer)
    value = {"a": 1, "b": "a,b", "c": None, "d": None}
    assert build(codec_of(outer), [stored, None]).to_pylist() == [{"x": value, "y": ["q w"], "z": value}, None]
    text = r'("(1,""a,b"",,)","{""q w""}","(1,""a,b"",,)")'
    assert build(codec_of(outer, "text"), [stored, None]).to_pylist() == [text, None]


def test_a_type_without_fields() -> None:
    nothing = composite_of()
    stored = composite([], nothing)
    assert build(codec_of(nothing), [stored, None]).to_pylist() == [{}, None]
    assert build(codec_of(nothing, "text"), [stored, None]).to_pylist() == ["()", None]


def test_fields_may_be_compressed_in_line() -> None:
    """Postgres flattens a composite that has an out-of-line field, and leaves compressed ones alone otherwise."""
    # pglz: a control byte, three literals, a match of 3 bytes at distance 3.
    stream = bytes((0b0001000,)) + b"abc" + bytes((0x00, 0x03))
    compressed = struct.pack("<II", (8 + len(stream)) << 2 | 2, 6) + stream
    stored = [composite([struct.pack("<i", k), compressed if k % 2 else short(b"plain")], RECORD) for k in range(3)]
    assert [v["b"] for v in build(codec_of(RECORD), stored).to_pylist()] == ["plain", "abcabc", "plain"]
    assert build(codec_of(RECORD, "text"), stored[1:2]).to_pylist() == ["(1,abcabc,,)"]
    outside = composite([bytes(4), b"\x01\x12" + bytes(16)], RECORD)
    with pytest.raises(BadValue, match='field "b"'):
        build(codec_of(RECORD), [outside])


@pytest.mark.parametrize("stretch", [1, 3])
def test_rows_of_errors_count_over_stretches(stretch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type_composite, "STRETCH", stretch)
    flag = composite_of(f=BOOL, s=INT2)
    rows = [composite([bytes((k % 2,)), struct.pack("<h", k)], flag) for k in range(10)]
    assert build(codec_of(flag), rows).to_pylist() == [{"f": k % 2 == 1, "s": k} for k in range(10)]
    with pytest.raises(BadValue, match='field "f": not a value of bool') as error:
        build(codec_of(flag), [*rows, None, composite([b"\2", bytes(2)], flag)])
    assert error.value.row == 11


GOOD = composite([struct.pack("<i", 1), None, None, struct.pack("<q", 2)], RECORD)
WRONG = {
    "shorter than a header": GOOD[:19],
    "another type": GOOD[:4] + struct.pack("<I", 77) + GOOD[8:],
    "data before the header's end": GOOD[:18] + b"\x10" + GOOD[19:],
    "data not aligned": GOOD[:18] + b"\x1c" + GOOD[19:],
    "data past the end": GOOD[:18] + b"\xf8" + GOOD[19:],
    "more fields than the type": GOOD[:14] + b"\x06" + GOOD[15:],
    "a bitmap past the header": GOOD[:14] + b"\xff" + GOOD[15:],
    "a field cut off": GOOD[:-1],
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("form", ["own", "text"])
def test_damage_is_named_with_its_row(what: str, form: Any) -> None:
    builder = codec_of(RECORD, form).builder()
    append(builder, [GOOD])
    with pytest.raises(BadValue) as error:
        append(builder, [GOOD, None, WRONG[what]])
    assert error.value.row == 2
