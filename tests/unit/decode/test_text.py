"""Text and bytes: lengths around the copy's stride, growth, names, encodings and the policies for invalid text."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from walshadow_core.api import Attribute, FormatError, TableRefused
from walshadow_core.decode import columns
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.columns import FIRST_BYTES, BadValue, Codec, DecodeOptions
from walshadow_core.decode.type_text import CODECS
from walshadow_core.decode.types import use_of


def codec(type_oid: int, encoding: str = "UTF8", policy: Any = "error") -> Codec:
    length = 64 if type_oid == oid.NAME else -1
    a = Attribute(1, "Words", type_oid, "t", -1, length, "c", False, "x", False)
    return CODECS[type_oid](use_of(a, encoding, DecodeOptions(invalid_text=policy)))


def build(made: Codec, *parts: list[bytes | None]) -> pa.Array:
    builder = made.builder()
    for values in parts:
        append(builder, values)
    array = builder.finish()
    assert array.type == made.arrow
    array.validate(full=True)
    return array


def append(builder: Any, values: list[bytes | None]) -> None:
    """The last value ends where the buffer does; a null's place and length are nonsense."""
    buf = bytearray(b"\xee")
    offset, length = [], []
    for value in values:
        offset.append(2**31 - 1 if value is None else len(buf))
        length.append(2**31 - 1 if value is None else len(value))
        buf += value or b""
    kind = np.array([v is not None for v in values], np.uint8)
    builder.append(np.frombuffer(buf, np.uint8), np.array(offset, np.int32), np.array(length, np.int32), kind)


@pytest.mark.parametrize("type_oid", [oid.TEXT, oid.VARCHAR, oid.BPCHAR, oid.JSON])
def test_every_length_around_the_stride(type_oid: int) -> None:
    values = [bytes(random.Random(k).choices(b"abcxyz ", k=k)) for k in range(70)]
    for part in (values, values[::-1], [*values, None, b""]):
        assert build(codec(type_oid), part).to_pylist() == [None if v is None else v.decode() for v in part]


@pytest.mark.parametrize("seed", range(5))
def test_many_appends_with_nulls(seed: int) -> None:
    rng = random.Random(seed)
    parts = [
        [rng.choice([None, rng.randbytes(rng.randrange(40))]) for _ in range(rng.randrange(30))] for _ in range(40)
    ]
    assert build(codec(oid.BYTEA), *parts).to_pylist() == [v for part in parts for v in part]


def test_growth_in_the_middle_of_an_append() -> None:
    values: list[bytes | None] = [b"a" * (FIRST_BYTES // 3), None] * 7
    values.append(b"b" * (5 * FIRST_BYTES))
    builder = codec(oid.BYTEA).builder()
    append(builder, values)
    assert builder.nbytes == sum(len(v or b"") for v in values) + 4 * len(values)
    first = builder.finish()
    append(builder, [b"c"] * 100)
    assert builder.finish().to_pylist() == [b"c"] * 100
    assert first.to_pylist() == values
    assert builder.nbytes == 0 and len(builder.finish()) == 0


def test_a_block_of_more_than_two_gib_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert columns.MAX_VAR_BYTES == 2**31 - 1
    monkeypatch.setattr(columns, "MAX_VAR_BYTES", 3 * FIRST_BYTES)
    builder = codec(oid.BYTEA).builder()
    append(builder, [b"a" * FIRST_BYTES] * 3)
    append(builder, [b""])
    with pytest.raises(BadValue, match="more than 2 GiB") as caught:
        append(builder, [None, b"d"])
    assert caught.value.row == 1


def test_names_end_at_their_nul() -> None:
    full = b"n" * 63 + b"\0"
    values = [b"id".ljust(64, b"\0"), None, full, bytes(64), b"ab\0cd".ljust(64, b"\0")]
    assert build(codec(oid.NAME), values).to_pylist() == ["id", None, "n" * 63, "", "ab"]


def test_text_beyond_ascii() -> None:
    values = ["", "é", "日本語", "😀 smile", "plain"]
    assert build(codec(oid.TEXT), [v.encode() for v in values]).to_pylist() == values
    assert build(codec(oid.TEXT, "SQL_ASCII"), [v.encode() for v in values]).to_pylist() == values
    assert build(codec(oid.TEXT, "LATIN1"), [b"caf\xe9", None]).to_pylist() == ["café", None]
    assert build(codec(oid.NAME, "LATIN1"), [b"\xfcber".ljust(64, b"\0")]).to_pylist() == ["über"]


INVALID = [b"good", b"bad \xff byte", None, "né".encode()[:-1]]


@pytest.mark.parametrize("encoding", ["UTF8", "SQL_ASCII"])
def test_invalid_text_by_policy(encoding: str) -> None:
    with pytest.raises(FormatError, match='column "Words": text is not valid'):
        build(codec(oid.TEXT, encoding), INVALID)
    assert build(codec(oid.TEXT, encoding, "replace"), INVALID).to_pylist() == ["good", "bad � byte", None, "n�"]
    as_bytes = build(codec(oid.TEXT, encoding, "bytes"), INVALID)
    assert as_bytes.type == pa.binary() and as_bytes.to_pylist() == INVALID


def test_a_sequence_cut_between_two_values_is_invalid() -> None:
    half = "é".encode()
    with pytest.raises(FormatError):
        build(codec(oid.TEXT), [half[:1], half[1:]])


def test_encodings_that_are_not_supported_are_refused_before_any_byte() -> None:
    with pytest.raises(TableRefused, match=r'column "Words".*MULE_INTERNAL'):
        codec(oid.TEXT, "MULE_INTERNAL")
    assert codec(oid.TEXT, "MULE_INTERNAL", "bytes").arrow == pa.binary()
    assert codec(oid.BYTEA, "MULE_INTERNAL").arrow == pa.binary()
