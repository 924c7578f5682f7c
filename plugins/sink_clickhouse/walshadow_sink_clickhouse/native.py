"""Arrow record batches to ClickHouse Native blocks.

A Native block is two varints, columns and rows, then per column its name and type as strings and its values:
for a Nullable column first one byte per row, 1 for NULL; fixed-width values one after the other, little-endian;
strings each with a varint length. Nothing is aligned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from walshadow_core.api import Bytes, DestinationError
from walshadow_sink_clickhouse import kernels
from walshadow_sink_clickhouse.blocks import Block
from walshadow_sink_clickhouse.policy import adjust_range, bounds, find_nan
from walshadow_sink_clickhouse.settings import OutOfRange
from walshadow_sink_clickhouse.typemap import ColumnType

_VARINT = 10
_LENGTH = 5


@dataclass(frozen=True)
class SentColumn:
    """One column of the blocks. ``nullable`` is the destination's; ``landed_scale`` the scale of the destination's
    DateTime64, which may be finer than what is sent. No policy changes a value of the key: two keys could
    become one, and a row be lost."""

    name: str
    type: ColumnType
    nullable: bool
    landed_scale: int = 0
    in_key: bool = False

    @property
    def sent_type(self) -> str:
        """The type as the block names it; the server converts where the destination's is wider."""
        return f"Nullable({self.type.name})" if self.nullable else self.type.name


def varint(number: int) -> bytes:
    """``number`` in base 128, least significant first, the high bit set on all but the last byte."""
    out = bytearray()
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _text(text: str) -> bytes:
    data = text.encode()
    return varint(len(data)) + data


class NativeEncoder:
    """Writes batches of one table as Native blocks. ``adjusted`` counts values that the policy changed, by column."""

    def __init__(self, columns: Sequence[SentColumn], policy: OutOfRange) -> None:
        self._columns = tuple(columns)
        self._headers = [np.frombuffer(_text(c.name) + _text(c.sent_type), np.uint8) for c in columns]
        self._policy = policy
        self.adjusted: dict[str, int] = {}

    def append(self, batch: pa.RecordBatch, block: Block) -> None:
        """Write ``batch`` after what ``block`` holds. Raises DestinationError if the batch is not the table's, or
        by the policy; ``block`` is then as before, as is ``adjusted``."""
        if batch.num_columns != len(self._columns):
            raise DestinationError(f"{batch.num_columns} columns came where {len(self._columns)} are due")
        counts: dict[str, int] = {}
        rows = batch.num_rows
        block.reserve(self._bound(batch))
        out, p = block.array, block.used
        p = _put(out, p, np.frombuffer(varint(len(self._columns)) + varint(rows), np.uint8))
        for column, header, array in zip(self._columns, self._headers, batch.columns, strict=True):
            p = _put(out, p, header)
            p = self._column(column, array, out, p, counts)
        block.used = p
        block.rows += rows
        for name, count in counts.items():
            self.adjusted[name] = self.adjusted.get(name, 0) + count

    def _bound(self, batch: pa.RecordBatch) -> int:
        """Bytes that the block needs at most, and slack for whole copy steps."""
        rows = batch.num_rows
        total = 2 * _VARINT + kernels.STEP
        for column, header, array in zip(self._columns, self._headers, batch.columns, strict=True):
            if array.type not in column.type.arrow:
                raise DestinationError(
                    f"column {column.name!r} came as Arrow type {array.type}, {column.type.arrow[0]} is due"
                )
            total += len(header) + (rows if column.nullable else 0) + rows * column.type.width
            if column.type.encoding == "string":
                offsets = _offsets(array)
                total += rows * _LENGTH + int(offsets[-1]) - int(offsets[0])
        return total

    def _column(self, column: SentColumn, array: pa.Array, out: Bytes, p: int, counts: dict[str, int]) -> int:
        rows = len(array)
        valid = _validity(array)
        if valid is not None and not column.nullable:
            raise DestinationError(
                f"column {column.name!r} holds NULL, its destination can't",
                "make the destination's column Nullable, or load again: the source's may have changed meanwhile",
            )
        value_at = p + rows if column.nullable else p
        to_null: NDArray[np.bool_] | None = None
        policy = "error" if column.in_key else self._policy
        kind = column.type.encoding
        if kind == "string":
            end: int = kernels.strings(_offsets(array), _data(array, 2), out, value_at)
            if end < 0:
                raise DestinationError(f"column {column.name!r}: the string of row {-1 - end} has bad offsets")
        elif kind == "bool":
            end = _put(out, value_at, _bits(array.buffers()[1], array.offset, rows))
        elif kind == "uuid":
            halves = _values(array, np.dtype(">u8"), 2)
            end = _put(out, value_at, halves.astype("<u8").view(np.uint8))
        elif kind == "decimal":
            width = array.type.byte_width
            words = _values(array, np.dtype("<i8"), width // 8).reshape(rows, width // 8)
            to_null = find_nan(column.name, words[:, -1], valid, column.nullable, policy)
            if to_null is not None:
                counts[column.name] = int(np.count_nonzero(to_null))
            end = _put(out, value_at, _narrowed(words, column.type.width))
        elif kind in ("date", "timestamp"):
            raw = _values(array, np.dtype("<i4" if kind == "date" else "<i8"), 1)
            limits = bounds(column.type, column.landed_scale)
            fit = adjust_range(column.name, raw, valid, limits, policy)
            to_null = fit.to_null
            if fit.count:
                counts[column.name] = fit.count
            values = fit.values
            if kind == "timestamp" and column.type.scale < 6:
                values = values // 10 ** (6 - column.type.scale)
            end = _put(out, value_at, values.view(np.uint8))
        else:
            end = _put(out, value_at, _values(array, np.dtype(np.uint8), column.type.width))
        if column.nullable:
            nulls = out[p : p + rows]
            if valid is None:
                nulls[:] = 0
            else:
                np.subtract(1, valid, out=nulls)
            if to_null is not None:
                nulls |= to_null.view(np.uint8)
        return end


def _put(out: Bytes, at: int, data: NDArray[np.uint8]) -> int:
    end = at + len(data)
    out[at:end] = data
    return end


def _bits(buffer: pa.Buffer, offset: int, rows: int) -> NDArray[np.uint8]:
    """``rows`` bits from bit ``offset``, least significant first, one byte each."""
    first = offset >> 3
    packed = np.frombuffer(buffer, np.uint8)[first : (offset + rows + 7) >> 3]
    skip = offset & 7
    return np.unpackbits(packed, bitorder="little", count=skip + rows)[skip:]


def _validity(array: pa.Array) -> NDArray[np.uint8] | None:
    """1 per row that is not NULL; None if no row is."""
    if array.null_count == 0:
        return None
    return _bits(array.buffers()[0], array.offset, len(array))


def _values(array: pa.Array, dtype: np.dtype[Any], per_row: int) -> NDArray[Any]:
    """The values of a fixed-width array, ``per_row`` items of ``dtype`` each, its offset applied."""
    buffer = array.buffers()[1]
    count = len(array) * per_row
    if not count:
        return np.empty(0, dtype)
    return np.frombuffer(buffer, dtype, count, array.offset * per_row * dtype.itemsize)


def _offsets(array: pa.Array) -> NDArray[np.int32]:
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return kernels.readonly(np.zeros(1, np.int32))
    return kernels.readonly(np.frombuffer(buffer, np.int32, len(array) + 1, array.offset * 4))


def _data(array: pa.Array, index: int) -> Bytes:
    buffer = array.buffers()[index]
    return kernels.readonly(np.empty(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8))


def _narrowed(words: NDArray[np.int64], width: int) -> NDArray[np.uint8]:
    """Unscaled decimals, int64[n, words] least significant first, cut to ``width`` bytes each."""
    if width < 8:
        return words[:, 0].astype(np.int32).view(np.uint8)
    return np.ascontiguousarray(words[:, : width // 8]).reshape(-1).view(np.uint8)
