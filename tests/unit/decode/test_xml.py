"""xml: what becomes of the declaration at its start."""

from __future__ import annotations

import pytest

from tests.unit.decode.built import codec, decoded, use
from walshadow_core.api import Attribute
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.columns import DecodeOptions
from walshadow_core.decode.types import codec_for

AS_STORED = [
    "<a/>", "", "\t<a/>", "<?xml-stylesheet x?>\n<a/>", "<?xmlé version='1.0'?>", "<?xml", "<?xml ", "<?xml version",
    "<?xml version=", "<?xml version='1.0", "<?xml version='1.0'", "<?xml version='1.0'?", "<?xml encoding='x'?>",
    "<?xml version='1.0'encoding='x'?>", "<?xml version='1.0' encoding=x?>", "<?xml version='1.0' encoding='x?>",
    "<?xml version='1.0' standalone='maybe'?>", "<?xml version='1.0'standalone='yes'?>", "<?xml version=1.0?>",
    "<?xml version='1.0' standalone='yes\"?>", "<?xml version='é'?>\n<a/>", "<?xml version='1.0' more='x'?>",
    "<?xml version='1.0' standalone=?>",
]  # fmt: skip


@pytest.mark.parametrize(
    ("stored", "printed"),
    [
        *((text, text) for text in AS_STORED),
        ("\n<a/>", "<a/>"),
        ("\n\n<a/>", "\n<a/>"),
        ("<?xml version='1.0'?>\n<a/>", "<a/>"),
        ("<?xml version='1.0'?><a/>", "<a/>"),
        ('<?xml  version =\t"1.0"\r\nencoding = "x" ?>\n\n<a/>', "\n<a/>"),
        ("<?xml version='1.1'?>\n<a/>", '<?xml version="1.1"?>\n<a/>'),
        ("<?xml version='1.0' standalone='yes'?>\n<a/>", '<?xml version="1.0" standalone="yes"?>\n<a/>'),
        ("<?xml version='1.0' encoding='x' standalone=\"no\"?>é", '<?xml version="1.0" standalone="no"?>é'),
        ("<?xml version=''?>", '<?xml version=""?>'),
    ],
)
def test_as_printed(stored: str, printed: str) -> None:
    assert decoded(codec(use(oid.XML, "xml")), [b"<b/>", None, stored.encode()]) == ["<b/>", None, printed]


def test_in_the_databases_encoding() -> None:
    stored = "<?xml version='1.0' encoding='latin1'?><ä/>".encode("latin-1")
    assert decoded(codec(use(oid.XML, "xml", encoding="LATIN1")), [stored]) == ["<ä/>"]


def test_a_cast_to_text_leaves_it_as_it_is() -> None:
    attribute = Attribute(1, "x", oid.XML, "xml", -1, -1, "i", False, "x", False)
    as_text = codec_for(attribute, "UTF8", DecodeOptions(), "text")
    assert decoded(as_text, [b"<?xml version='1.0'?>\n<a/>"]) == ["<?xml version='1.0'?>\n<a/>"]
