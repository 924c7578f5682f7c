"""The embedded engine, and handles of it: each request has one of its own."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from walshadow_core.api import DestinationError
from walshadow_sink_clickhouse.engine.body import PIECE, Spool
from walshadow_sink_clickhouse.engine.sql import InsertHead
from walshadow_sink_clickhouse.quoting import identifier, literal

_STREAMED = frozenset(
    {
        "Native", "RowBinary", "TabSeparated", "TSV", "TabSeparatedRaw", "TSVRaw", "CSV", "JSONEachRow",
        "JSONCompactEachRow", "LineAsString",
    }
)  # fmt: skip
"""Formats without head and foot: the engine's pieces, one after the other, are the whole."""

_SETTING = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


class EngineError(Exception):
    """What the engine says: ``Code: N. DB::Exception: …``."""


@dataclass
class Rows:
    """A result: its bytes in pieces, and what is known of it beforehand."""

    pieces: Iterator[bytes]
    summary: dict[str, str]


def _engine_error(error: Exception) -> EngineError:
    text = str(error)
    at = text.find("Code: ")
    return EngineError(text[at:] if at >= 0 else f"Code: 1002. DB::Exception: {text}. (UNKNOWN_EXCEPTION)")


class Engine:
    """The engine of one directory. It lives until close(), whatever handles come and go."""

    def __init__(self, path: Path) -> None:
        try:
            import chdb
        except ImportError:
            raise DestinationError(
                "the embedded engine is not installed", "pip install 'walshadow-sink-clickhouse[chdb]'"
            ) from None
        self._connect = chdb.connect
        # The engine compares directories as texts.
        self._path = str(path.resolve())
        try:
            self._root = chdb.connect(self._path)
        except Exception as error:
            raise DestinationError(
                f"can't open the engine in {path}: {' '.join(str(error).split())[:200]}",
                "is it open in another process? One process owns a directory",
            ) from None
        self.version, self.timezone = (
            self._root.query("SELECT version(), timezone()", "TSV").bytes().decode().strip().split("\t")
        )

    @contextlib.contextmanager
    def handle(self, database: str, settings: Mapping[str, str]) -> Iterator[Handle]:
        """A fresh handle, under ``settings`` and in ``database``. Raises EngineError."""
        connection = self._connect(self._path)
        try:
            handle = Handle(connection)
            if settings:
                pairs = []
                for name, value in settings.items():
                    if not _SETTING.fullmatch(name):
                        raise EngineError(f"Code: 115. DB::Exception: Unknown setting {name!r}. (UNKNOWN_SETTING)")
                    pairs.append(f"{name} = {literal(value)}")
                handle.run(f"SET {', '.join(pairs)}", {})
            if database:
                handle.run(f"USE {identifier(database)}", {})
            yield handle
        finally:
            connection.close()

    def close(self) -> None:
        """Close the engine."""
        self._root.close()


class Handle:
    """One connection of the engine, for one request."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def _query(self, sql: str, format: str, parameters: Mapping[str, str]) -> Any:
        try:
            return self._connection.query(sql, format, params=dict(parameters))
        except Exception as error:
            raise _engine_error(error) from None

    def run(self, sql: str, parameters: Mapping[str, str]) -> dict[str, str]:
        """Run a statement without a result; gives its summary."""
        return _summary(self._query(sql, "TabSeparated", parameters), "read")

    def insert(self, sql: str, head: InsertHead, data: Spool) -> dict[str, str]:
        """Run an INSERT whose rows are in ``data``. An insert that ends well has put every row in: the engine's
        streaming insert is not used here, for a killed one says that it ended well."""
        result = self._query(head.from_file(sql, literal(data.path)), "TabSeparated", {})
        return _summary(result, "written")

    def rows(self, sql: str, format: str, parameters: Mapping[str, str], whole: bool) -> Rows:
        """Run a statement with a result in ``format``: streamed where format and statement allow it and ``whole`` is
        False. Raises EngineError, the iterator too."""
        if format in _STREAMED and not whole:
            try:
                stream = self._connection.send_query(sql, format, params=dict(parameters))
                return Rows(_pieces(stream), {})
            except Exception as error:
                # Not a SELECT: SHOW, EXISTS, KILL and the like. It was not run.
                if "Streaming query is not supported" not in str(error):
                    raise _engine_error(error) from None
        result = self._query(sql, format, parameters)
        return Rows(_split(result.bytes() or b""), _summary(result, "read"))


def _pieces(stream: Any) -> Iterator[bytes]:
    try:
        for piece in stream:
            yield piece.bytes()
    except Exception as error:
        raise _engine_error(error) from None
    finally:
        stream.close()


def _split(whole: bytes) -> Iterator[bytes]:
    for start in range(0, len(whole), PIECE):
        yield whole[start : start + PIECE]


def _summary(result: Any, what: str) -> dict[str, str]:
    return {
        f"{what}_rows": str(result.rows_read()),
        f"{what}_bytes": str(result.bytes_read()),
        "elapsed_ns": str(int(result.elapsed() * 1e9)),
    }
