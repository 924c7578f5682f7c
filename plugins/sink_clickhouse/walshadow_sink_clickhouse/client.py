"""Talking to ClickHouse: over HTTP, or to an engine in this process. Both through clickhouse-connect."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import clickhouse_connect
from clickhouse_connect.driver.client import Client

from walshadow_core.api import DestinationError
from walshadow_sink_clickhouse.blocks import Block
from walshadow_sink_clickhouse.compression import compressed
from walshadow_sink_clickhouse.errors import explain
from walshadow_sink_clickhouse.quoting import literal
from walshadow_sink_clickhouse.url import HTTPS, Target

_GRACE = 15
"""Seconds that the client waits longer than the server, so that it is the server that ends an insert."""


class Connection(Protocol):
    """What the destination asks of a connection. One thread at a time uses it."""

    client: Client

    def rows(self, sql: str) -> list[list[Any]]:
        """The rows of a small result; 64-bit integers may come as text."""
        ...

    def columns(self, sql: str, settings: Mapping[str, Any]) -> Iterator[list[Any]]:
        """A large result, block by block: a list of values per column."""
        ...

    def run(self, sql: str, settings: Mapping[str, Any] | None = None) -> None:
        """Run a statement that gives no rows."""
        ...

    def insert(self, into: str, block: Block, settings: Mapping[str, Any], query_id: str) -> None:
        """Insert the Native blocks in ``block``. ``into`` is ``INSERT INTO table (columns)``. Returns when the
        server has said that the rows are in."""
        ...

    def close(self) -> None: ...


class _Base:
    def __init__(self, target: Target, client: Client) -> None:
        self.client = client
        self._where = target.display_url
        self._lock = threading.Lock()
        if _off(client, "enable_time_time64_type"):
            client.set_client_setting("enable_time_time64_type", 1)

    def rows(self, sql: str) -> list[list[Any]]:
        with self._lock:
            try:
                text = self.client.raw_query(sql, fmt="JSONCompactEachRow", use_database=False)
            except Exception as error:
                raise explain(error, self._where, "reading system tables") from error
        return [json.loads(line) for line in text.splitlines()]

    def columns(self, sql: str, settings: Mapping[str, Any]) -> Iterator[list[Any]]:
        with self._lock:
            try:
                with self.client.query_column_block_stream(sql, settings=self.known(settings)) as blocks:
                    yield from blocks
            except Exception as error:
                raise explain(error, self._where, "reading rows") from error

    def run(self, sql: str, settings: Mapping[str, Any] | None = None) -> None:
        with self._lock:
            try:
                self.client.command(sql, settings=self.known(settings or {}), use_database=False)
            except Exception as error:
                raise explain(error, self._where, f"running {_short(sql)}") from error

    def known(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """``settings`` without those that this version of the server does not have."""
        return {k: v for k, v in settings.items() if k == "query_id" or k in self.client.server_settings}

    def close(self) -> None:
        self.client.close()


class HttpConnection(_Base):
    """A server's HTTP interface. ``patience`` is how many seconds an answer may take."""

    def __init__(self, target: Target, patience: int | None = None) -> None:
        settings = target.settings
        try:
            client = clickhouse_connect.get_client(
                interface="https" if target.scheme == HTTPS else "http",
                host=target.host,
                port=target.port,
                username=target.user,
                password=target.password,
                database="",
                connect_timeout=settings.connect_timeout,
                send_receive_timeout=patience or settings.insert_timeout + _GRACE,
                query_retries=0,
                verify=settings.verify,
                ca_cert=str(settings.ca_cert) if settings.ca_cert else None,
                client_cert=str(settings.client_cert) if settings.client_cert else None,
                client_cert_key=str(settings.client_cert_key) if settings.client_cert_key else None,
                autogenerate_session_id=False,
                show_clickhouse_errors="scrub",
                client_name="walshadow",
            )
        except Exception as error:
            raise explain(error, target.display_url, "connecting") from None
        super().__init__(target, client)
        method = settings.compression
        self._compression = ("none" if target.loopback else "lz4") if method == "auto" else method

    def insert(self, into: str, block: Block, settings: Mapping[str, Any], query_id: str) -> None:
        body: memoryview | Iterator[bytes] = block.content()
        encoding = None
        if self._compression != "none":
            body, encoding = compressed(block.content(), self._compression), self._compression
        with self._lock:
            try:
                self.client.raw_insert(
                    # clickhouse-connect writes "INSERT INTO {table} FORMAT Native" and sends any body that is
                    # not bytes once, without a second try.
                    into.removeprefix("INSERT INTO "),
                    insert_block=body,
                    settings=self.known({**settings, "query_id": query_id}),
                    fmt="Native",
                    compression=encoding,
                )
            except Exception as error:
                raise explain(error, self._where, f"inserting {block.rows} rows") from error


class EmbeddedConnection(_Base):
    """An engine in this process (chDB). Connections to one directory share the engine."""

    def __init__(self, target: Target) -> None:
        try:
            client = clickhouse_connect.get_client(
                interface="chdb", path=str(target.path), show_clickhouse_errors="scrub"
            )
        except ImportError:
            raise DestinationError(
                "chdb:// needs the embedded engine, which is not installed",
                "pip install 'walshadow-sink-clickhouse[chdb]'",
            ) from None
        except Exception as error:
            raise _cannot_open(target, error) from None
        super().__init__(target, client)

    def insert(self, into: str, block: Block, settings: Mapping[str, Any], query_id: str) -> None:
        assert block.path is not None
        block.seal()
        clause = ", ".join(f"{k} = {literal(str(v))}" for k, v in self.known(settings).items())
        sql = f"{into} FROM INFILE {literal(block.path)} SETTINGS {clause} FORMAT Native"
        with self._lock:
            try:
                self.client.command(sql, use_database=False)
            except Exception as error:
                raise explain(error, self._where, f"inserting {block.rows} rows") from error


def connect(target: Target, patience: int | None = None) -> Connection:
    """Open a connection. Over HTTP an answer may take ``patience`` seconds, or as long as an insert. Raises
    DestinationError with the remedy."""
    return HttpConnection(target, patience) if target.path is None else EmbeddedConnection(target)


def _cannot_open(target: Target, error: Exception) -> DestinationError:
    text = str(error)
    if "already initialized with path" in text:
        return DestinationError(
            f"this process has another engine open than {target.path}", "one process can have one at a time"
        )
    if "Error initializing EmbeddedServer" in text:
        return DestinationError(
            f"can't open the engine in {target.path}: another process has it open, or it can't be written",
            "one process owns a directory: `walshadow engine serve` shares it over HTTP (clickhouse://localhost:8123)",
        )
    return explain(error, target.display_url, "opening the engine")


def _off(client: Client, setting: str) -> bool:
    found = client.server_settings.get(setting)
    return found is not None and found.value == "0"


def _short(sql: str) -> str:
    first = sql.split("\n", 1)[0]
    return first if len(first) <= 80 else first[:79] + "…"
