"""A small HTTP door before an embedded engine: ClickHouse's own HTTP interface, as far as clients use it."""

from walshadow_sink_clickhouse.engine.server import LOOPBACK, EngineProcess, EngineServer

__all__ = ["LOOPBACK", "EngineProcess", "EngineServer"]
