"""Our own destination keeps the contract: embedded, and over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from walshadow_sink_clickhouse.destination import ClickHouseDestination
from walshadow_sink_clickhouse.engine import EngineProcess
from walshadow_sink_clickhouse.plugin import walshadow_destination
from walshadow_sink_clickhouse.quoting import qualified

from walshadow_core.api import Destination
from walshadow_core.testing.destination_contract import DestinationContract


class _ClickHouse(DestinationContract):
    def read_rows(self, destination: Destination, table: str) -> list[list[Any]]:
        assert isinstance(destination, ClickHouseDestination)
        client = destination._connection.client
        result = client.query(
            f"SELECT * FROM {qualified(destination._database, table)}", query_formats={"String": "bytes"}
        )
        return [list(row) for row in result.result_rows]


class TestEmbedded(_ClickHouse):
    """chdb://"""

    @pytest.fixture
    def make_destination(self, embedded_path: Path, database: str) -> Callable[[], Destination]:
        return lambda: walshadow_destination(f"chdb://{embedded_path}?database={database}", {})


class TestHttp(_ClickHouse):
    """clickhouse://, with bodies compressed as over a network."""

    secret = "s3cret-word"

    @pytest.fixture
    def make_destination(self, engine_process: EngineProcess, database: str) -> Callable[[], Destination]:
        url = f"clickhouse://default:{self.secret}@127.0.0.1:{engine_process.port}/{database}"
        return lambda: walshadow_destination(url, {"compression": "lz4"})


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_other_codings(over_http: Callable[..., Destination], compression: str) -> None:
    """The other forms of a body bring the same rows."""
    destination = over_http(compression=compression)
    TestHttp().test_all_types_in_one_table(destination)
    TestHttp().test_many_batches(destination)
