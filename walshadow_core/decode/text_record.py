"""Composite values as record_out prints them (``utils/adt/rowtypes.c``), once their fields are strings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.decode.columns import DONE, NO_ROOM, SLACK
from walshadow_core.decode.deform import KIND_VALUE
from walshadow_core.decode.text_parts import QUOTED_ROOM, Strings, assemble, put_part, special_bytes
from walshadow_core.decode.text_quote import DOUBLE_QUOTE
from walshadow_core.pgformat.jit import kernel

_OPEN, _CLOSE, _COMMA = b"(),"
_SPECIAL = special_bytes(b"(),")


@kernel
def put_records(
    buf: Bytes,
    kind: NDArray[np.uint8],
    first: int,
    offsets: NDArray[np.int32],
    data: Bytes,
    row: int,
    used: int,
    starts: NDArray[np.int64],
    valid: NDArray[np.uint8],
    special: NDArray[np.uint8],
) -> tuple[int, int, int]:
    """A columns.VarFill, but for the order of arguments: field f of record i is buf[starts[f, i] : starts[f, i + 1]],
    and NULL where valid[f, i] is 0."""
    room = data.size - SLACK
    fields = valid.shape[0]
    for i in range(first, kind.size):
        if kind[i] == KIND_VALUE:
            most = fields * (QUOTED_ROOM + 1) + 2
            for f in range(fields):
                most += 2 * int(starts[f, i + 1] - starts[f, i])
            if used + most > room:
                return NO_ROOM, i, used
            data[used] = _OPEN
            used += 1
            for f in range(fields):
                if f > 0:
                    data[used] = _COMMA
                    used += 1
                if valid[f, i]:
                    used = put_part(buf, int(starts[f, i]), int(starts[f, i + 1]), special, DOUBLE_QUOTE, data, used)
            data[used] = _CLOSE
            used += 1
        offsets[row + i + 1] = used
    return DONE, kind.size, used


def record_text(arrow: pa.DataType, column: str, fields: Sequence[pa.Array], kind: NDArray[np.uint8]) -> pa.Array:
    """The texts of records, of type ``arrow``, NULL where ``kind`` says so. Raises FormatError naming the column."""
    strings = [Strings.of(field) for field in fields]
    starts: NDArray[np.int64] = np.empty((len(fields), kind.size + 1), np.int64)
    valid: NDArray[np.uint8] = np.empty((len(fields), kind.size), np.uint8)
    pieces: list[Bytes] = [np.empty(0, np.uint8)]
    at = 0
    for f, part in enumerate(strings):
        starts[f] = part.offsets.astype(np.int64) + at
        valid[f] = part.valid
        pieces.append(part.data)
        at += part.data.size

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
        return put_records(buf, kind, first, offsets, data, row, used, starts, valid, _SPECIAL)

    unused: NDArray[np.int32] = np.empty(0, np.int32)
    return assemble(arrow, column, fill, np.concatenate(pieces), unused, unused, kind)
