"""The text of float8 and float4: the shortest decimals that read back as the same value, as Postgres prints them.

Postgres 12 and newer print floats by Ryu (``common/d2s.c``, ``common/f2s.c``) unless ``extra_float_digits`` is
below 1. Of the decimals strictly between the midpoints to both neighbours it is one with the fewest digits, the
nearest to the value among those. A decimal on a midpoint itself is not taken, though it would read back right.

The value is ``m * 2**e``. Times four, it and the two midpoints are integers times ``2**(e - 2)``. Multiplied by
a power of five out of a table and shifted right, they become integers in units of a power of ten chosen small
enough for one digit or more to be cut; digits are cut as long as a decimal stays between the midpoints.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.pgformat.jit import kernel

LONGEST_FLOAT: Final = 24
"""The most bytes that put_float writes: ``-2.2250738585072014e-308``."""

_LIMBS: Final = 4
_INVERSE_BITS: Final = 122
_POWER_BITS: Final = 121
_INVERSES: Final = 292
_POWERS: Final = 326
"""float8's exponents need 1 / 5**0 to 1 / 5**291, and 5**0 to 5**325."""


def _limbs(numbers: list[int]) -> NDArray[np.uint64]:
    """Rows of four 32-bit limbs, lowest first."""
    rows = [[n >> (32 * k) & 0xFFFFFFFF for k in range(_LIMBS)] for n in numbers]
    return np.array(rows, np.uint64).reshape(-1)


def _inverse(power: int) -> int:
    """``1 / power`` with 122 bits or so behind the point, rounded up."""
    return (1 << (power.bit_length() - 1 + _INVERSE_BITS)) // power + 1


def _leading(power: int) -> int:
    """The first 121 bits of a power."""
    shift = power.bit_length() - _POWER_BITS
    return power >> shift if shift >= 0 else power << -shift


_INVERSE = _limbs([_inverse(5**q) for q in range(_INVERSES)])
_POWER = _limbs([_leading(5**i) for i in range(_POWERS)])
_PAIRS = np.frombuffer("".join(f"{k:02d}" for k in range(100)).encode(), np.uint8)

_LOW32 = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_0 = np.uint64(0)
_1 = np.uint64(1)
_2 = np.uint64(2)
_5 = np.uint64(5)
_10 = np.uint64(10)
_100 = np.uint64(100)
_EXACT_POWERS: Final = 21
"""How far Postgres looks for a value that is a multiple of a power of five."""

_INFINITY = np.frombuffer(b"Infinity", np.uint8)
_MINUS, _PLUS, _POINT, _ZERO, _E, _N, _A = b"-+.0eNa"


@kernel
def _bits_of_power5(e: int) -> int:
    """Bits of 5**e; 1 + floor(e * log2(5)) as long as e is below 3529."""
    return ((e * 1217359) >> 19) + 1


@kernel
def _scaled(m: np.uint64, table: NDArray[np.uint64], at: int, shift: int) -> np.uint64:
    """``m`` (below 2**56) times the factor at ``table[at:]``, shifted right by 96..159; it fits into 64 bits."""
    i = np.uint64(at)
    low = m & _LOW32
    high = m >> _32
    f0 = table[i]
    f1 = table[i + _1]
    f2 = table[i + _2]
    f3 = table[i + np.uint64(3)]
    # Both partial products by limbs: each sum stays below 2**64.
    p1 = low * f1 + ((low * f0) >> _32)
    p2 = low * f2 + (p1 >> _32)
    p3 = low * f3 + (p2 >> _32)
    q1 = high * f0 + (p1 & _LOW32)
    q2 = high * f1 + (p2 & _LOW32) + (q1 >> _32)
    q3 = high * f2 + (p3 & _LOW32) + (q2 >> _32)
    q4 = high * f3 + (p3 >> _32) + (q3 >> _32)
    middle = (q2 & _LOW32) | ((q3 & _LOW32) << _32)
    return np.uint64((q4 << np.uint64(128 - shift)) | (middle >> np.uint64(shift - 64)))


@kernel
def _is_multiple_of_power5(value: np.uint64, power: int) -> bool:
    for _ in range(power):
        fifth = value // _5
        if fifth * _5 != value:
            return False
        value = fifth
    return True


@kernel
def _shortest(m: np.uint64, e: int, below: int) -> tuple[np.uint64, int]:
    """The decimal (digits, power of ten) of ``m * 2**e``, neither 0 nor infinite.

    ``below`` is 1 if the midpoint below is as far away as the one above, 0 if half as far.
    """
    value = m << _2
    upper = value + _2
    lower = value - np.uint64(1 + below)
    e -= 2
    exact = False
    closed = False
    if e >= 0:
        q = ((e * 78913) >> 18) - int(e > 3)
        shift = q - e + _INVERSE_BITS + _bits_of_power5(q) - 1
        power = q
        b = _scaled(value, _INVERSE, _LIMBS * q, shift)
        c = _scaled(upper, _INVERSE, _LIMBS * q, shift)
        a = _scaled(lower, _INVERSE, _LIMBS * q, shift)
        if q <= _EXACT_POWERS:
            exact = _is_multiple_of_power5(value, q)
            closed = _is_multiple_of_power5(upper, q)
    else:
        q = ((-e * 732923) >> 20) - int(e < -1)
        i = -e - q
        shift = q - _bits_of_power5(i) + _POWER_BITS
        power = q + e
        b = _scaled(value, _POWER, _LIMBS * i, shift)
        c = _scaled(upper, _POWER, _LIMBS * i, shift)
        a = _scaled(lower, _POWER, _LIMBS * i, shift)
        exact = q < 64 and (value & ((_1 << np.uint64(q)) - _1)) == _0
        closed = q <= 1
    if closed:
        c -= _1
    # Decimals in (a, c] are between the midpoints; b is the value, cut, and it was whole if ``exact``.
    cut = _0
    while True:
        a10 = a // _10
        c10 = c // _10
        if a10 >= c10:
            break
        exact = exact and cut == _0
        b10 = b // _10
        cut = b - b10 * _10
        a = a10
        b = b10
        c = c10
        power += 1
    # The nearest; halfway, the even one.
    up = cut > _5 or (cut == _5 and not (exact and (b & _1) == _0))
    return b + np.uint64(up or a == b), power


@kernel
def _put_digits(value: np.uint64, count: int, data: Bytes, at: int) -> None:
    """The last ``count`` decimals of a value."""
    end = np.uint64(at + count)
    start = np.uint64(at)
    while start + _2 <= end:
        rest = value // _100
        pair = (value - rest * _100) << _1
        data[end - _1] = _PAIRS[pair + _1]
        data[end - _2] = _PAIRS[pair]
        end -= _2
        value = rest
    if start < end:
        data[start] = np.uint8(value % _10 + np.uint64(_ZERO))


@kernel
def count_digits(value: np.uint64) -> int:
    """Decimal digits of a value; 1 for 0."""
    count = 1
    while value >= _10:
        value //= _10
        count += 1
    return count


@kernel
def _put_decimal(digits: np.uint64, power: int, fixed: int, data: Bytes, at: int) -> int:
    """``digits * 10**power`` as printed; the end."""
    count = count_digits(digits)
    whole = count + power
    if -4 < whole <= fixed:
        if power >= 0:
            _put_digits(digits, count, data, at)
            for k in range(at + count, at + whole):
                data[k] = _ZERO
            return at + whole
        if whole > 0:
            _put_digits(digits, count, data, at + 1)
            for k in range(at, at + whole):
                data[k] = data[k + 1]
            data[at + whole] = _POINT
            return at + count + 1
        data[at] = _ZERO
        data[at + 1] = _POINT
        for k in range(at + 2, at + 2 - whole):
            data[k] = _ZERO
        _put_digits(digits, count, data, at + 2 - whole)
        return at + 2 - whole + count
    _put_digits(digits, count, data, at + 1)
    data[at] = data[at + 1]
    at += 1
    if count > 1:
        data[at] = _POINT
        at += count
    exponent = whole - 1
    data[at] = _E
    data[at + 1] = _MINUS if exponent < 0 else _PLUS
    exponent = abs(exponent)
    width = 3 if exponent >= 100 else 2
    _put_digits(np.uint64(exponent), width, data, at + 2)
    return at + 2 + width


@kernel
def put_float(bits: np.uint64, double: bool, data: Bytes, at: int) -> int:
    """Write a float8 by its IEEE bits as float8out does, or without ``double`` a float4; the end.

    ``data`` has LONGEST_FLOAT bytes from ``at`` on. A caller in a kernel gives ``double`` by a variable: for each
    constant all of this would be compiled anew.
    """
    fraction_bits = 52 if double else 23
    top = 2047 if double else 255
    bias = (top >> 1) + fraction_bits
    implicit = _1 << np.uint64(fraction_bits)
    fraction = bits & (implicit - _1)
    high = int(np.int64(bits >> np.uint64(fraction_bits)))
    biased = high & top
    if biased == top and fraction != _0:
        data[at] = data[at + 2] = _N
        data[at + 1] = _A
        return at + 3
    if high > top:
        data[at] = _MINUS
        at += 1
    if biased == top:
        for k in range(_INFINITY.size):
            data[at + k] = _INFINITY[k]
        return at + _INFINITY.size
    if biased == 0 and fraction == _0:
        data[at] = _ZERO
        return at + 1
    below = int(fraction != _0 or biased <= 1)
    m = fraction if biased == 0 else fraction | implicit
    digits, power = _shortest(m, max(biased, 1) - bias, below)
    return _put_decimal(digits, power, 15 if double else 6, data, at)
