"""numeric: the base-10000 digits of ``utils/adt/numeric.c`` to decimal128, decimal256, or Postgres's own text.

On disk (without varlena header) a numeric is a header and then digits, int16 each, most significant first. The
digit ``k`` counts ``10000 ** (weight - k)``. The two high bits of the first uint16 tell which header it is:

* ``10`` short: one uint16 with sign (0x2000), dscale (6 bits) and weight (7 bits, two's complement);
* ``00`` / ``01`` long, positive or negative: dscale in the low 14 bits, then an int16 weight;
* ``11`` special, no digits: NaN 0xC000, Infinity 0xD000, -Infinity 0xF000.

Postgres strips leading and trailing zero digits, and zero is a number without digits. The kernels don't rely
on the first: leading zero digits are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.decode import type_oids
from walshadow_core.decode.columns import (
    DONE,
    NO_ROOM,
    SLACK,
    BadValue,
    Codec,
    CodecMaker,
    FixedColumn,
    TypeUse,
    VarColumn,
    store64,
)
from walshadow_core.decode.deform import KIND_VALUE
from walshadow_core.pgformat.heap import load16
from walshadow_core.pgformat.jit import kernel, leaf
from walshadow_core.pgformat.varlena import HEADER_SIZE

SIGN_MASK: Final = 0xC000
NEGATIVE: Final = 0x4000
SHORT: Final = 0x8000
SPECIAL: Final = 0xC000
NAN: Final = 0xC000
POSITIVE_INFINITY: Final = 0xD000
NEGATIVE_INFINITY: Final = 0xF000
SHORT_SIGN: Final = 0x2000
SHORT_DSCALE_SHIFT: Final = 7
SHORT_DSCALE_MASK: Final = 0x3F
SHORT_WEIGHT_MASK: Final = 0x3F
SHORT_WEIGHT_SIGN: Final = 0x40
LONG_DSCALE_MASK: Final = 0x3FFF

DIGITS_128: Final = 38
DIGITS_256: Final = 76
"""The most decimal digits that decimal128 and decimal256 hold."""

OK, BAD_LENGTH, BAD_DIGIT, BAD_HEADER, TOO_WIDE, TOO_FINE, INFINITE = range(7)
"""What a kernel says of the value that it stopped at; see PROBLEMS."""

PROBLEMS = {
    BAD_LENGTH: "its length fits no numeric",
    BAD_DIGIT: "a digit is not below 10000",
    BAD_HEADER: "its header is none that Postgres writes",
    TOO_WIDE: "it has more digits than the column's type allows",
    TOO_FINE: "it has digits beyond the scale of the column's type",
    INFINITE: "it is infinite, which a column with precision can't hold",
}

PLAIN_ROOM: Final = SLACK
"""Bytes that put_plain_numeric may write."""

_BASE = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_TEN_THOUSAND = np.uint64(10000)
_POWERS = np.array([10**k for k in range(19)], np.int64)
_LEAST = np.int64(-(2**63))
_MINUS, _POINT, _ZERO = b"-.0"
_NAN_TEXT = np.frombuffer(b"NaN", np.uint8)
_INFINITY_TEXT = np.frombuffer(b"-Infinity", np.uint8)


@leaf
def _parse(buf: Bytes, start: int, length: int) -> tuple[int, int, int, int, int, int, int]:
    """The parts of one numeric that lies within ``buf``.

    (problem, special header or 0, 1 if negative, weight, dscale, offset of the first digit, digits), leading
    zero digits skipped.
    """
    if length < 2:
        return BAD_LENGTH, 0, 0, 0, 0, 0, 0
    header = load16(buf, start)
    top = header & SIGN_MASK
    if top == SHORT:
        negative = int((header & SHORT_SIGN) != 0)
        dscale = (header >> SHORT_DSCALE_SHIFT) & SHORT_DSCALE_MASK
        weight = (header & SHORT_WEIGHT_MASK) - (header & SHORT_WEIGHT_SIGN)
        digits_at = start + 2
    elif top == SPECIAL:
        if header != NAN and header != POSITIVE_INFINITY and header != NEGATIVE_INFINITY:
            return BAD_HEADER, 0, 0, 0, 0, 0, 0
        if length != 2:
            return BAD_LENGTH, 0, 0, 0, 0, 0, 0
        return OK, header, 0, 0, 0, 0, 0
    else:
        if length < 4:
            return BAD_LENGTH, 0, 0, 0, 0, 0, 0
        negative = int(top == NEGATIVE)
        dscale = header & LONG_DSCALE_MASK
        weight = load16(buf, start + 2)
        weight -= (weight & 0x8000) << 1
        digits_at = start + 4
    tail = start + length - digits_at
    if tail & 1:
        return BAD_LENGTH, 0, 0, 0, 0, 0, 0
    digits = tail >> 1
    while digits > 0 and buf[digits_at] == 0 and buf[digits_at + 1] == 0:
        digits_at += 2
        digits -= 1
        weight -= 1
    return OK, 0, negative, weight, dscale, digits_at, digits


@leaf
def _decimals(digit: int) -> int:
    """Decimal digits of 1..9999."""
    if digit < 100:
        return 1 if digit < 10 else 2
    return 3 if digit < 1000 else 4


@leaf
def _multiply_add(words: NDArray[np.uint32], at: int, used: int, factor: int, addend: int) -> int:
    """words[at : at + used] (little end first) times factor plus addend, in place; words in use afterwards.

    The caller has made sure that the product has room.
    """
    carry = np.uint64(addend)
    by = np.uint64(factor)
    for j in range(at, at + used):
        product = np.uint64(words[j]) * by + carry
        words[j] = np.uint32(product & _BASE)
        carry = product >> _SHIFT
    if carry != np.uint64(0):
        words[at + used] = np.uint32(carry)
        used += 1
    return used


@leaf
def _wide(
    buf: Bytes,
    at: int,
    digits: int,
    whole: int,
    exponent: int,
    words: NDArray[np.uint32],
    low: int,
    high: int,
    negative: int,
) -> int:
    """An unscaled integer of more than 18 decimals into words[low:high], which are zero and have room for it:
    ``whole`` digits, and what the scale keeps of the one behind them. OK or a problem."""
    used = 0
    for k in range(whole):
        digit = load16(buf, at + 2 * k)
        if digit > 9999:
            return BAD_DIGIT
        used = _multiply_add(words, low, used, 10000, digit)
    if whole == digits:
        shift = exponent - 4 * (whole - 1)
        while shift > 0:
            used = _multiply_add(words, low, used, _POWERS[min(shift, 4)], 0)
            shift -= 4
    else:
        kept = exponent - 4 * whole + 4
        digit = load16(buf, at + 2 * whole)
        if digit > 9999:
            return BAD_DIGIT
        cut = _POWERS[4 - kept]
        head = digit // cut
        if head * cut != digit:
            return TOO_FINE
        used = _multiply_add(words, low, used, _POWERS[kept], head)
    if negative:
        carry = np.uint64(1)
        for j in range(low, high):
            flipped = (np.uint64(words[j]) ^ _BASE) + carry
            words[j] = np.uint32(flipped & _BASE)
            carry = flipped >> _SHIFT
    return OK


@kernel
def numeric_to_decimal(
    buf: Bytes,
    offset: NDArray[np.int32],
    length: NDArray[np.int32],
    kind: NDArray[np.uint8],
    precision: int,
    scale: int,
    width: int,
    longs: NDArray[np.int64],
    words: NDArray[np.uint32],
    first: int,
) -> tuple[int, int]:
    """Numerics to unscaled two's complement integers of ``width`` int64 each (2: decimal128, 4: decimal256).

    ``longs`` and ``words`` are two views of the same output; row i goes to its slot ``first + i``. Rows that are
    no value become 0, NaN becomes the least integer. ``precision`` is the number of decimal digits that the
    unscaled integer may have (at most 38 or 76). Returns (OK, n) or (problem, row).
    """
    size = buf.size
    n = offset.size
    for i in range(n):
        out = (first + i) * width
        for j in range(width):
            longs[out + j] = 0
        if kind[i] != KIND_VALUE:
            continue
        start = int(offset[i])
        many = int(length[i])
        if start < 0 or many < 0 or start + many > size:
            return BAD_LENGTH, i
        problem, special, negative, weight, _, at, digits = _parse(buf, start, many)
        if problem != OK:
            return problem, i
        if special != 0:
            if special != NAN:
                return INFINITE, i
            longs[out + width - 1] = _LEAST
            continue
        if digits == 0:
            continue
        # The power of ten of the first digit's unit, counted in units of the last place of the output.
        exponent = 4 * weight + scale
        top = load16(buf, at)
        if top > 9999:
            return BAD_DIGIT, i
        decimals = exponent + _decimals(top)
        if decimals > precision:
            return TOO_WIDE, i
        whole = (exponent >> 2) + 1
        if whole < 0:
            return TOO_FINE, i
        whole = min(whole, digits)
        if decimals <= 18:
            value = 0
            for k in range(whole):
                digit = load16(buf, at + 2 * k)
                if digit > 9999:
                    return BAD_DIGIT, i
                value = value * 10000 + digit
            if whole == digits:
                value *= _POWERS[exponent - 4 * (whole - 1)]
            else:
                kept = (exponent - 4 * whole) + 4
                digit = load16(buf, at + 2 * whole)
                if digit > 9999:
                    return BAD_DIGIT, i
                cut = _POWERS[4 - kept]
                head = digit // cut
                if head * cut != digit:
                    return TOO_FINE, i
                value = value * _POWERS[kept] + head
            if negative:
                value = -value
            longs[out] = value
            for j in range(1, width):
                longs[out + j] = value >> 63
        else:
            problem = _wide(buf, at, digits, whole, exponent, words, 2 * out, 2 * (out + width), negative)
            if problem != OK:
                return problem, i
        for k in range(whole + 1, digits):
            if load16(buf, at + 2 * k) != 0:
                return TOO_FINE, i
    return OK, n


@leaf
def _put_group(digit: int, many: int, out: Bytes, to: int) -> None:
    """The last ``many`` decimals of a base-10000 digit, as ASCII."""
    for j in range(many - 1, -1, -1):
        rest = digit // 10
        out[to + j] = np.uint8(48 + digit - 10 * rest)
        digit = rest


@leaf
def _eight_digits(value: np.uint64) -> np.uint64:
    """The digits of a number below 10**8 as eight ASCII bytes, the first one lowest."""
    halves = value // _TEN_THOUSAND | (value % _TEN_THOUSAND) << _SHIFT
    # Two decimals per 16 bits, then one per byte: 10486 / 2**20 and 103 / 2**10 divide by 100 and by 10.
    hundreds = (halves * np.uint64(10486)) >> np.uint64(20) & np.uint64(0x0000007F0000007F)
    pairs = (halves - np.uint64(100) * hundreds) << np.uint64(16) | hundreds
    tens = (pairs * np.uint64(103)) >> np.uint64(10) & np.uint64(0x000F000F000F000F)
    return ((pairs - np.uint64(10) * tens) << np.uint64(8) | tens) + np.uint64(0x3030303030303030)


@leaf
def put_plain_numeric(buf: Bytes, start: int, many: int, data: Bytes, to: int) -> int:
    """As put_numeric, for what most numerics are: a short header, up to eight digits before the point and up to four
    behind it. Gives -1 for any other. The caller has checked that PLAIN_ROOM bytes are left in ``data``.
    """
    digits = (many - 2) >> 1
    if many < 2 or many & 1 or digits > 3:
        return -1
    header = load16(buf, start)
    dscale = (header >> SHORT_DSCALE_SHIFT) & SHORT_DSCALE_MASK
    weight = (header & SHORT_WEIGHT_MASK) - (header & SHORT_WEIGHT_SIGN)
    if header & SIGN_MASK != SHORT or dscale > 4 or weight < -1 or weight > 1 or digits > weight + 2:
        return -1
    first = load16(buf, start + 2) if digits > 0 else 0
    second = load16(buf, start + 4) if digits > 1 else 0
    third = load16(buf, start + 6) if digits > 2 else 0
    if first > 9999 or second > 9999 or third > 9999:
        return -1
    whole, fraction = 0, first
    if weight == 0:
        whole, fraction = first, second
    elif weight == 1:
        whole, fraction = 10000 * first + second, third
    if header & SHORT_SIGN:
        data[np.uint64(to)] = _MINUS
        to += 1
    decimals = 1 + int(whole >= 10) + int(whole >= 100) + int(whole >= 1000) + int(whole >= 10000)
    decimals += int(whole >= 100_000) + int(whole >= 1_000_000) + int(whole >= 10_000_000)
    # What is stored past the digits is not part of the text.
    store64(data, np.uint64(to), _eight_digits(np.uint64(whole)) >> np.uint64(64 - 8 * decimals))
    to += decimals
    if dscale > 0:
        data[np.uint64(to)] = _POINT
        store64(data, np.uint64(to + 1), _eight_digits(np.uint64(fraction)) >> _SHIFT)
        to += 1 + dscale
    return to


@leaf
def put_numeric(buf: Bytes, start: int, many: int, data: Bytes, to: int) -> tuple[int, int]:
    """Write one numeric, ``many`` bytes within ``buf``, to ``data[to:]`` as numeric_out prints it.

    Gives DONE, NO_ROOM or -problem (a key of PROBLEMS, negated), and where the text ends.
    """
    problem, special, negative, weight, dscale, at, digits = _parse(buf, start, many)
    if problem != OK:
        return -problem, to
    whole = weight + 1 if digits > 0 and weight >= 0 else 0
    if to + 16 + 4 * whole + dscale > data.size - SLACK:
        return NO_ROOM, to
    if special != 0:
        text = _NAN_TEXT if special == NAN else _INFINITY_TEXT
        for j in range(1 if special == POSITIVE_INFINITY else 0, text.size):
            data[to] = text[j]
            to += 1
        return DONE, to
    if negative:
        data[to] = _MINUS
        to += 1
    if whole == 0:
        data[to] = _ZERO
        to += 1
    for k in range(whole):
        digit = load16(buf, at + 2 * k) if k < digits else 0
        if digit > 9999:
            return -BAD_DIGIT, to
        decimals = 4 if k > 0 else _decimals(digit)
        _put_group(digit, decimals, data, to)
        to += decimals
    if dscale > 0:
        data[to] = _POINT
        to += 1
        k = weight + 1
        for done in range(0, dscale, 4):
            digit = load16(buf, at + 2 * k) if 0 <= k < digits else 0
            if digit > 9999:
                return -BAD_DIGIT, to
            # Decimals past dscale go into the slack, and the next value over them.
            _put_group(digit, 4, data, to + done)
            k += 1
        to += dscale
    return DONE, to


@kernel
def numeric_to_text(
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
    """Numerics as numeric_out prints them: columns.VarFill, but for the status.

    The status is DONE, NO_ROOM, or -problem of a bad value (a key of PROBLEMS, negated).
    """
    size = buf.size
    room = data.size - PLAIN_ROOM
    n = offset.size
    to = used
    for i in range(first, n):
        if kind[i] == KIND_VALUE:
            start = int(offset[i])
            many = int(length[i])
            if start < 0 or many < 0 or start + many > size:
                return -BAD_LENGTH, i, to
            if to > room:
                return NO_ROOM, i, to
            end = put_plain_numeric(buf, start, many, data, to)
            if end < 0:
                status, end = put_numeric(buf, start, many, data, to)
                if status != DONE:
                    return status, i, to
            to = end
        offsets[row + i + 1] = to
    return DONE, n, to


def precision_and_scale(typmod: int) -> tuple[int, int] | None:
    """numeric(p,s) of a type modifier (numeric_typmod_precision and _scale of ``utils/numeric.h``); None if it
    has none. The scale is -1000..1000 and may be larger than the precision."""
    if typmod < HEADER_SIZE:
        return None
    bits = typmod - HEADER_SIZE
    return (bits >> 16) & 0xFFFF, ((bits & 0x7FF) ^ 1024) - 1024


def decimal_shape(typmod: int) -> tuple[int, int] | None:
    """(P, S) of the Arrow decimal that holds every value of the type; None where text must: no precision, or
    more than 76 digits.

    A negative scale rounds before the point: numeric(3,-2) holds up to 99900, five digits. A scale larger than
    the precision has leading zeros behind the point: numeric(2,4) holds up to 0.0099, four digits.
    """
    declared = precision_and_scale(typmod)
    if declared is None:
        return None
    precision, scale = declared
    shape = (precision - scale, 0) if scale < 0 else (max(precision, scale), scale)
    return shape if shape[0] <= DIGITS_256 else None


def _decimal_codec(arrow: pa.DataType, precision: int, scale: int, type_name: str) -> Codec:
    width = 2 if pa.types.is_decimal128(arrow) else 4

    def fill(
        buf: Bytes,
        offset: NDArray[np.int32],
        length: NDArray[np.int32],
        kind: NDArray[np.uint8],
        values: NDArray[Any],
        row: int,
    ) -> int:
        problem, at = numeric_to_decimal(
            buf, offset, length, kind, precision, scale, width, values, values.view(np.uint32), row
        )
        if problem != OK:
            raise BadValue(at, f"not a value of {type_name}: {PROBLEMS[problem]}")
        return -1

    return Codec(arrow, lambda: FixedColumn(arrow, np.int64, fill, width=width))


def _text_fill(
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
    status, at, used = numeric_to_text(buf, offset, length, kind, first, offsets, data, row, used)
    if status < 0:
        raise BadValue(at, f"not a value of numeric: {PROBLEMS[-status]}")
    return status, at, used


def text_codec(use: TypeUse) -> Codec:
    """The number as numeric_out prints it."""
    return Codec(pa.string(), lambda: VarColumn(pa.string(), _text_fill))


def numeric_codec(use: TypeUse) -> Codec:
    """decimal128, decimal256 (raw values; NaN as api.DECIMAL_NAN_*) or string, by the column's typmod."""
    shape = decimal_shape(use.typmod)
    declared = precision_and_scale(use.typmod)
    if shape is None or declared is None:
        return text_codec(use)
    precision, scale = shape
    arrow = pa.decimal128(precision, scale) if precision <= DIGITS_128 else pa.decimal256(precision, scale)
    # Of numeric(2,4) the unscaled value has 2 digits at most, though its decimal has 4.
    return _decimal_codec(arrow, declared[0] if scale else precision, scale, use.type_name)


CODECS: Mapping[int, CodecMaker] = {type_oids.NUMERIC: numeric_codec}
TEXTS: Mapping[int, CodecMaker] = {type_oids.NUMERIC: text_codec}
