"""Missing values (pg_attribute.attmissingval): from what SQL gives to the bytes that a tuple would hold.

ADD COLUMN with a constant default writes no tuple; the value is kept in the catalog, for all tuples that end
before the attribute. SQL gives it in the type's binary send format (``typsend``: big-endian, text in the client's
encoding, which has to be the database's), a tuple has it in its on-disk format (little-endian here).
"""

from __future__ import annotations

import struct
from typing import Final

from walshadow_core.api import FormatError, TableRefused
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.type_numeric import (
    LONG_DSCALE_MASK,
    NAN,
    NEGATIVE,
    NEGATIVE_INFINITY,
    POSITIVE_INFINITY,
    SHORT,
    SHORT_DSCALE_MASK,
    SHORT_DSCALE_SHIFT,
    SHORT_SIGN,
    SHORT_WEIGHT_MASK,
    SHORT_WEIGHT_SIGN,
)

NAME_LENGTH: Final = 64
"""NAMEDATALEN: bytes of a name, filled up with zeros."""

_SHORT_WEIGHTS: Final = range(-SHORT_WEIGHT_SIGN, SHORT_WEIGHT_MASK + 1)

_AS_SENT: Final = {oid.TEXT, oid.VARCHAR, oid.BPCHAR, oid.JSON, oid.BYTEA, oid.UUID}

_NUMBERS: Final = {
    oid.BOOL: "b", oid.CHAR: "b", oid.INT2: "h", oid.INT4: "i", oid.INT8: "q", oid.OID: "I",
    # As integers: the bits of a NaN must not go through a float.
    oid.FLOAT4: "I", oid.FLOAT8: "Q",
    oid.DATE: "i", oid.TIME: "q", oid.TIMESTAMP: "q", oid.TIMESTAMPTZ: "q", oid.TIMETZ: "qi", oid.INTERVAL: "qii",
}  # fmt: skip
"""Types that are a few numbers, in the same order in both formats."""


def on_disk(type_oid: int, sent: bytes) -> bytes:
    """A value in binary send format as a tuple holds it, without varlena header.

    Raises FormatError if ``sent`` is not of the type, TableRefused for a type that can't be decoded.
    """
    if type_oid in _AS_SENT:
        return sent
    if type_oid in _NUMBERS:
        numbers = _NUMBERS[type_oid]
        return struct.pack(f"<{numbers}", *_unpack(f">{numbers}", sent, type_oid))
    if type_oid == oid.NAME:
        if len(sent) >= NAME_LENGTH:
            raise _not_of_type(sent, type_oid)
        return sent.ljust(NAME_LENGTH, b"\0")
    if type_oid == oid.NUMERIC:
        return _numeric(sent)
    raise TableRefused(f"a missing value of the type with oid {type_oid} is not supported yet")


def _numeric(sent: bytes) -> bytes:
    """numeric_send's (digits, weight, sign, dscale, digit…) to what make_result writes."""
    count, weight, sign, dscale = _unpack(">HhHH", sent[:8], oid.NUMERIC)
    digits = _unpack(f">{count}H", sent[8:], oid.NUMERIC)
    if sign in (NAN, POSITIVE_INFINITY, NEGATIVE_INFINITY):
        return struct.pack("<H", sign)
    if sign not in (0, NEGATIVE) or dscale > LONG_DSCALE_MASK:
        raise _not_of_type(sent, oid.NUMERIC)
    if dscale <= SHORT_DSCALE_MASK and weight in _SHORT_WEIGHTS:
        short_sign = SHORT_SIGN if sign else 0
        short_weight = weight & (SHORT_WEIGHT_SIGN | SHORT_WEIGHT_MASK)
        header = struct.pack("<H", SHORT | short_sign | dscale << SHORT_DSCALE_SHIFT | short_weight)
    else:
        header = struct.pack("<Hh", sign | dscale, weight)
    return header + struct.pack(f"<{count}H", *digits)


def _unpack(layout: str, sent: bytes, type_oid: int) -> tuple[int, ...]:
    if len(sent) != struct.calcsize(layout):
        raise _not_of_type(sent, type_oid)
    return struct.unpack(layout, sent)


def _not_of_type(sent: bytes, type_oid: int) -> FormatError:
    return FormatError(f"a missing value of {len(sent)} bytes is none of the type with oid {type_oid}")
