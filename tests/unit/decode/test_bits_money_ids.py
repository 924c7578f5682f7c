"""bit, varbit, money, and types that identify something: forms, ends of their ranges, what is no value."""

from __future__ import annotations

import struct
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.decode.built import codec, decoded, use
from walshadow_core.api import BadValue
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.type_ids import UNSIGNED_32


def bits(text: str) -> bytes:
    padded = text.ljust((len(text) + 7) // 8 * 8, "0")
    return struct.pack("<i", len(text)) + bytes(int(padded[k : k + 8], 2) for k in range(0, len(padded), 8))


@given(st.lists(st.none() | st.text("01", max_size=70), max_size=20))
def test_bits(texts: list[str | None]) -> None:
    for type_oid in (oid.BIT, oid.VARBIT):
        assert decoded(codec(use(type_oid)), [None if t is None else bits(t) for t in texts]) == texts


@pytest.mark.parametrize(
    "payload", [b"", b"\1\0\0", b"\1\0\0\0", b"\1\0\0\0\x80\0", b"\xff\xff\xff\xff", b"\x09\0\0\0\1"]
)
def test_no_bits(payload: bytes) -> None:
    with pytest.raises(BadValue) as error:
        decoded(codec(use(oid.VARBIT)), [bits("101"), payload])
    assert error.value.row == 1


def printed(cents: int) -> str:
    return f"{'-' if cents < 0 else ''}${abs(cents) // 100:,}.{abs(cents) % 100:02}"


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-(10**6), 10**6), max_size=20))
@example([-(2**63), 2**63 - 1, 0, 1, -1, 99, 100, -100, 99_999, 100_000, 99_999_999, 100_000_000])
def test_money(values: list[int | None]) -> None:
    payloads = [None if v is None else struct.pack("<q", v) for v in values]
    money = use(oid.MONEY, "money", length=8)
    assert codec(money).arrow == pa.decimal128(19, 2)
    assert decoded(codec(money), payloads) == [None if v is None else Decimal(v).scaleb(-2) for v in values]
    assert decoded(codec(money, "text"), payloads) == [None if v is None else printed(v) for v in values]


@pytest.mark.parametrize("type_oid", UNSIGNED_32)
def test_numbers_of_32_bits(type_oid: int) -> None:
    payloads = [bytes(4), b"\xff" * 4, None]
    assert codec(use(type_oid, length=4)).arrow == pa.uint32()
    assert decoded(codec(use(type_oid, length=4)), payloads) == [0, 4294967295, None]
    assert decoded(codec(use(type_oid, length=4), "text"), payloads) == ["0", "4294967295", None]


def test_xid8() -> None:
    payloads = [b"\xff" * 8, None, b"\1" + bytes(7)]
    assert codec(use(oid.XID8, length=8)).arrow == pa.uint64()
    assert decoded(codec(use(oid.XID8, length=8)), payloads) == [2**64 - 1, None, 1]
    assert decoded(codec(use(oid.XID8, length=8), "text"), payloads) == ["18446744073709551615", None, "1"]


@given(st.lists(st.integers(0, 2**64 - 1), max_size=10))
@example([0, 2**32, 2**32 - 1, 2**64 - 1, 0x16_B374D848])
def test_pg_lsn(values: list[int]) -> None:
    lsn = codec(use(oid.PG_LSN, length=8))
    texts = [f"{v >> 32:X}/{v & 0xFFFFFFFF:X}" for v in values]
    assert decoded(lsn, [struct.pack("<Q", v) for v in values]) == texts


@given(st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 65535)), max_size=10))
def test_tid(places: list[tuple[int, int]]) -> None:
    tid = codec(use(oid.TID, length=6))
    payloads = [struct.pack("<HHH", block >> 16, block & 0xFFFF, line) for block, line in places]
    assert decoded(tid, payloads) == [f"({block},{line})" for block, line in places]


def test_a_refcursor_is_text() -> None:
    assert decoded(codec(use(oid.REFCURSOR, encoding="LATIN1")), ["cä".encode("latin-1")]) == ["cä"]
