"""Messages of the frontend/backend protocol, as far as a command with a COPY stream has them. No I/O.

Each is a byte of kind, a length that counts itself, and a body (version 3.0 of the protocol; "Message Formats" in the
documentation, ``libpq/protocol.h``).
"""

from __future__ import annotations

import struct
from typing import Final

from walshadow_core.api import FormatError

HEAD: Final = struct.Struct(">BI")
"""Kind, and bytes of the length and the body."""

QUERY: Final = ord("Q")
ROW_DESCRIPTION: Final = ord("T")
DATA_ROW: Final = ord("D")
COMMAND_COMPLETE: Final = ord("C")
COPY_OUT: Final = ord("H")
COPY_DATA: Final = ord("d")
COPY_DONE: Final = ord("c")
ERROR: Final = ord("E")
READY: Final = ord("Z")
BESIDE: Final = frozenset(b"NSA")
"""Notices, changed settings, notifications: they may come at any moment, and are nothing to us."""

MOST: Final = 1 << 18
"""Bytes of a message that is no CopyData: far more than any row of a replication command has."""

SQLSTATE, PRIMARY, HINT = "C", "M", "H"
"""Fields of an ERROR."""


def query(command: str) -> bytes:
    """A simple query. Raises ValueError for a zero byte in it."""
    body = command.encode()
    if b"\0" in body:
        raise ValueError("a zero byte can't be sent to Postgres")
    return HEAD.pack(QUERY, len(body) + 5) + body + b"\0"


def parse_row(body: bytes) -> tuple[str | None, ...]:
    """The body of a DATA_ROW, as text. Raises FormatError."""
    try:
        (count,) = struct.unpack_from(">H", body)
        at = 2
        values: list[str | None] = []
        for _ in range(count):
            (length,) = struct.unpack_from(">i", body, at)
            at += 4
            if length < 0:
                values.append(None)
                continue
            if at + length > len(body):
                raise FormatError("a row of the server ends too early")
            values.append(body[at : at + length].decode("utf-8", "replace"))
            at += length
    except struct.error:
        raise FormatError("a row of the server ends too early") from None
    return tuple(values)


def parse_error(body: bytes) -> dict[str, str]:
    """The body of an ERROR: its fields by their letters."""
    words = body.split(b"\0")
    return {chr(word[0]): word[1:].decode("utf-8", "replace") for word in words if word}
