"""Arrow arrays to the bytes of one ClickHouse column: what a Native block has after a column's name and type.

For a Nullable one first a byte per row, 1 for NULL; fixed-width values one after the other, little-endian; strings
each with a varint length; an array's ends (UInt64, counted in elements), then all elements as one column; a tuple's
elements, one column after the other. Nothing is aligned.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from walshadow_core.api import Bytes, DestinationError
from walshadow_sink_clickhouse import kernels
from walshadow_sink_clickhouse.policy import adjust_range, find_nan
from walshadow_sink_clickhouse.settings import OutOfRange
from walshadow_sink_clickhouse.typemap import ColumnType

_LENGTH = 5
_END = 8


@dataclass
class Pass:
    """The writing of one column. ``policy`` is what becomes of values that ClickHouse can't hold, ``adjusted`` how many
    were changed."""

    column: str
    policy: OutOfRange
    adjusted: int = field(default=0)


def bound(kind: ColumnType, nullable: bool, array: pa.Array) -> int:
    """Bytes that an array takes at most."""
    rows = len(array)
    if kind.encoding == "array":
        element = kind.parts[0]
        return rows * _END + bound(element.type, element.nullable, _elements(array))
    if kind.encoding == "tuple":
        return sum(bound(p.type, p.nullable, array.field(i)) for i, p in enumerate(kind.parts))
    total = rows * kind.width + (rows if nullable else 0)
    if kind.encoding == "string":
        offsets = _offsets(array)
        total += rows * _LENGTH + int(offsets[-1]) - int(offsets[0])
    return total


def put_values(kind: ColumnType, nullable: bool, array: pa.Array, out: Bytes, p: int, run: Pass) -> int:
    """Write an array's values to ``out`` from ``p`` on, which has room for them; gives their end. Raises
    DestinationError."""
    rows = len(array)
    valid = _validity(array)
    if valid is not None and not nullable:
        raise DestinationError(
            f"column {run.column!r} holds NULL, its destination can't",
            "make the destination's column Nullable, or load again: the source's may have changed meanwhile",
        )
    if kind.encoding == "array":
        return _put_lists(kind, array, valid, out, p, run)
    if kind.encoding == "tuple":
        for i, part in enumerate(kind.parts):
            p = put_values(part.type, part.nullable, array.field(i), out, p, run)
        return p
    value_at = p + rows if nullable else p
    end, to_null = _put_scalars(kind, nullable, array, valid, out, value_at, run)
    if nullable:
        nulls = out[p:value_at]
        if valid is None:
            nulls[:] = 0
        else:
            np.subtract(1, valid, out=nulls)
        if to_null is not None:
            nulls |= to_null.view(np.uint8)
    return end


def _put_scalars(
    kind: ColumnType, nullable: bool, array: pa.Array, valid: NDArray[np.uint8] | None, out: Bytes, at: int, run: Pass
) -> tuple[int, NDArray[np.bool_] | None]:
    """The end, and which rows are to become NULL."""
    rows = len(array)
    to_null: NDArray[np.bool_] | None = None
    match kind.encoding:
        case "string":
            end: int = kernels.strings(_offsets(array), _data(array, 2), out, at)
            if end < 0:
                raise DestinationError(f"column {run.column!r}: the string of row {-1 - end} has bad offsets")
        case "bool":
            end = put(out, at, _bits(array.buffers()[1], array.offset, rows))
        case "uuid":
            halves = _values(array, np.dtype(">u8"), 2)
            end = put(out, at, halves.astype("<u8").view(np.uint8))
        case "decimal":
            width = array.type.byte_width
            words = _values(array, np.dtype("<i8"), width // 8).reshape(rows, width // 8)
            to_null = find_nan(run.column, words[:, -1], valid, nullable, run.policy)
            if to_null is not None:
                run.adjusted += int(np.count_nonzero(to_null))
            end = put(out, at, _narrowed(words, kind.width))
        case "date" | "timestamp":
            raw = _values(array, np.dtype("<i4" if kind.encoding == "date" else "<i8"), 1)
            fit = adjust_range(run.column, raw, valid, kind.limits, run.policy)
            to_null = fit.to_null
            run.adjusted += fit.count
            values = fit.values
            if kind.encoding == "timestamp" and kind.scale < 6:
                values = values // 10 ** (6 - kind.scale)
            end = put(out, at, values.view(np.uint8))
        case _:
            end = put(out, at, _values(array, np.dtype(np.uint8), kind.width))
    return end, to_null


def _put_lists(
    kind: ColumnType, array: pa.Array, valid: NDArray[np.uint8] | None, out: Bytes, p: int, run: Pass
) -> int:
    """NULL has no place in an Array: it becomes an empty one, and counts as changed."""
    offsets = _offsets(array)
    ends = np.cumsum(_lengths(offsets, valid))
    if valid is not None:
        run.adjusted += len(valid) - int(np.count_nonzero(valid))
    p = put(out, p, ends.astype("<u8", copy=False).view(np.uint8))
    element = kind.parts[0]
    return put_values(element.type, element.nullable, _elements(array), out, p, run)


def _lengths(offsets: NDArray[np.int32], valid: NDArray[np.uint8] | None) -> NDArray[np.int64]:
    lengths = np.diff(offsets).astype(np.int64)
    return lengths if valid is None else lengths * valid


def _elements(array: pa.Array) -> pa.Array:
    """All elements of the lists of an array, in order; what lies under a NULL is none."""
    offsets = _offsets(array)
    valid = _validity(array)
    first, last = int(offsets[0]), int(offsets[-1])
    if valid is not None and int(_lengths(offsets, valid).sum()) != last - first:
        return array.flatten()
    return array.values.slice(first, last - first)


def put(out: Bytes, at: int, data: NDArray[np.uint8]) -> int:
    """Copy ``data`` to ``out``; gives its end."""
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
