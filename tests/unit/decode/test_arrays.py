"""Arrays against plain models of them, and against damage. Runs under NUMBA_DISABLE_JIT=1 as well."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
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
    enum_of,
    long,
    short,
)
from walshadow_core.api import PgType
from walshadow_core.decode import type_array
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.columns import BadValue, DecodeOptions

FORMATS = {INT2.name: "<h", INT4.name: "<i", INT8.name: "<q"}


def quoted(text: str | None, delimiter: str = ",") -> str:
    """An element as array_out prints it."""
    if text is None:
        return "NULL"
    special = set('"\\{} \t\n\r\v\f' + delimiter)
    if text == "" or text.upper() == "NULL" or special & set(text):
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return text


def printed(values: Any, lows: list[int], dims: list[int]) -> str:
    """A nested list of already quoted elements."""

    def inner(part: Any) -> str:
        return "{" + ",".join(map(inner, part)) + "}" if isinstance(part, list) else part

    bounds = "".join(f"[{low}:{low + dim - 1}]" for low, dim in zip(lows, dims, strict=True))
    return (f"{bounds}=" if any(low != 1 for low in lows) else "") + inner(values)


def nested(flat: list[Any], dims: list[int]) -> list[Any]:
    for dim in reversed(dims[1:]):
        flat = [flat[k : k + dim] for k in range(0, len(flat), dim)]
    return flat


@st.composite
def int_arrays(draw: st.DrawFn, element: PgType) -> tuple[list[int | None], list[int], list[int]]:
    """(elements, dimensions, lower bounds)"""
    dims = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    count = 1
    for dim in dims:
        count *= dim
    bits = 8 * element.length - 1
    values = draw(st.lists(st.integers(-(2**bits), 2**bits - 1) | st.none(), min_size=count, max_size=count))
    lows = draw(
        st.just([1] * len(dims)) | st.lists(st.integers(-(2**31), 2**31 - 5), min_size=len(dims), max_size=len(dims))
    )
    return values, dims, lows


@pytest.mark.parametrize("element", [INT2, INT4, INT8], ids=lambda t: t.name)
def test_numbers_of_any_shape(element: PgType) -> None:
    layout = FORMATS[element.name]
    known = array_of(element)

    @settings(deadline=None, max_examples=20)
    @given(st.lists(int_arrays(element) | st.none(), max_size=8))
    def check(cases: list[tuple[list[int | None], list[int], list[int]] | None]) -> None:
        payloads = [
            case and array([v if v is None else struct.pack(layout, v) for v in case[0]], element, case[1], case[2])
            for case in cases
        ]
        texts = [
            case
            and printed(nested([quoted(None if v is None else str(v)) for v in case[0]], case[1]), case[2], case[1])
            for case in cases
        ]
        assert build(codec_of(known, "text"), payloads, payloads[::-1]).to_pylist() == texts + texts[::-1]
        for dimensions in (1, 2, 3):
            fitting = [case for case in cases if case is None or (len(case[1]) == dimensions and set(case[2]) == {1})]
            stored = [p for p, case in zip(payloads, cases, strict=True) if case in fitting]
            empty = array([], element, [])
            made = build(codec_of(known, dimensions=dimensions), [*stored, empty], [empty, *stored])
            expected = [case and nested(case[0], case[1]) for case in fitting]
            assert made.to_pylist() == [*expected, [], [], *expected]

    check()


TRICKY = st.sampled_from(
    ["", "NULL", "null", "nULl", "nulls", "NUL", "a b", '"', "\\", "{", "}", ",", "\t", "\v", "\n", ";", "é"]
)


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.lists(TRICKY | st.text(st.characters(exclude_characters="\0", codec="utf-8")) | st.none(), max_size=9))
)
def test_texts(arrays: list[list[str | None]]) -> None:
    payloads = []
    for k, values in enumerate(arrays):
        stored = [v if v is None else (short if len(v.encode()) < 126 and k % 2 else long)(v.encode()) for v in values]
        payloads.append(array(stored, TEXT, [len(values)] if values else []))
    assert build(codec_of(array_of(TEXT)), payloads).to_pylist() == arrays
    expected = ["{" + ",".join(map(quoted, values)) + "}" for values in arrays]
    assert build(codec_of(array_of(TEXT), "text"), payloads).to_pylist() == expected


def test_the_delimiter_is_the_element_types() -> None:
    box = PgType(TEXT.oid, "pg_catalog", "box", "b", -1, "i", False, delimiter=";")
    stored = array([short(b"a,b"), short(b"c;d"), None], box)
    assert build(codec_of(array_of(box), "text"), [stored]).to_pylist() == ['{a,b;"c;d";NULL}']


def test_elements_that_are_containers_themselves() -> None:
    inner = composite_of(a=INT4, b=TEXT)
    record = composite([struct.pack("<i", 5), short(b'x "y"')], inner)
    stored = array([long(record), None], inner)
    assert build(codec_of(array_of(inner)), [stored]).to_pylist() == [[{"a": 5, "b": 'x "y"'}, None]]
    assert build(codec_of(array_of(inner), "text"), [stored]).to_pylist() == [r'{"(5,\"x \"\"y\"\"\")",NULL}']
    words = domain_of(array_of(TEXT))
    stored = array([long(array([short(b"a"), short(b"b c")], TEXT))], words)
    assert build(codec_of(array_of(words)), [stored]).to_pylist() == [[["a", "b c"]]]
    assert build(codec_of(array_of(words), "text"), [stored]).to_pylist() == [r'{"{a,\"b c\"}"}']
    mood = enum_of(sad=3, ok=1)
    stored = array([struct.pack("<I", 3), struct.pack("<I", 1)], mood)
    assert build(codec_of(array_of(mood)), [stored]).to_pylist() == [["sad", "ok"]]


def test_bools_keep_their_letters() -> None:
    stored = array([b"\1", b"\0", None], BOOL)
    assert build(codec_of(array_of(BOOL)), [stored]).to_pylist() == [[True, False, None]]
    assert build(codec_of(array_of(BOOL), "text"), [stored]).to_pylist() == ["{t,f,NULL}"]
    for known in (BOOL, domain_of(domain_of(BOOL))):
        assert build(codec_of(known, "text"), [b"\1", b"\0"]).to_pylist() == ["true", "false"]


def test_text_is_converted_before_it_is_quoted() -> None:
    stored = array([short("é ".encode("latin-1")), short(b"e")], TEXT)
    assert build(codec_of(array_of(TEXT), "text", encoding="LATIN1"), [stored]).to_pylist() == ['{"é ",e}']
    as_stored = DecodeOptions(invalid_text="bytes")
    made = build(codec_of(array_of(TEXT), "text", encoding="LATIN1", options=as_stored), [stored])
    assert made.type == pa.binary() and made.to_pylist() == [b'{"\xe9 ",e}']


def test_vectors() -> None:
    for type_oid, element, layout in (
        (oid.INT2VECTOR, INT2, "<h"),
        (oid.OIDVECTOR, PgType(oid.OID, "", "", "b", 4, "i", True), "<I"),
    ):
        known = PgType(type_oid, "pg_catalog", "vector", "b", -1, "i", False, element=element)
        stored = [array([struct.pack(layout, v) for v in values], element, lows=[0]) for values in ([1, 20, 3], [])]
        assert build(codec_of(known), [*stored, None]).to_pylist() == [[1, 20, 3], [], None]
        assert build(codec_of(known, "text"), [*stored, None]).to_pylist() == ["1 20 3", "", None]


@pytest.mark.parametrize("chunk", [1, 2, 7])
def test_elements_are_handed_on_in_parts(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type_array, "CHUNK", chunk)
    known = array_of(TEXT)
    rows = [[str(k) * (k % 4) if k % 3 else None for k in range(n)] for n in (0, 5, 1, 0, 13, 2)]
    payloads = [
        array([v if v is None else short(v.encode()) for v in row], TEXT, [len(row)] if row else []) for row in rows
    ]
    assert build(codec_of(known), payloads, [None], payloads).to_pylist() == [*rows, None, *rows]
    numbers = [array([struct.pack("<i", k) for k in range(n)], INT4) for n in (3, 8, 1)]
    assert build(codec_of(array_of(INT4)), numbers).to_pylist() == [list(range(n)) for n in (3, 8, 1)]
    flags = [array([b"\1"] * 4, BOOL), None, array([b"\1"] * 9 + [b"\7"], BOOL)]
    with pytest.raises(BadValue, match="an element of an array: not a value of bool") as error:
        build(codec_of(array_of(BOOL)), flags)
    assert error.value.row == 2


def test_what_a_list_can_not_hold_names_the_remedy() -> None:
    known = array_of(INT4)
    one, two = array([bytes(4)], INT4), array([bytes(4)] * 4, INT4, [2, 2])
    with pytest.raises(BadValue, match=r"2 dimensions where the column declares 1.*--type …=String") as error:
        build(codec_of(known), [one, None, two])
    assert error.value.row == 2
    with pytest.raises(BadValue, match="1 dimensions where the column declares 2"):
        build(codec_of(known, dimensions=2), [two, one])
    with pytest.raises(BadValue, match="a lower bound other than 1"):
        build(codec_of(known), [array([bytes(4)], INT4, lows=[0])])


GOOD = array([struct.pack("<i", 7), None, struct.pack("<i", 8)], INT4)
WRONG = {
    "shorter than its header": GOOD[:11],
    "negative dimensions": struct.pack("<i", -1) + GOOD[4:],
    "seven dimensions": struct.pack("<i", 7) + GOOD[4:] + bytes(60),
    "another element type": GOOD[:8] + struct.pack("<I", 25) + GOOD[12:],
    "a dimension below zero": GOOD[:12] + struct.pack("<i", -3) + GOOD[16:],
    "a huge dimension": GOOD[:12] + struct.pack("<i", 2**31 - 1) + GOOD[16:],
    "a lower bound too high": GOOD[:16] + struct.pack("<i", 2**31 - 2) + GOOD[20:],
    "data before the bitmap's end": GOOD[:4] + struct.pack("<i", 24) + GOOD[8:],
    "data past the end": GOOD[:4] + struct.pack("<i", len(GOOD) + 8) + GOOD[8:],
    "a negative data offset": GOOD[:4] + struct.pack("<i", -8) + GOOD[8:],
    "an element cut off": GOOD[:-1],
    "dimensions without data": struct.pack("<iiI4i", 2, 0, 23, 2**15, 2**15, 1, 1),
    "more elements than bytes": struct.pack("<iiI2i", 1, 0, 23, 9, 1) + bytes(8),
}


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("form", ["own", "text"])
def test_damage_is_named_with_its_row(what: str, form: Any) -> None:
    builder = codec_of(array_of(INT4), form).builder()
    append(builder, [GOOD])
    with pytest.raises(BadValue) as error:
        append(builder, [GOOD, None, WRONG[what]])
    assert error.value.row == 2


def test_elements_compressed_or_out_of_line_are_damage() -> None:
    for header in (b"\x2a\0\0\0", b"\x01\x12" + bytes(16)):
        stored = array([long(b"abcdef")], TEXT)[:20] + header + bytes(20)
        with pytest.raises(BadValue, match="an element runs past"):
            build(codec_of(array_of(TEXT)), [stored])
