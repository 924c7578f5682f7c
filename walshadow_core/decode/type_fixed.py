"""Types of one width: booleans, integers, floats, dates, times, uuid.

On disk they are the C values of the server (little-endian), as ``utils/date.h``, ``utils/timestamp.h`` and
``utils/uuid.h`` declare them. Integers, floats and uuids are moved as bits, whatever they mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from walshadow_core.api import (
    DATE_INFINITY,
    DATE_NEG_INFINITY,
    TIMESTAMP_INFINITY,
    TIMESTAMP_NEG_INFINITY,
    Bytes,
)
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.columns import (
    FIRST_ROWS,
    BadValue,
    Codec,
    CodecMaker,
    FixedColumn,
    FixedFill,
    Spare,
    TypeUse,
    Validity,
    enlarged,
    load64,
)
from walshadow_core.decode.deform import KIND_VALUE
from walshadow_core.pgformat.jit import kernel

EPOCH_DAYS: Final = 10957
EPOCH_MICROSECONDS: Final = EPOCH_DAYS * 86_400_000_000
"""From 1970-01-01, where Arrow counts from, to 2000-01-01, where Postgres does."""

MIN_DATE: Final = -2_451_545
END_DATE: Final = 2_145_031_949
"""Dates run from 4714-11-24 BC to 5874897-12-31, in days since 2000-01-01 (``datatype/timestamp.h``)."""
MIN_TIMESTAMP: Final = -211_813_488_000_000_000
END_TIMESTAMP: Final = 9_223_371_331_200_000_000
"""Timestamps run to the end of the year 294276, in microseconds since 2000-01-01."""
LAST_ARROW_TIMESTAMP: Final = TIMESTAMP_INFINITY - 1
MAX_TIME: Final = 86_400_000_000
"""24:00:00 is a time of its own."""


@kernel
def append_bools(
    buf: Bytes,
    offset: NDArray[np.int32],
    length: NDArray[np.int32],
    kind: NDArray[np.uint8],
    bitmap: Bytes,
    row: int,
) -> int:
    """A FixedFill over a bitmap: bit ``row + i`` is value i. A byte that is neither 0 nor 1 is bad."""
    n = kind.size
    i = 0
    while i < n:
        byte = 0
        shift = (row + i) & 7
        if shift != 0:
            byte = int(np.int64(bitmap[np.uint64((row + i) >> 3)])) & ((1 << shift) - 1)
        first = i
        stop = min(i + 8 - shift, n)
        while i < stop:
            if kind[i] == KIND_VALUE:
                value = int(np.int64(buf[np.uint64(offset[i])]))
                if value > 1:
                    return i
                byte |= value << (shift + i - first)
            i += 1
        bitmap[np.uint64((row + first) >> 3)] = np.uint8(byte)
    return -1


@kernel
def take8(
    buf: Bytes,
    offset: NDArray[np.int32],
    length: NDArray[np.int32],
    kind: NDArray[np.uint8],
    values: NDArray[np.uint8],
    row: int,
) -> int:
    """A FixedFill for one byte as it is."""
    at = np.uint64(row)
    for i in range(kind.size):
        value = np.uint8(0)
        if kind[i] == KIND_VALUE:
            value = buf[np.uint64(offset[i])]
        values[at] = value
        at += np.uint64(1)
    return -1


@kernel
def take16(
    buf: Bytes,
    offset: NDArray[np.int32],
    length: NDArray[np.int32],
    kind: NDArray[np.uint8],
    values: NDArray[np.uint16],
    row: int,
) -> int:
    """A FixedFill for two bytes as they are."""
    at = np.uint64(row)
    for i in range(kind.size):
        value = np.uint16(0)
        if kind[i] == KIND_VALUE:
            first = np.uint64(offset[i])
            value = np.uint16(np.uint16(buf[first]) | (np.uint16(buf[first + np.uint64(1)]) << np.uint16(8)))
        values[at] = value
        at += np.uint64(1)
    return -1


@kernel
def _load32(buf: Bytes, at: np.uint64) -> np.uint32:
    value = np.uint32(0)
    for k in range(4):
        value |= np.uint32(buf[at + np.uint64(k)]) << np.uint32(8 * k)
    return value


@kernel
def take32(
    buf: Bytes,
    offset: NDArray[np.int32],
    length: NDArray[np.int32],
    kind: NDArray[np.uint8],
    values: NDArray[np.uint32],
    row: int,
) -> int:
    """A FixedFill for four bytes as they are."""
    at = np.uint64(row)
    for i in range(kind.size):
        value = np.uint32(0)
        if kind[i] == KIND_VALUE:
            value = _load32(buf, np.uint64(offset[i]))
        values[at] = value
        at += np.uint64(1)
    return -1


@kernel
def take64(
    buf: Bytes,
    offset: NDArray[np.int32],
    length: NDArray[np.int32],
    kind: NDArray[np.uint8],
    values: NDArray[np.uint64],
    row: int,
) -> int:
    """A FixedFill for eight bytes as they are."""
    at = np.uint64(row)
    for i in range(kind.size):
        value = np.uint64(0)
        if kind[i] == KIND_VALUE:
            value = load64(buf, np.uint64(offset[i]))
        values[at] = value
        at += np.uint64(1)
    return -1


@kernel
def take128(
    buf: Bytes,
    offset: NDArray[np.int32],
    length: NDArray[np.int32],
    kind: NDArray[np.uint8],
    values: NDArray[np.uint64],
    row: int,
) -> int:
    """A FixedFill for sixteen bytes as they are: two elements a value."""
    at = np.uint64(2 * row)
    for i in range(kind.size):
        low = np.uint64(0)
        high = np.uint64(0)
        if kind[i] == KIND_VALUE:
            first = np.uint64(offset[i])
            low = load64(buf, first)
            high = load64(buf, first + np.uint64(8))
        values[at] = low
        values[at + np.uint64(1)] = high
        at += np.uint64(2)
    return -1


@kernel
def take_dates(
    buf: Bytes,
    offset: NDArray[np.int32],
    length: NDArray[np.int32],
    kind: NDArray[np.uint8],
    values: NDArray[np.int32],
    row: int,
) -> int:
    """A FixedFill for DateADT: days since 1970-01-01, infinities as they are."""
    at = np.uint64(row)
    for i in range(kind.size):
        value = 0
        if kind[i] == KIND_VALUE:
            value = int(np.int64(_load32(buf, np.uint64(offset[i]))))
            value = ((value + 2**31) & 0xFFFFFFFF) - 2**31
            if MIN_DATE <= value < END_DATE:
                value += EPOCH_DAYS
            elif value != DATE_INFINITY and value != DATE_NEG_INFINITY:
                return i
        values[at] = value
        at += np.uint64(1)
    return -1


@kernel
def take_times(
    buf: Bytes,
    offset: NDArray[np.int32],
    length: NDArray[np.int32],
    kind: NDArray[np.uint8],
    values: NDArray[np.int64],
    row: int,
) -> int:
    """A FixedFill for TimeADT: microseconds since midnight, 24:00:00 included."""
    at = np.uint64(row)
    for i in range(kind.size):
        value = np.uint64(0)
        if kind[i] == KIND_VALUE:
            value = load64(buf, np.uint64(offset[i]))
            if value > np.uint64(MAX_TIME):
                return i
        values[at] = np.int64(value)
        at += np.uint64(1)
    return -1


@kernel
def take_timestamps(
    buf: Bytes,
    offset: NDArray[np.int32],
    length: NDArray[np.int32],
    kind: NDArray[np.uint8],
    values: NDArray[np.int64],
    row: int,
) -> int:
    """A FixedFill for Timestamp: microseconds since 1970-01-01, infinities as they are. What Arrow can't hold
    (after 294247-01-10) is held at its last finite value."""
    at = np.uint64(row)
    for i in range(kind.size):
        value = np.int64(0)
        if kind[i] == KIND_VALUE:
            value = np.int64(load64(buf, np.uint64(offset[i])))
            if MIN_TIMESTAMP <= value < END_TIMESTAMP:
                value = min(value, np.int64(LAST_ARROW_TIMESTAMP - EPOCH_MICROSECONDS)) + np.int64(EPOCH_MICROSECONDS)
            elif value != TIMESTAMP_INFINITY and value != TIMESTAMP_NEG_INFINITY:
                return i
        values[at] = value
        at += np.uint64(1)
    return -1


class BoolColumn:
    """Builder of booleans: Arrow keeps them as a bitmap."""

    def __init__(self) -> None:
        self._bits: Bytes = np.empty(FIRST_ROWS // 8, np.uint8)
        self._spare = Spare()
        self._validity = Validity()
        self._rows = 0

    @property
    def nbytes(self) -> int:
        """Bytes of values held."""
        return self._rows >> 3

    def append(self, buf: Bytes, offset: NDArray[np.int32], length: NDArray[np.int32], kind: NDArray[np.uint8]) -> None:
        """See ColumnBuilder."""
        row = self._rows
        needed = (row + kind.size + 7) >> 3
        if needed > self._bits.size:
            self._bits = enlarged(self._bits, (row + 7) >> 3, needed)
        bad = append_bools(buf, offset, length, kind, self._bits, row)
        if bad >= 0:
            raise BadValue(bad, "not a value of bool")
        self._validity.append(kind, row)
        self._rows = row + kind.size

    def finish(self) -> pa.Array:
        """See ColumnBuilder."""
        rows, bits = self._rows, self._bits
        bitmap, nulls = self._validity.take(rows)
        self._rows = 0
        self._bits = self._spare.instead_of(bits, bits.size)
        return pa.Array.from_buffers(pa.bool_(), rows, [bitmap, pa.py_buffer(bits[: (rows + 7) >> 3])], nulls)


def _make_bool(use: TypeUse) -> Codec:
    return Codec(pa.bool_(), BoolColumn)


def _maker(arrow: pa.DataType, dtype: DTypeLike, fill: FixedFill, width: int = 1) -> CodecMaker:
    def make(use: TypeUse) -> Codec:
        reason = f"not a value of {use.type_name}"
        return Codec(arrow, lambda: FixedColumn(arrow, dtype, fill, width=width, reason=reason))

    return make


_FIXED: tuple[tuple[int, pa.DataType, Any, FixedFill], ...] = (
    (oid.CHAR, pa.int8(), np.uint8, take8),
    (oid.INT2, pa.int16(), np.uint16, take16),
    (oid.INT4, pa.int32(), np.uint32, take32),
    (oid.INT8, pa.int64(), np.uint64, take64),
    (oid.OID, pa.uint32(), np.uint32, take32),
    (oid.FLOAT4, pa.float32(), np.uint32, take32),
    (oid.FLOAT8, pa.float64(), np.uint64, take64),
    (oid.DATE, pa.date32(), np.int32, take_dates),
    (oid.TIME, pa.time64("us"), np.int64, take_times),
    (oid.TIMESTAMP, pa.timestamp("us"), np.int64, take_timestamps),
    (oid.TIMESTAMPTZ, pa.timestamp("us", "UTC"), np.int64, take_timestamps),
)

CODECS: Mapping[int, CodecMaker] = {
    oid.BOOL: _make_bool,
    **{type_oid: _maker(arrow, dtype, fill) for type_oid, arrow, dtype, fill in _FIXED},
    oid.UUID: _maker(pa.binary(16), np.uint64, take128, width=2),
}
"""This family's types, by oid."""
