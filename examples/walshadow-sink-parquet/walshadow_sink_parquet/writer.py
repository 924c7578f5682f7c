"""Batches to Parquet files in a staging folder."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from walshadow_core.api import DestinationError, WriteStats
from walshadow_sink_parquet.columns import out_of_range, without
from walshadow_sink_parquet.folders import Folders, TableMark, errors
from walshadow_sink_parquet.settings import Settings


class ParquetWriter:
    """Fills one staging folder. A file is begun when it is needed, and there is at least one, so that a table
    without rows has its columns too. ``_busy`` is held while a piece is written, so that abort() of another thread
    comes between two."""

    def __init__(self, folders: Folders, table: str, schema: pa.Schema, source: str, settings: Settings) -> None:
        self.stats = WriteStats()
        self._folders = folders
        self._table = table
        self._schema = schema
        self._source = source
        self._settings = settings
        self._files = 0
        self._rows_left = 0
        self._handle: Any = None
        self._parquet: pq.ParquetWriter | None = None
        self._busy = threading.Lock()
        self._given_up = False

    def write(self, batch: pa.RecordBatch) -> None:
        """Take one batch; it is on its way to the file system when this returns, and durable after finish()."""
        with errors(f"can't write {self._folders.path(self._table)}"):
            batch = self._fit(batch)
            begin = 0
            while begin < batch.num_rows:
                with self._busy:
                    self._check()
                    parquet = self._parquet if self._parquet is not None and self._rows_left else self._next_file()
                    piece = batch.slice(begin, self._rows_left)
                    parquet.write_batch(piece)
                begin += piece.num_rows
                self._rows_left -= piece.num_rows
        self.stats.rows += batch.num_rows
        self.stats.bytes += batch.nbytes

    def finish(self) -> None:
        """Close the last file and make the folder a table."""
        with errors(f"can't finish {self._folders.path(self._table)}"), self._busy:
            self._check()
            if not self._files:
                self._next_file()
            self._close()
            self._folders.complete(self._table, TableMark.new(self._schema, self._source))

    def abort(self) -> None:
        """Close what is open and remove the folder. Any thread may call it: it waits for the piece that is being
        written, and the write() it belongs to raises."""
        self._given_up = True
        with self._busy:
            with suppress(Exception):
                self._close()
            with errors(f"can't remove {self._folders.path(self._table)}"):
                self._folders.remove(self._table)

    def _check(self) -> None:
        if self._given_up:
            raise DestinationError(f"the load into {self._folders.path(self._table)} was given up")

    def _next_file(self) -> pq.ParquetWriter:
        self._close()
        compression = self._settings.compression
        self._handle = self._folders.fs.open(self._folders.part(self._table, self._files), "wb")
        self._parquet = pq.ParquetWriter(
            self._handle, self._schema, compression=None if compression == "none" else compression
        )
        self._files += 1
        self._rows_left = self._settings.rows_per_file
        return self._parquet

    def _close(self) -> None:
        parquet, handle = self._parquet, self._handle
        self._parquet = self._handle = None
        if parquet is not None:
            parquet.close()
        if handle is not None:
            handle.close()

    def _fit(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch under the table's own schema, with values that Parquet can't hold seen to."""
        if batch.schema.names != self._schema.names:
            raise DestinationError(f"{self._table}: got columns {batch.schema.names}, not {self._schema.names}")
        columns = [self._fit_column(c, f) for c, f in zip(batch.columns, self._schema, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _fit_column(self, column: pa.Array, field: pa.Field) -> pa.Array:
        bad = out_of_range(column)
        if bad is not None:
            count = int(bad.sum())
            if self._settings.out_of_range == "error":
                raise DestinationError(
                    f"column {field.name} of {self._table} holds {count} values that Parquet can't "
                    f"(infinity, NaN or 24:00:00)",
                    "--to-option out_of_range=null writes them as NULL",
                )
            self.stats.adjusted[field.name] = self.stats.adjusted.get(field.name, 0) + count
            column = without(column, bad)
        return column if column.type == field.type else column.cast(field.type)
