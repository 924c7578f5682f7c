"""Kernels that write one value's text: numbers, hours, days. The caller has made sure of the room.

Each gives the index after what it wrote.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from walshadow_core.api import Bytes
from walshadow_core.pgformat.jit import leaf

DAY_MICROSECONDS: Final = 86_400_000_000
SECOND_MICROSECONDS: Final = 1_000_000
DAYS_BEFORE_2000: Final = 730_425
"""From 1 March of the year 0 (proleptic Gregorian) to 2000-01-01; leap days then come last in a year."""
ERA_DAYS: Final = 146_097
"""Days of 400 years."""

LONGEST_NUMBER: Final = 20
LONGEST_TIMESTAMP: Final = 40
"""Upper bounds of the bytes of a text: an int64; a timestamp with time zone of six digits of year and ``BC``."""

_MINUS, _PLUS, _COLON, _POINT, _SPACE, _ZERO, _B, _C = b"-+:. 0BC"
_TEN = np.uint64(10)
_INFINITY = np.frombuffer(b"-infinity", np.uint8)
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


@leaf
def put_number(value: int | np.uint64, least: int, out: Bytes, to: int) -> int:
    """A number that is not negative (any uint64), in ``least`` decimals or more."""
    left = np.uint64(value)
    many = 1
    rest = left // _TEN
    while rest != np.uint64(0):
        many += 1
        rest //= _TEN
    many = max(many, least)
    for j in range(many - 1, -1, -1):
        rest = left // _TEN
        out[to + j] = np.uint8(np.uint64(_ZERO) + (left - _TEN * rest))
        left = rest
    return to + many


@leaf
def put_signed(value: int, out: Bytes, to: int) -> int:
    """Any int64."""
    if value < 0:
        out[to] = _MINUS
        return put_number(np.uint64(-(value + 1)) + np.uint64(1), 1, out, to + 1)
    return put_number(np.uint64(value), 1, out, to)


@leaf
def put_infinity(negative: bool, out: Bytes, to: int) -> int:
    """``infinity`` or ``-infinity``."""
    for j in range(0 if negative else 1, _INFINITY.size):
        out[to] = _INFINITY[j]
        to += 1
    return to


@leaf
def put_hex(buf: Bytes, start: int, count: int, out: Bytes, to: int) -> int:
    """Bytes in lower-case hex."""
    for k in range(start, start + count):
        byte = buf[np.uint64(k)]
        out[to] = _HEX[byte >> 4]
        out[to + 1] = _HEX[byte & 15]
        to += 2
    return to


@leaf
def put_time(seconds: int, micros: int, out: Bytes, to: int) -> int:
    """hh:mm:ss and the fraction without trailing zeros (AppendSeconds)."""
    minutes = seconds // 60
    to = put_number(minutes // 60, 2, out, to)
    out[to] = _COLON
    to = put_number(minutes % 60, 2, out, to + 1)
    out[to] = _COLON
    to = put_number(seconds % 60, 2, out, to + 1)
    if micros != 0:
        out[to] = _POINT
        to = put_number(micros, 6, out, to + 1)
        while out[to - 1] == _ZERO:
            to -= 1
    return to


@leaf
def _put_day(days: int, out: Bytes, to: int) -> tuple[int, bool]:
    """yyyy-mm-dd of a day since 2000-01-01, and whether it is BC."""
    since = days + DAYS_BEFORE_2000
    era = since // ERA_DAYS
    day = since - era * ERA_DAYS
    year = (day - day // 1460 + day // 36524 - day // (ERA_DAYS - 1)) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    year += 400 * era
    month += 3
    if month > 12:
        month -= 12
        year += 1
    to = put_number(year if year > 0 else 1 - year, 4, out, to)
    out[to] = _MINUS
    to = put_number(month, 2, out, to + 1)
    out[to] = _MINUS
    return put_number(day + 1, 2, out, to + 1), year <= 0


@leaf
def _put_era(bc: bool, out: Bytes, to: int) -> int:
    if bc:
        out[to] = _SPACE
        out[to + 1] = _B
        out[to + 2] = _C
        to += 3
    return to


@leaf
def put_date(days: int, out: Bytes, to: int) -> int:
    """A day since 2000-01-01 as EncodeDateOnly writes it under DateStyle ISO."""
    to, bc = _put_day(days, out, to)
    return _put_era(bc, out, to)


@leaf
def put_timestamp(micros: int, zone: bool, out: Bytes, to: int) -> int:
    """Microseconds since 2000-01-01 as EncodeDateTime writes them under DateStyle ISO, with the zone of UTC or
    without."""
    days = micros // DAY_MICROSECONDS
    time = micros - days * DAY_MICROSECONDS
    to, bc = _put_day(days, out, to)
    out[to] = _SPACE
    to = put_time(time // SECOND_MICROSECONDS, time % SECOND_MICROSECONDS, out, to + 1)
    if zone:
        out[to] = _PLUS
        out[to + 1] = _ZERO
        out[to + 2] = _ZERO
        to += 3
    return _put_era(bc, out, to)
