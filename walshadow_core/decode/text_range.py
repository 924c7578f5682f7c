"""Ranges as range_out and multirange_out print them, once their bounds are strings (``utils/rangetypes.h``)."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.decode.columns import DONE, NO_ROOM, SLACK
from walshadow_core.decode.deform import KIND_VALUE
from walshadow_core.decode.text_parts import QUOTED_ROOM, Strings, assemble, put_part, special_bytes
from walshadow_core.decode.text_quote import DOUBLE_QUOTE
from walshadow_core.pgformat.jit import kernel

EMPTY, LOWER_INCLUSIVE, UPPER_INCLUSIVE, LOWER_INFINITE, UPPER_INFINITE, LOWER_NULL, UPPER_NULL = (
    1 << bit for bit in range(7)
)
"""Flags of a range (RANGE_EMPTY…)."""
HAS_NO_LOWER: Final = EMPTY | LOWER_NULL | LOWER_INFINITE
HAS_NO_UPPER: Final = EMPTY | UPPER_NULL | UPPER_INFINITE

RANGE_ROOM: Final = 2 * QUOTED_ROOM + 4
"""Bytes of a range besides two per byte of its bounds, with the comma before the next."""

_OPEN, _CLOSE, _LEFT, _RIGHT, _LEFT_BRACKET, _RIGHT_BRACKET, _COMMA = b"{}()[],"
_EMPTY = np.frombuffer(b"empty", np.uint8)
_SPECIAL = special_bytes(b"()[],")


@kernel
def put_ranges(
    buf: Bytes,
    first_range: NDArray[np.int32],
    count: NDArray[np.int32],
    kind: NDArray[np.uint8],
    first: int,
    offsets: NDArray[np.int32],
    data: Bytes,
    row: int,
    used: int,
    flags: NDArray[np.uint8],
    first_bound: NDArray[np.int32],
    ends: NDArray[np.int32],
    special: NDArray[np.uint8],
    multi: bool,
) -> tuple[int, int, int]:
    """A columns.VarFill with more arguments: ``buf`` and ``ends`` are the bounds; value i has the ranges
    ``first_range[i]…``, ``count[i]`` of them, range r the bounds ``first_bound[r] … first_bound[r + 1]``."""
    room = data.size - SLACK
    for i in range(first, kind.size):
        if kind[i] == KIND_VALUE:
            start, stop = int(first_range[i]), int(first_range[i]) + int(count[i])
            size = int(ends[first_bound[stop]] - ends[first_bound[start]])
            if used + 2 * size + RANGE_ROOM * (stop - start) + 2 > room:
                return NO_ROOM, i, used
            if multi:
                data[used] = _OPEN
                used += 1
            for r in range(start, stop):
                flag = int(np.int64(flags[r]))
                b = int(first_bound[r])
                if r > start:
                    data[used] = _COMMA
                    used += 1
                if flag & EMPTY:
                    for j in range(_EMPTY.size):
                        data[used + j] = _EMPTY[j]
                    used += _EMPTY.size
                    continue
                data[used] = _LEFT_BRACKET if flag & LOWER_INCLUSIVE else _LEFT
                used += 1
                if flag & HAS_NO_LOWER == 0:
                    used = put_part(buf, int(ends[b]), int(ends[b + 1]), special, DOUBLE_QUOTE, data, used)
                    b += 1
                data[used] = _COMMA
                used += 1
                if flag & HAS_NO_UPPER == 0:
                    used = put_part(buf, int(ends[b]), int(ends[b + 1]), special, DOUBLE_QUOTE, data, used)
                data[used] = _RIGHT_BRACKET if flag & UPPER_INCLUSIVE else _RIGHT
                used += 1
            if multi:
                data[used] = _CLOSE
                used += 1
        offsets[row + i + 1] = used
    return DONE, kind.size, used


def range_text(
    arrow: pa.DataType,
    column: str,
    bounds: pa.Array,
    kind: NDArray[np.uint8],
    count: NDArray[np.int32],
    flags: NDArray[np.uint8],
    bounds_of: NDArray[np.int32],
    multi: bool,
) -> pa.Array:
    """The texts of values that have ``count`` ranges each, of type ``arrow``; ``flags`` and ``bounds_of`` (how many
    bounds) belong to the ranges. Raises FormatError naming the column."""
    strings = Strings.of(bounds)
    first_range = (np.cumsum(count) - count).astype(np.int32)
    first_bound = np.cumsum(np.concatenate((np.zeros(1, np.int32), bounds_of)), dtype=np.int32)

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
        return put_ranges(
            buf, offset, length, kind, first, offsets, data, row, used, flags, first_bound, strings.offsets, _SPECIAL,
            multi,
        )  # fmt: skip

    return assemble(arrow, column, fill, strings.data, first_range, count, kind)
