"""Texts of the simple types, as their output functions print them (``utils/adt``: ``bool.c``, ``int.c``, ``char.c``,
``uuid.c``, ``varlena.c``, ``date.c``, ``timestamp.c``), with DateStyle ISO, TimeZone UTC and bytea_output hex.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from walshadow_core.api import DATE_INFINITY, DATE_NEG_INFINITY, TIMESTAMP_INFINITY, TIMESTAMP_NEG_INFINITY, Bytes
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.columns import (
    BAD_VALUE,
    DONE,
    NO_ROOM,
    SLACK,
    Codec,
    CodecMaker,
    TypeUse,
    VarColumn,
    load64,
)
from walshadow_core.decode.deform import KIND_VALUE
from walshadow_core.decode.text_put import (
    LONGEST_TIMESTAMP,
    SECOND_MICROSECONDS,
    put_date,
    put_hex,
    put_infinity,
    put_number,
    put_signed,
    put_time,
    put_timestamp,
)
from walshadow_core.decode.type_fixed import END_DATE, END_TIMESTAMP, MAX_TIME, MIN_DATE, MIN_TIMESTAMP
from walshadow_core.pgformat.heap import load16, load32
from walshadow_core.pgformat.jit import kernel, leaf

BOOL, BOOL_WORD, CHAR, INT2, INT4, INT8, UNSIGNED4, UNSIGNED8, UUID, DATE, TIME, TIMESTAMP, TIMESTAMPTZ = range(13)
BYTEA, HEX = 13, 14
"""Forms of text. BOOL is t and f, BOOL_WORD what a cast to text prints; HEX are the bytes without bytea's mark."""

LONGEST: Final = LONGEST_TIMESTAMP
"""Bytes that every form but BYTEA and HEX fits in."""

_MINUS, _BACKSLASH, _ZERO, _T, _F, _X = b"-\\0tfx"
_WORDS = np.frombuffer(b"truefalse", np.uint8)


@leaf
def _put_bool(value: int, word: bool, out: Bytes, to: int) -> int:
    if not word:
        out[to] = _T if value else _F
        return to + 1
    for j in range(0 if value else 4, 4 if value else _WORDS.size):
        out[to] = _WORDS[j]
        to += 1
    return to


@leaf
def _put_char(value: int, out: Bytes, to: int) -> int:
    """``"char"``: a zero byte is the empty string, a high byte an octal escape (since Postgres 16)."""
    if value >= 128:
        out[to] = _BACKSLASH
        out[to + 1] = _ZERO + (value >> 6)
        out[to + 2] = _ZERO + ((value >> 3) & 7)
        out[to + 3] = _ZERO + (value & 7)
        return to + 4
    if value != 0:
        out[to] = value
        to += 1
    return to


@leaf
def _put_uuid(buf: Bytes, at: int, out: Bytes, to: int) -> int:
    for start, count in ((0, 4), (4, 2), (6, 2), (8, 2), (10, 6)):
        if start > 0:
            out[to] = _MINUS
            to += 1
        to = put_hex(buf, at + start, count, out, to)
    return to


@leaf
def _put_moment(value: int, form: int, out: Bytes, to: int) -> int:
    """A date, time or timestamp; -1 if the type can't have the value."""
    if form == TIME:
        if value < 0 or value > MAX_TIME:
            return -1
        return put_time(value // SECOND_MICROSECONDS, value % SECOND_MICROSECONDS, out, to)
    if form == DATE:
        if MIN_DATE <= value < END_DATE:
            return put_date(value, out, to)
        if value != DATE_INFINITY and value != DATE_NEG_INFINITY:
            return -1
    else:
        if MIN_TIMESTAMP <= value < END_TIMESTAMP:
            return put_timestamp(value, form == TIMESTAMPTZ, out, to)
        if value != TIMESTAMP_INFINITY and value != TIMESTAMP_NEG_INFINITY:
            return -1
    return put_infinity(value < 0, out, to)


@leaf
def _put_value(buf: Bytes, at: int, count: int, form: int, out: Bytes, to: int) -> int:
    """One value; -1 if the type can't have it."""
    if form <= CHAR:
        byte = int(np.int64(buf[np.uint64(at)]))
        if form == CHAR:
            return _put_char(byte, out, to)
        return _put_bool(byte, form == BOOL_WORD, out, to) if byte <= 1 else -1
    if form == UUID:
        return _put_uuid(buf, at, out, to)
    if form >= BYTEA:
        if form == BYTEA:
            out[to] = _BACKSLASH
            out[to + 1] = _X
            to += 2
        return put_hex(buf, at, count, out, to)
    if form == INT2:
        value = load16(buf, at)
        return put_signed(value - ((value & 0x8000) << 1), out, to)
    if form in (INT4, UNSIGNED4, DATE):
        value = load32(buf, at)
        if form == UNSIGNED4:
            return put_number(np.uint64(value), 1, out, to)
        value -= (value & 0x80000000) << 1
        return put_signed(value, out, to) if form == INT4 else _put_moment(value, form, out, to)
    long = load64(buf, np.uint64(at))
    if form == UNSIGNED8:
        return put_number(long, 1, out, to)
    signed = int(np.int64(long))
    return put_signed(signed, out, to) if form == INT8 else _put_moment(signed, form, out, to)


@kernel
def fixed_to_text(
    buf: Bytes,
    offset: NDArray[np.int32],
    length: NDArray[np.int32],
    kind: NDArray[np.uint8],
    first: int,
    offsets: NDArray[np.int32],
    data: Bytes,
    row: int,
    used: int,
    form: int,
) -> tuple[int, int, int]:
    """Texts of one form: columns.VarFill."""
    for i in range(first, kind.size):
        if kind[i] == KIND_VALUE:
            count = int(length[i])
            if used + LONGEST + 2 * count > data.size - SLACK:
                return NO_ROOM, i, used
            after = _put_value(buf, int(offset[i]), count, form, data, used)
            if after < 0:
                return BAD_VALUE, i, used
            used = after
        offsets[row + i + 1] = used
    return DONE, kind.size, used


def text_maker(form: int) -> CodecMaker:
    """The maker of text codecs of that form."""

    def fill(
        buf: Bytes,
        offset: NDArray[np.int32],
        length: NDArray[np.int32],
        kind: NDArray[np.uint8],
        first: int,
        offsets: NDArray[np.int32],
        data: Bytes,
        row: int,
        used: int,
    ) -> tuple[int, int, int]:
        return fixed_to_text(buf, offset, length, kind, first, offsets, data, row, used, form)

    def make(use: TypeUse) -> Codec:
        reason = f"not a value of {use.type_name}"
        return Codec(pa.string(), lambda: VarColumn(pa.string(), fill, reason=reason))

    return make


hex_codec = text_maker(HEX)
"""The stored bytes of a value of any type."""

TEXTS: Mapping[int, CodecMaker] = {
    oid.BOOL: text_maker(BOOL),
    oid.CHAR: text_maker(CHAR),
    oid.INT2: text_maker(INT2),
    oid.INT4: text_maker(INT4),
    oid.INT8: text_maker(INT8),
    oid.OID: text_maker(UNSIGNED4),
    oid.UUID: text_maker(UUID),
    oid.DATE: text_maker(DATE),
    oid.TIME: text_maker(TIME),
    oid.TIMESTAMP: text_maker(TIMESTAMP),
    oid.TIMESTAMPTZ: text_maker(TIMESTAMPTZ),
    oid.BYTEA: text_maker(BYTEA),
}
"""This family's types, by oid."""

CAST_TEXTS: Mapping[int, CodecMaker] = {oid.BOOL: text_maker(BOOL_WORD)}
"""Types that a cast to text prints otherwise."""
