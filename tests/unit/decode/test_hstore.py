"""hstore: text as hstore_out prints it, and damage."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stored_values import append
from tests.unit.decode.built import codec, decoded, use
from walshadow_core.decode import columns
from walshadow_core.decode import type_hstore as hs
from walshadow_core.decode.columns import BadValue

SMALL = 1024
"""Bytes of a buffer that is soon full."""

USE = use(70001, "hstore", schema="public")
TEXTS = st.text('ab"\\, =>é', max_size=20)


def stored(pairs: dict[str, str | None], flags: int = hs.NEW_VERSION) -> bytes:
    entries, body = b"", b""
    for k, string in enumerate(s for pair in pairs.items() for s in pair):
        body += (string or "").encode()
        marks = (hs.IS_FIRST if k == 0 else 0) | (hs.IS_NULL if string is None else 0)
        entries += struct.pack("<I", len(body) | marks)
    return struct.pack("<I", len(pairs) | flags) + entries + body


def printed(pairs: dict[str, str | None]) -> str:
    def quoted(string: str) -> str:
        return '"' + string.replace("\\", "\\\\").replace('"', '\\"') + '"'

    return ", ".join(f"{quoted(k)}=>{'NULL' if v is None else quoted(v)}" for k, v in pairs.items())


@settings(deadline=None, max_examples=50)
@given(st.lists(st.dictionaries(TEXTS, TEXTS | st.none(), max_size=6), max_size=6))
def test_text_is_what_postgres_prints(values: list[dict[str, str | None]]) -> None:
    payloads = [stored(v) for v in values]
    assert decoded(codec(USE), [*payloads, None]) == [*map(printed, values), None]


def test_values_that_do_not_fit_into_the_first_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "FIRST_BYTES", SMALL)
    value: dict[str, str | None] = {"k": '"' * SMALL, "n": None}
    assert decoded(codec(USE), [stored(value)]) == [printed(value)]


def test_values_of_the_prerelease_that_are_laid_out_alike() -> None:
    assert decoded(codec(USE), [stored({"a": "b"}, 0), stored({}, 0)]) == ['"a"=>"b"', ""]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\0\0\0",
        struct.pack("<I", 1 | hs.NEW_VERSION) + bytes(4),
        struct.pack("<III", 1 | hs.NEW_VERSION, 1 | hs.IS_FIRST, 1),
        struct.pack("<III", 1 | hs.NEW_VERSION, 2 | hs.IS_FIRST, 1) + b"ab",
        # As it was laid out before 9.0: two uint16 lengths, then the place.
        struct.pack("<IHHI", 1, 1, 1, 0) + b"ab",
    ],
)
def test_damage_is_a_bad_value(payload: bytes) -> None:
    with pytest.raises(BadValue, match="not a value of hstore") as caught:
        append(codec(USE).builder(), [None, payload])
    assert caught.value.row == 1
