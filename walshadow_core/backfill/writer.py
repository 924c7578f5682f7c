"""The writing end of a pass: row batches, with the four columns of walshadow, to staging."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from walshadow_core.api import META_FIELDS, DestinationError, Lsn, StagingWriter
from walshadow_core.backfill.channel import Channel
from walshadow_core.backfill.stats import TableStats
from walshadow_core.backfill.worker import TableBatch


class MetaColumns:
    """The four columns of loaded rows, which are the same in every row of a pass (rule 1): made once for the
    longest batch, and cut to length without a copy."""

    def __init__(self, tag: Lsn, commit_ts: int) -> None:
        """``tag`` is _lsn; ``commit_ts`` is in microseconds since 1970, UTC."""
        self._tag = int(tag)
        self._commit_ts = commit_ts
        self._arrays: list[pa.Array] = []
        self._rows = 0

    def of(self, rows: int) -> list[pa.Array]:
        """Arrays of META_FIELDS, ``rows`` long."""
        if rows > self._rows:
            values: tuple[NDArray[Any], ...] = (
                np.full(rows, self._tag, np.uint64),
                np.zeros(rows, np.uint32),
                np.full(rows, self._commit_ts, np.int64),
                np.zeros((rows + 7) >> 3, np.uint8),
            )
            # Not pa.array(): of a NumPy array it imports pandas first, where that is installed.
            self._arrays = [
                pa.Array.from_buffers(field.type, rows, [None, pa.py_buffer(data)], 0)
                for field, data in zip(META_FIELDS, values, strict=True)
            ]
            self._rows = rows
        return [a.slice(0, rows) for a in self._arrays]


class WriterLoop:
    """One thread that writes the batches of all tables of a pass, each table in the order they come."""

    def __init__(
        self,
        writers: Sequence[StagingWriter | None],
        stats: Sequence[TableStats],
        meta: MetaColumns,
        fail_table: Callable[[int, str], None],
    ) -> None:
        self._writers = writers
        self._stats = stats
        self._meta = meta
        self._fail_table = fail_table
        self.seconds = 0.0

    def run(self, batches: Channel[TableBatch]) -> None:
        """Write what comes until the channel closes. Raises ChannelBroken."""
        for item in batches:
            stats = self._stats[item.table]
            writer = self._writers[item.table]
            if stats.out or writer is None:
                continue
            clock = time.perf_counter()
            batch = item.batch
            schema = pa.schema([*batch.schema, *META_FIELDS])
            whole = pa.RecordBatch.from_arrays([*batch.columns, *self._meta.of(batch.num_rows)], schema=schema)
            try:
                writer.write(whole)
            except DestinationError as error:
                self._fail_table(item.table, str(error))
            self.count(item.table)
            self.seconds += time.perf_counter() - clock

    def count(self, table: int) -> None:
        """Take over what the table's writer has counted."""
        writer, stats = self._writers[table], self._stats[table]
        if writer is not None:
            stats.rows_written = writer.stats.rows
            stats.bytes_written = writer.stats.bytes
            stats.adjusted = dict(writer.stats.adjusted)
