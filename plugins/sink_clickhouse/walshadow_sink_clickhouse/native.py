"""Arrow record batches to ClickHouse Native blocks.

A Native block is two varints, columns and rows, then per column its name and type as strings and its values
(values.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from walshadow_core.api import DestinationError
from walshadow_sink_clickhouse import kernels
from walshadow_sink_clickhouse.blocks import Block
from walshadow_sink_clickhouse.settings import OutOfRange
from walshadow_sink_clickhouse.typemap import ColumnType, sent_name
from walshadow_sink_clickhouse.values import Pass, bound, put, put_values

_VARINT = 10


@dataclass(frozen=True)
class SentColumn:
    """One column of the blocks. ``nullable``: NULL may come; the destination takes it, but that an array then is an
    empty one. No policy changes a value of the key: two keys could become one, and a row be lost."""

    name: str
    type: ColumnType
    nullable: bool
    in_key: bool = False

    @property
    def sent_type(self) -> str:
        """The type as the block names it; the server converts where the destination's is wider."""
        return sent_name(self.type, self.nullable)


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
        p = put(out, p, np.frombuffer(varint(len(self._columns)) + varint(rows), np.uint8))
        for column, header, array in zip(self._columns, self._headers, batch.columns, strict=True):
            p = put(out, p, header)
            run = Pass(column.name, "error" if column.in_key else self._policy)
            p = put_values(column.type, column.nullable, array, out, p, run)
            if run.adjusted:
                counts[column.name] = run.adjusted
        block.used = p
        block.rows += rows
        for name, count in counts.items():
            self.adjusted[name] = self.adjusted.get(name, 0) + count

    def _bound(self, batch: pa.RecordBatch) -> int:
        """Bytes that the block needs at most, and slack for whole copy steps."""
        total = 2 * _VARINT + kernels.STEP
        for column, header, array in zip(self._columns, self._headers, batch.columns, strict=True):
            if not column.type.takes(array.type):
                raise DestinationError(
                    f"column {column.name!r} came as Arrow type {array.type}, {column.type.arrow_words} is due"
                )
            total += len(header) + bound(column.type, column.nullable, array)
        return total
