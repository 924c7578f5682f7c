"""A replication connection that can be woken and ended from another thread. No byte formats.

libpq is used in its non-blocking form: this code waits for the socket itself, together with a second one that
``close()`` writes to, so a reader that waits for a slow server can be ended at once, and Ctrl-C comes through.
"""

from __future__ import annotations

import contextlib
import logging
import select
import socket
import threading
import time
from typing import Protocol

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from walshadow_core.api import SourceError
from walshadow_source_basebackup import protocol
from walshadow_source_basebackup.errors import connection_lost, server_error
from walshadow_source_basebackup.plain import PlainCommand, Row
from walshadow_source_basebackup.settings import Settings

log = logging.getLogger(__name__)

_LOOK_AGAIN_MS = 250
"""How long to wait for the socket at most: under TLS, bytes may wait inside the library, and no socket tells."""
_NOTHING = memoryview(b"")
_CANCEL_SECONDS = 5.0
_DRAIN_SECONDS = 10.0

_DEFAULTS = {
    "fallback_application_name": "walshadow",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "6",
}
"""Words of the connection string where the user's has none: a network that is gone is noticed in 90 seconds."""


def connection_string(settings: Settings, **more: str) -> str:
    """The user's connection string with our defaults and ``more``. It holds the password."""
    dsn = settings.dsn.get_secret_value()
    words = {"connect_timeout": str(settings.connect_timeout), **_DEFAULTS, **conninfo_to_dict(dsn), **more}
    return make_conninfo("", **words)


def where(conn: psycopg.Connection[tuple[object, ...]]) -> str:
    """The server that a connection goes to, for messages: ``db.example.com:5432``."""
    return f"{conn.info.host}:{conn.info.port}"


class CopyCommand(Protocol):
    """Reads the results of a command, in order. Methods raise SourceError."""

    def rows(self) -> list[Row]:
        """The rows of the next result, as text."""
        ...

    def begin_copy(self) -> None:
        """The next result must be the beginning of a COPY stream."""
        ...

    def copy_data(self) -> memoryview | None:
        """The next message of the COPY stream, or several in one, None at its end. Good until the next call."""
        ...

    def content_into(self, view: memoryview) -> int:
        """Put content of the stream that is next into ``view``; gives how many bytes, 0 where copy_data() has to go
        on."""
        ...

    def finish_command(self) -> None:
        """Take what is left of the results."""
        ...


class ReplicationConnection:
    """One physical replication connection. One thread reads; any thread may close."""

    def __init__(self, conn: psycopg.Connection[tuple[object, ...]]) -> None:
        self._conn = conn
        self._pg = conn.pgconn
        self._lock = threading.Lock()
        self._ended = False
        self._copying = False
        self._plain: PlainCommand | None = None
        self._bell, self._bell_rope = socket.socketpair()
        self._poll = select.poll()
        self._poll.register(self._pg.socket, select.POLLIN)
        self._poll.register(self._bell, select.POLLIN)
        self.doing = f"the backup of {where(conn)}"

    @classmethod
    def connect(cls, settings: Settings) -> ReplicationConnection:
        """Connect. Raises psycopg.OperationalError."""
        return cls(psycopg.connect(connection_string(settings, replication="true"), autocommit=True))

    @property
    def server_version(self) -> int:
        """As Postgres numbers it: 180006."""
        return self._pg.server_version

    # -- commands

    def backup(self, command: str) -> CopyCommand:
        """Send a command whose results contain a COPY stream as BASE_BACKUP's do, and give what reads them: the
        connection itself, or something faster if it is not encrypted. Raises SourceError."""
        if self._pg.ssl_in_use or self._pg.used_gssapi:
            self.send(command)
            return self
        self._plain = PlainCommand(self._pg.socket, self._lock, self._wait, self.doing, protocol.CONTENT)
        self._plain.send(command)
        return self._plain

    def send(self, command: str) -> None:
        """Send a command; take its results with ``rows()`` and ``copy_data()``. Raises SourceError."""
        with self._lock:
            try:
                self._pg.send_query(command.encode())
                while self._pg.flush():
                    self._wait_for_input()
            except psycopg.OperationalError as error:
                raise self._lost(error) from None

    def rows(self) -> list[Row]:
        """The rows of the next result, as text. Raises SourceError, which a result that is none also is."""
        result = self._result()
        if result is None or result.status != pq.ExecStatus.TUPLES_OK:
            raise SourceError(f"{self.doing} failed: the server answered otherwise than Postgres would")
        return [
            tuple(_text(result.get_value(row, column)) for column in range(result.nfields))
            for row in range(result.ntuples)
        ]

    def begin_copy(self) -> None:
        """The next result must be the beginning of a COPY stream. Raises SourceError."""
        self._begin(pq.ExecStatus.COPY_OUT, "the server sent no archive")

    def begin_copy_both(self) -> None:
        """The same for a stream that goes both ways."""
        self._begin(pq.ExecStatus.COPY_BOTH, "the server did not begin to stream")

    def _begin(self, status: pq.ExecStatus, otherwise: str) -> None:
        result = self._result()
        if result is None or result.status != status:
            raise SourceError(f"{self.doing} failed: {otherwise}")
        self._copying = True

    def copy_data(self) -> memoryview | None:
        """The next message of the COPY stream, None at its end. It is the caller's own. Raises SourceError."""
        with self._lock:
            try:
                size, data = self._pg.get_copy_data(1)
                while size == 0:
                    self._wait_for_input()
                    size, data = self._pg.get_copy_data(1)
            except psycopg.OperationalError as error:
                raise self._lost(error) from None
        if size > 0:
            return data
        self._copying = False
        return None

    def content_into(self, view: memoryview) -> int:
        """libpq gives messages alone: see CopyCommand."""
        return 0

    def copy_data_within(self, seconds: float) -> memoryview | None:
        """The same of a stream that goes both ways, an empty one if nothing came within ``seconds``."""
        with self._lock:
            try:
                size, data = self._pg.get_copy_data(1)
                if size == 0:
                    self._poll.poll(max(0, int(seconds * 1000)))
                    if self._ended:
                        raise self._was_ended()
                    self._pg.consume_input()
                    size, data = self._pg.get_copy_data(1)
            except psycopg.OperationalError as error:
                raise self._lost(error) from None
        if size < 0:
            self._copying = False
            return None
        return data if size > 0 else _NOTHING

    def put_copy_data(self, message: bytes) -> None:
        """Send a message of our own. Raises SourceError."""
        with self._lock:
            try:
                self._pg.put_copy_data(message)
                while self._pg.flush():
                    self._wait_for_input()
            except psycopg.OperationalError as error:
                raise self._lost(error) from None

    def end_copy(self) -> None:
        """Say that nothing more comes from this side. Raises SourceError."""
        with self._lock:
            # Refused where an error of the server has ended it already: the next result is that error.
            with contextlib.suppress(psycopg.OperationalError):
                self._pg.put_copy_end()
            try:
                while self._pg.flush():
                    self._wait_for_input()
            except psycopg.OperationalError as error:
                raise self._lost(error) from None

    def finish_command(self) -> None:
        """Take what is left of the command's results. Raises SourceError if one is an error."""
        while self._result() is not None:
            pass

    def _result(self) -> pq.abc.PGresult | None:
        with self._lock:
            try:
                while self._pg.is_busy():
                    self._wait_for_input()
                result = self._pg.get_result()
            except psycopg.OperationalError as error:
                raise self._lost(error) from None
        if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
            raise server_error(result, self.doing)
        return result

    def _wait_for_input(self) -> None:
        self._wait()
        self._pg.consume_input()

    def _wait(self) -> None:
        self._poll.poll(_LOOK_AGAIN_MS)
        if self._ended:
            raise self._was_ended()

    def _lost(self, error: psycopg.OperationalError) -> SourceError:
        return self._was_ended() if self._ended else connection_lost(error, self.doing)

    def _was_ended(self) -> SourceError:
        return SourceError(f"{self.doing} was ended on this side")

    # -- the end

    def close(self) -> None:
        """End the connection, and what the server does on it. A thread that reads gets a SourceError."""
        self._ended = True
        with contextlib.suppress(OSError):
            self._bell_rope.send(b"\0")
        with self._lock:
            if self._conn.closed:
                return
            try:
                if self._plain is not None:
                    self._end_plain(self._plain)
                elif self._pg.transaction_status == pq.TransactionStatus.ACTIVE:
                    self._cancel()
            except psycopg.Error as error:
                log.debug("ending %s: %s", self.doing, error)
            finally:
                self._conn.close()
                self._bell.close()
                self._bell_rope.close()

    def _end_plain(self, plain: PlainCommand) -> None:
        try:
            if plain.running:
                self._conn.cancel_safe(timeout=_CANCEL_SECONDS)
                plain.drain(_DRAIN_SECONDS)
        finally:
            plain.close()

    def _cancel(self) -> None:
        """Cancel the command and take what the server had sent already, so that it sees the cancellation and
        not a broken connection. Bounded in time: closing the socket also ends it, a file later."""
        self._conn.cancel_safe(timeout=_CANCEL_SECONDS)
        deadline = time.monotonic() + _DRAIN_SECONDS
        poll = select.poll()
        poll.register(self._pg.socket, select.POLLIN)
        while self._pg.transaction_status == pq.TransactionStatus.ACTIVE:
            if time.monotonic() > deadline:
                return
            size, _ = self._pg.get_copy_data(1) if self._copying else (-1, None)
            if size > 0:
                continue
            if size == 0 or self._pg.is_busy():
                poll.poll(_LOOK_AGAIN_MS)
                self._pg.consume_input()
            else:
                result = self._pg.get_result()
                self._copying = result is not None and result.status == pq.ExecStatus.COPY_OUT


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")
