"""Binary send format to the on-disk format; Postgres's own values are compared in test_missing_values."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walshadow_core.api import FormatError, PgType, TableRefused
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.missing import on_disk, storable


def _type(number: int) -> PgType:
    return PgType(number, "pg_catalog", f"t{number}", "b", -1, "i", False)


@pytest.mark.parametrize(
    ("type_oid", "sent", "stored"),
    [
        (oid.BOOL, b"\x01", b"\x01"),
        (oid.CHAR, b"\xfe", b"\xfe"),
        (oid.INT2, b"\x80\x01", b"\x01\x80"),
        (oid.INT4, b"\x01\x02\x03\x04", b"\x04\x03\x02\x01"),
        (oid.OID, b"\xff\xfe\xfd\xfc", b"\xfc\xfd\xfe\xff"),
        (oid.INT8, bytes(range(8)), bytes(range(8))[::-1]),
        (oid.FLOAT4, b"\x7f\xa0\x00\x01", b"\x01\x00\xa0\x7f"),
        (oid.FLOAT8, b"\xff\xf4\x00\x00\x00\x00\x00\x01", b"\x01\x00\x00\x00\x00\x00\xf4\xff"),
        (oid.DATE, b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f"),
        (oid.TIMESTAMPTZ, bytes(range(8)), bytes(range(8))[::-1]),
        (oid.TIMETZ, bytes(range(12)), bytes(range(8))[::-1] + bytes(range(8, 12))[::-1]),
        (oid.INTERVAL, struct.pack(">qii", 1, -2, 3), struct.pack("<qii", 1, -2, 3)),
        (oid.UUID, bytes(range(16)), bytes(range(16))),
        (oid.TEXT, "é".encode("latin-1"), b"\xe9"),
        (oid.BYTEA, b"\0\xff", b"\0\xff"),
        (oid.NAME, b"abc", b"abc" + bytes(61)),
        (oid.NUMERIC, struct.pack(">HhHHHH", 2, 0, 0x4000, 2, 1, 5000), b"\x00\xa1\x01\x00\x88\x13"),
        (oid.NUMERIC, struct.pack(">HhHH", 0, 0, 0, 3), b"\x80\x81"),
        (oid.NUMERIC, struct.pack(">HhHHH", 1, -64, 0, 63, 7), b"\xc0\x9f\x07\x00"),
        (oid.NUMERIC, struct.pack(">HhHHH", 1, 63, 0, 0, 7), b"\x3f\x80\x07\x00"),
        (oid.NUMERIC, struct.pack(">HhHHH", 1, 64, 0x4000, 0, 7), b"\x00\x40\x40\x00\x07\x00"),
        (oid.NUMERIC, struct.pack(">HhHHH", 1, -65, 0, 64, 7), b"\x40\x00\xbf\xff\x07\x00"),
        (oid.NUMERIC, struct.pack(">HhHH", 0, 0, 0xC000, 0), b"\x00\xc0"),
        (oid.NUMERIC, struct.pack(">HhHH", 0, 0, 0xD000, 32), b"\x00\xd0"),
        (oid.NUMERIC, struct.pack(">HhHH", 0, 0, 0xF000, 32), b"\x00\xf0"),
    ],
)
def test_on_disk(type_oid: int, sent: bytes, stored: bytes) -> None:
    assert on_disk(_type(type_oid), sent, "LATIN1") == stored


@given(st.sampled_from([oid.INT4, oid.TIMETZ, oid.INTERVAL, oid.NUMERIC, oid.NAME]), st.binary(max_size=70))
def test_any_bytes_are_a_value_or_an_error(type_oid: int, sent: bytes) -> None:
    try:
        assert len(on_disk(_type(type_oid), sent, "UTF8")) >= 2
    except FormatError as error:
        assert str(type_oid) in str(error)


def test_unknown_type_is_refused() -> None:
    assert not storable(_type(3802))
    with pytest.raises(TableRefused, match="3802"):
        on_disk(_type(3802), bytes(16), "UTF8")
