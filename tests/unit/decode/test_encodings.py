"""Transcoding of whole columns. The tables are held against Postgres's in tests/integration/test_types_oracle.py."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from walshadow_core.api import Bytes, FormatError, TableRefused
from walshadow_core.decode.encodings import InvalidText, refuse_encoding, transcode


def column(values: Sequence[bytes]) -> tuple[Bytes, NDArray[np.int32]]:
    ends = np.cumsum([0, *map(len, values)]).astype(np.int32)
    return np.frombuffer(bytearray(b"".join(values)), np.uint8), ends


def values_of(data: Bytes, offsets: NDArray[np.int32]) -> list[bytes]:
    whole = data.tobytes()
    return [whole[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(
        [
            ("LATIN1", "latin-1", "aé ÿ\x80"), ("WIN1251", "cp1251", "aЖя€"), ("KOI8R", "koi8-r", "aЖя═"),
            ("EUC_CN", "gb2312", "a汉字·"), ("EUC_KR", "euc_kr", "a한글、"), ("EUC_JP", "euc_jp", "aｱ日本丂"),
            ("EUC_JIS_2004", "euc_jis_2004", "aｱ日か゚𠂉"),
        ]
    ).flatmap(lambda c: st.tuples(st.just(c), st.lists(st.text(c[2], max_size=9), max_size=20)))
)  # fmt: skip
def test_valid_text(case: tuple[tuple[str, str, str], list[str]]) -> None:
    (encoding, codec, _), texts = case
    texts = [t.encode(codec, "ignore").decode(codec) for t in texts]
    got = values_of(*transcode(*column([t.encode(codec) for t in texts]), encoding, "error"))
    assert [v.decode() for v in got] == texts


def test_an_encoding_without_a_faithful_table_is_refused_by_name() -> None:
    for encoding in ("EUC_TW", "MULE_INTERNAL"):
        assert encoding in str(refuse_encoding(encoding))
        with pytest.raises(TableRefused, match=encoding):
            transcode(*column([b"\x81\xe4"]), encoding, "error")
    assert refuse_encoding("UTF8") is refuse_encoding("SQL_ASCII") is refuse_encoding("WIN1250") is None


@settings(deadline=None, max_examples=100)
@given(
    st.sampled_from(["UTF8", "SQL_ASCII", "LATIN1", "WIN1252", "EUC_JP", "EUC_JIS_2004"]),
    st.lists(st.binary(max_size=12) | st.text(max_size=4).map(str.encode), max_size=12),
)
def test_any_bytes(encoding: str, values: list[bytes]) -> None:
    before = column(values)
    assert all(a is b for a, b in zip(transcode(*before, encoding, "bytes"), before, strict=True))
    replaced = values_of(*transcode(*before, encoding, "replace"))
    assert len(replaced) == len(values)
    for value in replaced:
        assert "\0" not in value.decode()
    # A value's text does not depend on its neighbours.
    alone = [values_of(*transcode(*column([v]), encoding, "replace"))[0] for v in values]
    assert alone == replaced
    invalid = []
    for row, value in enumerate(values):
        try:
            transcode(*column([value]), encoding, "error")
        except InvalidText:
            invalid.append(row)
    if invalid:
        with pytest.raises(InvalidText) as caught:
            transcode(*before, encoding, "error")
        assert caught.value.row == invalid[0]
    else:
        assert values_of(*transcode(*before, encoding, "error")) == replaced


def test_utf8_is_what_python_says() -> None:
    values = [b"abc", "äöü€😀".encode(), b"", b"\xff", b"\xe2\x82", b"\xed\xa0\x80x", b"\xc0\x80", b"a\0b"]
    got = values_of(*transcode(*column(values), "SQL_ASCII", "replace"))
    assert [v.decode() for v in got] == [v.replace(b"\0", b"\xff").decode("utf-8", "replace") for v in values]
    for row, value in enumerate(values[3:], 3):
        with pytest.raises(InvalidText, match="SQL_ASCII") as caught:
            transcode(*column([*values[:3], value, b"\xff"]), "SQL_ASCII", "error")
        assert caught.value.row == 3, row


@pytest.mark.parametrize(
    ("encoding", "bad"),
    [
        ("WIN1252", b"a\x81b"), ("LATIN1", b"a\0b"), ("EUC_JP", b"\xb0"), ("EUC_JP", b"\xb0a"),
        ("EUC_JP", b"\x8f\xa2\xb7"), ("EUC_JP", b"\x8f\xb0"), ("EUC_JP", b"\x8e"), ("EUC_JP", b"\x90\xa1"),
        ("EUC_KR", b"\xb0\x41"), ("EUC_JIS_2004", b"\x8f\xb0\xa1"),
    ],
)  # fmt: skip
def test_invalid_text_names_encoding_row_and_bytes(encoding: str, bad: bytes) -> None:
    with pytest.raises(InvalidText) as caught:
        transcode(*column([b"fine", b"", bad, bad]), encoding, "error")
    assert isinstance(caught.value, FormatError)
    assert caught.value.row == 2
    assert encoding in str(caught.value)


def test_ascii_is_not_touched() -> None:
    before = column([b"abc", b"", b"x" * 1000])
    for encoding in ("LATIN1", "EUC_JP", "SQL_ASCII", "UTF8"):
        assert all(a is b for a, b in zip(transcode(*before, encoding, "error"), before, strict=True))
