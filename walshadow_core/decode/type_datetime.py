"""timetz and interval: no Arrow type holds them, so they become the text that Postgres prints.

timetz (``utils/date.h`` TimeTzADT) is int64 microseconds of the day and int32 zone, seconds WEST of UTC. interval
(``datatype/timestamp.h`` Interval) is int64 microseconds, int32 days, int32 months. Text is that of DateStyle ISO
and IntervalStyle postgres (``utils/adt/datetime.c``: EncodeTimeOnly, EncodeTimezone, EncodeInterval).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.decode import type_oids
from walshadow_core.decode.columns import (
    BAD_VALUE,
    DONE,
    NO_ROOM,
    SLACK,
    Codec,
    CodecMaker,
    TypeUse,
    VarColumn,
    VarFill,
)
from walshadow_core.decode.deform import KIND_VALUE
from walshadow_core.decode.text_put import DAY_MICROSECONDS, put_infinity, put_number, put_time
from walshadow_core.pgformat.heap import load32
from walshadow_core.pgformat.jit import kernel

TIMETZ_LENGTH: Final = 12
INTERVAL_LENGTH: Final = 16
ZONE_LIMIT: Final = 16 * 3600
"""TZDISP_LIMIT: a zone is nearer to UTC than this."""
LONGEST_TIMETZ: Final = 24
LONGEST_INTERVAL: Final = 80
"""Upper bounds of the bytes of a text."""

_MINUS, _PLUS, _COLON, _SPACE, _S = b"-+: s"
_UNITS = np.frombuffer(b"yearmonday", np.uint8)
_YEAR, _MON, _DAY, _END = 0, 4, 7, 10
_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1
_INT64_MIN, _INT64_MAX = np.int64(-(2**63)), np.int64(2**63 - 1)


@kernel
def _signed32(buf: Bytes, at: int) -> int:
    value = load32(buf, at)
    return value - ((value & 0x80000000) << 1)


@kernel
def _signed64(buf: Bytes, at: int) -> int:
    return load32(buf, at) | (_signed32(buf, at + 4) << 32)


@kernel
def timetz_to_text(
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
    """``04:05:06.789+05:30``: columns.VarFill. Bad: a time past 24:00:00, a zone 16 hours or more from UTC."""
    n = offset.size
    to = used
    for i in range(first, n):
        if kind[i] != KIND_VALUE:
            offsets[row + i + 1] = to
            continue
        at = int(offset[i])
        if at < 0 or length[i] != TIMETZ_LENGTH or at + TIMETZ_LENGTH > buf.size:
            return BAD_VALUE, i, to
        time = _signed64(buf, at)
        zone = _signed32(buf, at + 8)
        if time < 0 or time > DAY_MICROSECONDS or zone <= -ZONE_LIMIT or zone >= ZONE_LIMIT:
            return BAD_VALUE, i, to
        if to + LONGEST_TIMETZ > data.size - SLACK:
            return NO_ROOM, i, to
        to = put_time(time // 1_000_000, time % 1_000_000, data, to)
        data[to] = _PLUS if zone <= 0 else _MINUS
        away = abs(zone)
        to = put_number(away // 3600, 2, data, to + 1)
        if away % 3600 != 0:
            data[to] = _COLON
            to = put_number(away // 60 % 60, 2, data, to + 1)
            if away % 60 != 0:
                data[to] = _COLON
                to = put_number(away % 60, 2, data, to + 1)
        offsets[row + i + 1] = to
    return DONE, n, to


@kernel
def _put_field(value: int, before: int, name: int, name_end: int, out: Bytes, to: int) -> int:
    """``-3 days``, as AddPostgresIntPart prints a field that is not 0; ``before`` is the sign of the last field
    printed, 0 if there was none. Where it ends."""
    if before != 0:
        out[to] = _SPACE
        to += 1
    if value < 0:
        out[to] = _MINUS
        to += 1
    elif before < 0:
        out[to] = _PLUS
        to += 1
    to = put_number(abs(value), 1, out, to)
    out[to] = _SPACE
    to += 1
    for j in range(name, name_end):
        out[to] = _UNITS[j]
        to += 1
    if value != 1:
        out[to] = _S
        to += 1
    return to


@kernel
def interval_to_text(
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
    """``1 year 2 mons -3 days +04:05:06.789``: columns.VarFill.

    All three fields at their least or largest values are ``-infinity`` and ``infinity``, as since Postgres 17.
    """
    n = offset.size
    to = used
    for i in range(first, n):
        if kind[i] != KIND_VALUE:
            offsets[row + i + 1] = to
            continue
        at = int(offset[i])
        if at < 0 or length[i] != INTERVAL_LENGTH or at + INTERVAL_LENGTH > buf.size:
            return BAD_VALUE, i, to
        if to + LONGEST_INTERVAL > data.size - SLACK:
            return NO_ROOM, i, to
        time = _signed64(buf, at)
        days = _signed32(buf, at + 8)
        months = _signed32(buf, at + 12)
        lowest = time == _INT64_MIN and days == _INT32_MIN and months == _INT32_MIN
        highest = time == _INT64_MAX and days == _INT32_MAX and months == _INT32_MAX
        if lowest or highest:
            to = put_infinity(lowest, data, to)
            offsets[row + i + 1] = to
            continue
        before = 0
        years = abs(months) // 12
        rest = abs(months) % 12
        if months < 0:
            years = -years
            rest = -rest
        if years != 0:
            to = _put_field(years, before, _YEAR, _MON, data, to)
            before = 1 if years > 0 else -1
        if rest != 0:
            to = _put_field(rest, before, _MON, _DAY, data, to)
            before = 1 if rest > 0 else -1
        if days != 0:
            to = _put_field(days, before, _DAY, _END, data, to)
            before = 1 if days > 0 else -1
        if before == 0 or time != 0:
            if before != 0:
                data[to] = _SPACE
                to += 1
            if time < 0:
                data[to] = _MINUS
                to += 1
                # The least int64 has no positive twin, so the sign goes before the last microsecond is added.
                almost = -(time + 1)
                seconds = almost // 1_000_000
                micros = almost % 1_000_000 + 1
                if micros == 1_000_000:
                    seconds += 1
                    micros = 0
            else:
                if before < 0:
                    data[to] = _PLUS
                    to += 1
                seconds = time // 1_000_000
                micros = time % 1_000_000
            to = put_time(seconds, micros, data, to)
        offsets[row + i + 1] = to
    return DONE, n, to


def _text_codec(fill: VarFill, reason: str) -> CodecMaker:
    def make(use: TypeUse) -> Codec:
        return Codec(pa.string(), lambda: VarColumn(pa.string(), fill, reason=reason))

    return make


CODECS: Mapping[int, CodecMaker] = {
    type_oids.TIMETZ: _text_codec(timetz_to_text, "not a time with time zone"),
    type_oids.INTERVAL: _text_codec(interval_to_text, "not an interval"),
}
