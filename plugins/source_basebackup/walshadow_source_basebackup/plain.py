"""One command on a connection that is not encrypted, read from its socket in large pieces.

libpq gives a COPY stream message by message, each of 32 KiB with a copy of its own, and all of that time the other
threads of a load wait for the interpreter. Here the socket fills a buffer of a megabyte while they run, and what the
messages carry is joined in place.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Callable

from walshadow_core.api import FormatError, SourceError
from walshadow_source_basebackup import messages
from walshadow_source_basebackup.errors import CONNECTION_LOST, reported

Row = tuple[str | None, ...]

_MOST_AT_ONCE = 1 << 20
"""Bytes that are read at a time, with no copy on the way: what has to be put back must have room."""
_BUFFER = _MOST_AT_ONCE + messages.MOST
_FIRST = 1
"""Where reading begins: the byte before is for the kind of a piece that begins there."""
_LENGTH, _SHORTEST = 4, 5
"""The length counts itself; with a byte of kind behind it."""
_HEAD = messages.HEAD.size + 1
"""Bytes before the content of a message of a COPY stream: its head, and the byte of kind inside of it."""
_LEAST_USUAL = 4096
_FULL_SECONDS = 0.01
_DRAIN_MS = 250


class PlainCommand:
    """Takes over the socket ``fd``, whose connection waits for a command, until ``close()``. ``wait`` waits until there
    may be something to read, or raises; ``lock`` is held by whoever reads. Messages of kind ``joined`` in a COPY stream
    are parts of one whole, and come in other pieces than they were sent in."""

    def __init__(self, fd: int, lock: threading.Lock, wait: Callable[[], None], doing: str, joined: int) -> None:
        self._socket = socket.socket(fileno=os.dup(fd))
        self._lock = lock
        self._wait = wait
        self._doing = doing
        self._joined = joined
        self._buffer = memoryview(bytearray(_BUFFER))
        self._at = self._have = _FIRST
        """What was read and not looked at yet: from, to."""
        self._left = 0
        """Bytes still to come of the message of kind ``joined`` that was begun."""
        self._usual = 0
        """Bytes that the longest message of that kind carried: all do in the middle of a large file."""
        self._heads = memoryview(bytearray(_BUFFER // _LEAST_USUAL * _HEAD))
        self.running = False
        """Whether the server is at the command."""

    def send(self, command: str) -> None:
        """Send it. Raises SourceError."""
        rest = memoryview(messages.query(command))
        with self._lock:
            self.running = True
            while rest:
                try:
                    rest = rest[self._socket.send(rest) :]
                except BlockingIOError:
                    time.sleep(_FULL_SECONDS)
                except OSError as error:
                    raise self._lost(str(error)) from None

    def rows(self) -> list[Row]:
        """The rows of the next result, as text. Raises SourceError, which a result that is none also is."""
        with self._lock:
            kind, _ = self._message()
            if kind != messages.ROW_DESCRIPTION:
                raise self._strange()
            rows = []
            while (message := self._message())[0] == messages.DATA_ROW:
                rows.append(messages.parse_row(message[1]))
            if message[0] != messages.COMMAND_COMPLETE:
                raise self._strange()
            return rows

    def begin_copy(self) -> None:
        """The next result must be the beginning of a COPY stream. Raises SourceError."""
        with self._lock:
            if self._message()[0] != messages.COPY_OUT:
                raise self._strange()

    def copy_data(self) -> memoryview | None:
        """The next message of the COPY stream, its own byte of kind first, or what is there of one or more of kind
        ``joined``; None at the end of it. Good until the next call. Raises SourceError."""
        with self._lock:
            while not self._left:
                kind, size = self._head()
                if kind != messages.COPY_DATA:
                    self._taken(kind, self._body(size))
                    if kind == messages.COPY_DONE:
                        return None
                    if kind not in messages.BESIDE:
                        raise self._strange()
                    continue
                if not size:
                    raise self._strange()
                self._need(1)
                if self._buffer[self._at] != self._joined:
                    return memoryview(self._body(size))
                self._at += 1
                self._begin(size - 1)
            self._need(1)
            return self._content()

    def content_into(self, view: memoryview) -> int:
        """Read content of messages of kind ``joined`` into ``view``, with no copy on the way; gives how many bytes, 0
        if something else is next, or copy_data() has to go first. Raises SourceError.

        Where the heads of the messages will be is guessed from the usual length, and they are read to another place.
        From the first wrong guess on, what was read is put back.
        """
        with self._lock:
            if self._have - self._at >= (1 if self._left else _HEAD) or self._usual < _LEAST_USUAL:
                return 0
            if not self._left and not self._next_is_content():
                return 0
            view = view[:_MOST_AT_ONCE]
            first = view[: self._left]
            pieces = [first]
            for number, at in enumerate(range(len(first), len(view), self._usual)):
                pieces += self._heads[number * _HEAD : (number + 1) * _HEAD], view[at : at + self._usual]
            read = self._receive(pieces)
            done = min(read, len(first))
            self._left -= done
            read -= done
            guess = messages.HEAD.pack(messages.COPY_DATA, self._usual + _SHORTEST) + bytes([self._joined])
            for number in range(1, len(pieces), 2):
                if read < _HEAD or pieces[number] != guess:
                    self._put_back(pieces[number:], read)
                    break
                size = min(read - _HEAD, len(pieces[number + 1]))
                done += size
                self._left = self._usual - size
                read -= _HEAD + size
            return done

    def _next_is_content(self) -> bool:
        """Read the next head and no more; if it is that of content, go past it."""
        self._to_front()
        while (missing := _HEAD - (self._have - self._at)) > 0:
            self._have += self._receive([self._buffer[self._have : self._have + missing]])
        kind, length = messages.HEAD.unpack_from(self._buffer, self._at)
        if kind != messages.COPY_DATA or length <= _SHORTEST or self._buffer[self._at + _HEAD - 1] != self._joined:
            return False
        self._at += _HEAD
        self._begin(length - _SHORTEST)
        return True

    def _put_back(self, pieces: list[memoryview], size: int) -> None:
        """The first ``size`` bytes of ``pieces`` are to be looked at; nothing else is."""
        self._at = self._have = _FIRST
        for piece in pieces:
            part = min(size, len(piece))
            self._buffer[self._have : self._have + part] = piece[:part]
            self._have += part
            size -= part

    def _begin(self, size: int) -> None:
        self._left = size
        if self._usual < size <= messages.MOST:
            self._usual = size

    def finish_command(self) -> None:
        """Take what is left of the command's results. Raises SourceError if one is an error."""
        with self._lock:
            while self.running:
                self._message()

    def drain(self, seconds: float) -> None:
        """Take what still comes until the server has ended the command, for as long at most. The lock is held."""
        deadline = time.monotonic() + seconds
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)

        def wait() -> None:
            if time.monotonic() > deadline:
                raise self._lost("it did not end")
            poll.poll(_DRAIN_MS)

        self._wait = wait
        with contextlib.suppress(SourceError, FormatError):
            while self.running:
                if self._left:
                    self._need(1)
                    self._content()
                else:
                    self._message()

    def close(self) -> None:
        """Leave the socket."""
        self._socket.close()

    # -- messages

    def _content(self) -> memoryview:
        """What is there of a message of kind ``joined``, and of those right after it."""
        buffer, have = self._buffer, self._have
        first = end = at = self._at
        while True:
            size = min(self._left, have - at)
            if end != at:
                buffer[end : end + size] = buffer[at : at + size]
            end += size
            at += size
            self._left -= size
            if self._left or have - at < _HEAD:
                break
            kind, length = messages.HEAD.unpack_from(buffer, at)
            if kind != messages.COPY_DATA or length < _SHORTEST or buffer[at + _HEAD - 1] != self._joined:
                break
            at += _HEAD
            self._begin(length - _SHORTEST)
        self._at = at
        buffer[first - 1] = self._joined
        return buffer[first - 1 : end]

    def _message(self) -> tuple[int, bytes]:
        """The next message that is not beside the point. Raises SourceError for an error of the server."""
        while True:
            kind, size = self._head()
            body = self._body(size)
            self._taken(kind, body)
            if kind not in messages.BESIDE:
                return kind, body

    def _taken(self, kind: int, body: bytes) -> None:
        if kind == messages.ERROR:
            self.running = False
            fields = messages.parse_error(body)
            raise reported(
                fields.get(messages.SQLSTATE, ""),
                fields.get(messages.PRIMARY, ""),
                fields.get(messages.HINT),
                self._doing,
            )
        if kind == messages.READY:
            self.running = False

    def _head(self) -> tuple[int, int]:
        """Kind and length of the next message; its body is next."""
        self._need(messages.HEAD.size)
        kind, length = messages.HEAD.unpack_from(self._buffer, self._at)
        if length < _LENGTH:
            raise self._strange()
        self._at += messages.HEAD.size
        return kind, length - _LENGTH

    def _body(self, size: int) -> bytes:
        if size > messages.MOST:
            raise self._strange()
        self._need(size)
        self._at += size
        return bytes(self._buffer[self._at - size : self._at])

    def _need(self, size: int) -> None:
        """Read until so many bytes are there to be looked at."""
        while self._have - self._at < size:
            self._fill()

    def _to_front(self) -> None:
        kept = self._have - self._at
        self._buffer[_FIRST : _FIRST + kept] = self._buffer[self._at : self._have]
        self._at, self._have = _FIRST, _FIRST + kept

    def _fill(self) -> None:
        self._to_front()
        self._have += self._receive([self._buffer[self._have :]])

    def _receive(self, pieces: list[memoryview]) -> int:
        """Read into ``pieces`` what there is, at least a byte. Raises SourceError."""
        while True:
            try:
                size = self._socket.recvmsg_into(pieces)[0]
                break
            except BlockingIOError:
                self._wait()
            except OSError as error:
                raise self._lost(str(error)) from None
        if not size:
            raise self._lost("the server closed the connection")
        return size

    def _lost(self, why: str) -> SourceError:
        return SourceError(f"{self._doing} broke off: {why}", CONNECTION_LOST)

    def _strange(self) -> SourceError:
        return SourceError(f"{self._doing} failed: the server answered otherwise than Postgres would")
