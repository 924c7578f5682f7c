"""Arrays of catalogs: by hand, of real servers, and damaged."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walshadow_core.api import FormatError
from walshadow_core.catalog.files.arrays import only_element, smallints


def array(count: int, data: bytes, *, dimensions: int = 1, offset: int = 0, element: int = 21) -> bytes:
    """An array of one dimension without its varlena header; data begins at byte 24, which is 20 here."""
    return struct.pack("<iiIii", dimensions, offset, element, count, 1) + data


def test_smallints() -> None:
    assert smallints(array(3, struct.pack("<3h", 1, -2, 30))) == (1, -2, 30)
    assert smallints(array(0, b"")) == ()
    assert smallints(struct.pack("<iiI", 0, 0, 21)) == ()


def test_the_only_element_of_any_sort() -> None:
    assert only_element(array(1, struct.pack("<i", 5)), 4, "i") == struct.pack("<i", 5)
    assert only_element(array(1, b"x" * 64), 64, "c") == b"x" * 64
    assert only_element(array(1, b"\x07ab"), -1, "i") == b"ab"
    assert only_element(array(1, struct.pack("<I", 9 << 2) + b"hello\0\0\0"), -1, "i") == b"hello"
    assert only_element(array(1, b"\x03"), -1, "i") == b""
    assert only_element(array(1, b"text\0\0\0"), -2, "c") == b"text"


@pytest.mark.parametrize(
    ("stored", "length", "alignment"),
    [
        (b"", 4, "i"), (bytes(11), 4, "i"), (array(1, b"abc"), 4, "i"), (array(2, bytes(8)), 4, "i"),
        (array(1, bytes(4), dimensions=2), 4, "i"), (array(1, bytes(4), offset=24), 4, "i"),
        (array(-1, bytes(4)), 4, "i"), (array(1, bytes(4)), 4, "z"), (array(1, bytes(4)), 0, "i"),
        (array(1, b""), -1, "i"), (array(1, b"\x01\x12" + bytes(16)), -1, "i"), (array(1, b"\x0bab"), -1, "i"),
        (array(1, struct.pack("<I", 9 << 2 | 2) + b"hello"), -1, "i"), (array(1, b"\0\0\0\0"), -1, "i"),
        (array(1, struct.pack("<I", 90 << 2)), -1, "i"), (array(1, b"text"), -2, "c"), (array(0, b""), 4, "i"),
    ],
)  # fmt: skip
def test_what_is_no_such_array(stored: bytes, length: int, alignment: str) -> None:
    with pytest.raises(FormatError, match="not an array that a catalog has"):
        only_element(stored, length, alignment)


@given(st.binary(max_size=60), st.integers(-3, 70), st.sampled_from("csid?"))
def test_any_bytes(stored: bytes, length: int, alignment: str) -> None:
    for read in (lambda: smallints(stored), lambda: only_element(stored, length, alignment)):
        with suppress(FormatError):
            read()
