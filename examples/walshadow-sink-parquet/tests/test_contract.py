"""The contract of every destination, on a local folder and on a file system whose renames are copies."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow.dataset as ds
import pytest
from walshadow_sink_parquet.plugin import walshadow_destination

from walshadow_core.api import Destination
from walshadow_core.testing.destination_contract import DestinationContract


class ParquetContract(DestinationContract):
    """Rows are read as any reader of Parquet folders would."""

    def read_rows(self, destination: Any, table: str) -> list[list[Any]]:
        folders = destination._folders
        found = ds.dataset(folders.parts(table), filesystem=folders.fs).to_table()
        return [list(row) for row in zip(*(c.to_pylist() for c in found.columns), strict=True)]


class TestLocalFolder(ParquetContract):
    @pytest.fixture
    def make_destination(self, tmp_path: Path) -> Callable[[], Destination | None]:
        return lambda: walshadow_destination(f"parquet+file://{tmp_path}/lake", {"rows_per_file": "1500"})


class TestFileSystemWithoutRenames(ParquetContract):
    secret = "hunter2"

    @pytest.fixture
    def make_destination(self) -> Iterator[Callable[[], Destination | None]]:
        folder = uuid.uuid4().hex
        yield lambda: walshadow_destination(f"parquet+memory://{folder}/lake?key={self.secret}", {})
        memory = fsspec.filesystem("memory")
        if memory.exists(f"/{folder}"):
            memory.rm(f"/{folder}", recursive=True)
