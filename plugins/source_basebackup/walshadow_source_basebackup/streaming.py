"""WAL as the server writes it: START_REPLICATION PHYSICAL, read by a thread of its own.

The thread reads until its queue is full and then no more, so that the server feels it; status updates go out on a
timer all the same, as a server that hears nothing ends the connection (wal_sender_timeout).
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from walshadow_core.api import FormatError, Lsn, SourceError, WalPiece, WalStream
from walshadow_source_basebackup import protocol, walprotocol
from walshadow_source_basebackup.connecting import connect
from walshadow_source_basebackup.replication import ReplicationConnection
from walshadow_source_basebackup.settings import Settings

QUEUE_BYTES = 16 << 20
STATUS_SECONDS = 1.0
"""Between status updates; wal_sender_timeout is a minute by default, and is a few seconds in places."""
_LOOK_AGAIN_SECONDS = 0.25


@contextmanager
def stream(
    settings: Settings, slot: str | None, start: Lsn | None, queue_bytes: int = QUEUE_BYTES
) -> Iterator[WalStream]:
    """See WalStreamSource.stream. Leaving ends the connection, and with it a temporary slot."""
    connection = connect(settings)
    live: LiveWal | None = None
    try:
        connection.doing = "streaming the WAL"
        live = LiveWal(connection, slot, start, queue_bytes)
        live.run()
        yield live
    finally:
        connection.close()
        if live is not None:
            live.join()


class LiveWal:
    """A WalStream over one connection."""

    def __init__(
        self, connection: ReplicationConnection, slot: str | None, start: Lsn | None, queue_bytes: int
    ) -> None:
        """Prepare the slot and begin to stream. Raises SourceError, FormatError."""
        self._connection = connection
        self._queue: deque[tuple[int, WalPiece]] = deque()
        self._queued = 0
        self._queue_bytes = queue_bytes
        self._changed = threading.Condition()
        self._failure: SourceError | FormatError | None = None
        self._thread = threading.Thread(target=self._work, name="walshadow-wal", daemon=True)
        system = walprotocol.parse_system(self._row(protocol.IDENTIFY_SYSTEM))
        self.system_identifier = system.identifier
        self.opened_at = system.position
        self.segment_size = walprotocol.parse_size(self._row(walprotocol.SHOW_SEGMENT_SIZE))
        self.timeline = self._read_timeline = system.timeline
        self._slot = slot or f"walshadow_{uuid.uuid4().hex}"
        if slot is None:
            self._row(walprotocol.create_temporary_slot(self._slot))
        kept = walprotocol.parse_slot(self._row(walprotocol.read_slot(self._slot)))
        if slot is not None and kept is None and start is None:
            raise SourceError(
                f"the replication slot {slot} is not there, or keeps no WAL",
                f"select pg_create_physical_replication_slot('{slot}', true) at the source",
            )
        first = start if start is not None else kept or system.position
        self.start = Lsn(first - first % self.segment_size)
        self._received = self.start
        self._confirmed = Lsn(0)
        self._last_status = 0.0
        self._start_at(self.start)

    # -- the reader's side

    def take(self, timeout: float) -> WalPiece | None:
        """See WalStream."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._failure is not None, timeout)
            if not self._queue:
                if self._failure is not None:
                    raise self._failure
                return None
            self.timeline, piece = self._queue.popleft()
            self._queued -= len(piece.data)
            self._changed.notify_all()
            return piece

    def confirm(self, position: Lsn) -> None:
        """See WalStream."""
        self._confirmed = max(self._confirmed, position)

    # -- the stream's side

    def run(self) -> None:
        """Start the thread."""
        self._thread.start()

    def join(self) -> None:
        """Wait for the thread, whose connection was closed."""
        with self._changed:
            self._failure = self._failure or SourceError("the stream of WAL was ended on this side")
            self._changed.notify_all()
        self._thread.join()

    def _row(self, command: str) -> tuple[str | None, ...]:
        self._connection.send(command)
        rows = self._connection.rows()
        self._connection.finish_command()
        if len(rows) != 1:
            raise FormatError(f"{command.split(' ', 1)[0]}: {len(rows)} rows where one belongs")
        return rows[0]

    def _start_at(self, position: Lsn) -> None:
        self._connection.send(walprotocol.start_replication(self._slot, position, self._read_timeline))
        self._connection.begin_copy_both()

    def _work(self) -> None:
        try:
            while True:
                self._read_timeline_to_its_end()
        except (SourceError, FormatError) as error:
            self._fail(error)
        except psycopg.Error as error:
            self._fail(SourceError(f"the stream of WAL broke off: {error}", "run it again"))

    def _fail(self, error: SourceError | FormatError) -> None:
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    def _read_timeline_to_its_end(self) -> None:
        while True:
            due = self._last_status + STATUS_SECONDS - time.monotonic()
            message = self._connection.copy_data_within(min(max(due, 0.0), _LOOK_AGAIN_SECONDS))
            if message is None:
                break
            if len(message):
                start, data, _, wanted = walprotocol.parse_message(message)
                if len(data):
                    self._put(WalPiece(start, bytes(data)))
                if wanted:
                    self._last_status = 0.0
            self._send_status_if_due()
        self._connection.end_copy()
        rows = self._connection.rows()
        self._connection.finish_command()
        if len(rows) != 1:
            raise SourceError("the server ended the stream of WAL", "is it stopping? run it again")
        self._read_timeline, position = walprotocol.parse_next_timeline(rows[0])
        if position != self._received:
            raise FormatError(
                f"timeline {self._read_timeline} begins at {position}, the last one ended at {self._received}"
            )
        self._start_at(position)

    def _put(self, piece: WalPiece) -> None:
        """Hand a piece over; while there is no room, only status updates go out."""
        if piece.start != self._received:
            raise FormatError(f"WAL from {piece.start} came where {self._received} was to go on")
        while not self._put_if_room(piece):
            self._send_status_if_due()

    def _put_if_room(self, piece: WalPiece) -> bool:
        """Whether there was room for it, or came within a moment. Raises what ended the stream meanwhile."""
        with self._changed:
            self._changed.wait_for(
                lambda: not self._queued or self._queued + len(piece.data) <= self._queue_bytes or self._failure,
                _LOOK_AGAIN_SECONDS,
            )
            if self._failure is not None:
                raise self._failure
            if self._queued and self._queued + len(piece.data) > self._queue_bytes:
                return False
            self._queue.append((self._read_timeline, piece))
            self._queued += len(piece.data)
            self._received = Lsn(piece.start + len(piece.data))
            self._changed.notify_all()
            return True

    def _send_status_if_due(self) -> None:
        now = time.monotonic()
        if now - self._last_status >= STATUS_SECONDS:
            self._last_status = now
            self._connection.put_copy_data(walprotocol.status(self._received, self._confirmed, time.time()))
