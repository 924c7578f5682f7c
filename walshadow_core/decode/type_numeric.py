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

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.pgformat.jit import kernel

SIGN_MASK = 0xC000
NEGATIVE = 0x4000
SHORT = 0x8000
SPECIAL = 0xC000
NAN = 0xC000
POSITIVE_INFINITY = 0xD000
NEGATIVE_INFINITY = 0xF000
SHORT_SIGN = 0x2000
SHORT_DSCALE_SHIFT = 7
SHORT_DSCALE_MASK = 0x3F
SHORT_WEIGHT_MASK = 0x3F
SHORT_WEIGHT_SIGN = 0x40
LONG_DSCALE_MASK = 0x3FFF

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

_VALUE = 1  # deform.KIND_VALUE
_BASE = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_POWERS = np.array([10**k for k in range(5)], np.int64)
_NAN_TEXT = np.frombuffer(bytearray(b"NaN"), np.uint8)
_INFINITY_TEXT = np.frombuffer(bytearray(b"-Infinity"), np.uint8)


@kernel
def _parse(buf: Bytes, start: int, length: int) -> tuple[int, int, int, int, int, int, int]:
    """The parts of one numeric that lies within ``buf``.

    (problem, special header or 0, 1 if negative, weight, dscale, offset of the first digit, digits), leading
    zero digits skipped.
    """
    if length < 2:
        return BAD_LENGTH, 0, 0, 0, 0, 0, 0
    header = np.int64(buf[start]) | (np.int64(buf[start + 1]) << 8)
    top = header & SIGN_MASK
    if top == SHORT:
        negative = np.int64((header & SHORT_SIGN) != 0)
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
        negative = np.int64(top == NEGATIVE)
        dscale = header & LONG_DSCALE_MASK
        weight = np.int64(buf[start + 2]) | (np.int64(buf[start + 3]) << 8)
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


@kernel
def _digit(buf: Bytes, at: int) -> int:
    return np.int64(buf[at]) | (np.int64(buf[at + 1]) << 8)


@kernel
def _decimals(digit: int) -> int:
    """Decimal digits of 1..9999."""
    if digit < 100:
        return 1 if digit < 10 else 2
    return 3 if digit < 1000 else 4


@kernel
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
    size = len(buf)
    n = len(offset)
    for i in range(n):
        out = (first + i) * width
        for j in range(width):
            longs[out + j] = 0
        if kind[i] != _VALUE:
            continue
        start = np.int64(offset[i])
        many = np.int64(length[i])
        if start < 0 or many < 0 or start + many > size:
            return BAD_LENGTH, i
        problem, special, negative, weight, _, at, digits = _parse(buf, start, many)
        if problem != OK:
            return problem, i
        if special != 0:
            if special != NAN:
                return INFINITE, i
            longs[out + width - 1] = -(2**63)
            continue
        if digits == 0:
            continue
        # The power of ten of the first digit's unit, counted in units of the last place of the output.
        exponent = 4 * weight + scale
        top = _digit(buf, at)
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
            value = np.int64(0)
            for k in range(whole):
                digit = _digit(buf, at + 2 * k)
                if digit > 9999:
                    return BAD_DIGIT, i
                value = value * 10000 + digit
            if whole == digits:
                # 1 to 10**17, as the last digit's unit is below the value.
                for _zero in range(exponent - 4 * (whole - 1)):
                    value *= 10
            else:
                kept = (exponent - 4 * whole) + 4
                digit = _digit(buf, at + 2 * whole)
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
            low = 2 * out
            used = 0
            for k in range(whole):
                digit = _digit(buf, at + 2 * k)
                if digit > 9999:
                    return BAD_DIGIT, i
                used = _multiply_add(words, low, used, 10000, digit)
            if whole == digits:
                missing = exponent - 4 * (whole - 1)
                while missing > 0:
                    step = min(missing, 4)
                    used = _multiply_add(words, low, used, _POWERS[step], 0)
                    missing -= step
            else:
                kept = (exponent - 4 * whole) + 4
                digit = _digit(buf, at + 2 * whole)
                if digit > 9999:
                    return BAD_DIGIT, i
                cut = _POWERS[4 - kept]
                head = digit // cut
                if head * cut != digit:
                    return TOO_FINE, i
                used = _multiply_add(words, low, used, _POWERS[kept], head)
            if negative:
                carry = np.uint64(1)
                for j in range(low, low + 2 * width):
                    flipped = (np.uint64(words[j]) ^ _BASE) + carry
                    words[j] = np.uint32(flipped & _BASE)
                    carry = flipped >> _SHIFT
        for k in range(whole + 1, digits):
            if _digit(buf, at + 2 * k) != 0:
                return TOO_FINE, i
    return OK, n
