"""Names as the server keeps them."""

from __future__ import annotations

import pytest

from walshadow_core.api import FormatError
from walshadow_core.catalog.files.encodings import decoded, encoding_name, spelled


def test_what_is_too_long_is_cut_between_characters() -> None:
    assert spelled("x" * 63, "UTF8") == "x" * 63
    assert spelled("x" * 64, "UTF8") == "x" * 63
    assert spelled("ü" * 40, "UTF8") == "ü" * 31
    assert spelled("x" + "ü" * 40, "UTF8") == "x" + "ü" * 31
    assert spelled("ü" * 70, "LATIN1") == "ü" * 63
    assert spelled("表" * 40, "EUC_JP") == "表" * 31
    assert spelled("", "UTF8") == ""


def test_decoded() -> None:
    assert decoded(b"plain", "LATIN1") == "plain"
    assert decoded("größe".encode("latin-1"), "LATIN1") == "größe"
    assert decoded("größe".encode(), "UTF8") == "größe"
    with pytest.raises(FormatError, match="not valid in the database's encoding UTF8"):
        decoded(b"\xff", "UTF8")


def test_no_such_encoding() -> None:
    for number in (-1, 35, 1000):
        with pytest.raises(FormatError, match=f"unknown encoding {number}"):
            encoding_name(number)
