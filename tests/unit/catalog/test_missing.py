"""attmissingval as the server sends it: an array of one element, or an error."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walshadow_core.api import FormatError
from walshadow_core.catalog.missing import array_element, array_text_element


def _array(value: bytes, ndim: int = 1, count: int = 1) -> bytes:
    return struct.pack("!iiIiii", ndim, 0, 25, count, 1, len(value)) + value


@given(st.binary())
def test_one_element(value: bytes) -> None:
    assert array_element(_array(value)) == value


@given(st.one_of(st.binary(), st.binary(max_size=40).map(lambda b: _array(b)[:-1]), st.just(_array(b"x", 2)),
                 st.just(_array(b"x", 1, 2)), st.just(_array(b"x") + b"y")))  # fmt: skip
def test_anything_else_is_an_error(data: bytes) -> None:
    with pytest.raises(FormatError):
        array_element(data)


@pytest.mark.parametrize(
    ("text", "element"),
    [
        ("{a}", "a"),
        ("{(1,2)}", "(1,2)"),
        ('{""}', ""),
        ('{"a, \\"b\\" \\\\ {}"}', 'a, "b" \\ {}'),
        ('{"NULL"}', "NULL"),
    ],
)
def test_one_element_as_text(text: str, element: str) -> None:
    assert array_text_element(text) == element


@pytest.mark.parametrize("text", ["", "{", "{}", "a", "[1:1]={a"])
def test_any_other_text_is_an_error(text: str) -> None:
    with pytest.raises(FormatError):
        array_text_element(text)
