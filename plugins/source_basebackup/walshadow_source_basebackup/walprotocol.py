"""The words of physical streaming: commands, and the messages of the COPY stream. No I/O.

"Streaming Replication Protocol" in the documentation; ``replication/walsender.c``, ``repl_gram.y``. Numbers are
big-endian, times are microseconds since 2000-01-01 UTC.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from walshadow_core.api import FormatError, Lsn
from walshadow_source_basebackup.protocol import parse_position

WAL_DATA = ord("w")
KEEPALIVE = ord("k")

_WAL_DATA = struct.Struct(">cQQq")
_KEEPALIVE = struct.Struct(">cQq?")
_STATUS = struct.Struct(">cQQQq?")

_EPOCH_2000 = 946_684_800
_SIZES = {"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_SLOT = re.compile(r"[a-z0-9_]{1,63}")
"""What ReplicationSlotValidateName takes (``replication/slot.c``)."""


@dataclass(frozen=True, slots=True)
class System:
    """What IDENTIFY_SYSTEM says: ``position`` is how far the WAL is flushed (at a standby, replayed)."""

    identifier: int
    timeline: int
    position: Lsn


def parse_system(row: tuple[str | None, ...]) -> System:
    """Raises FormatError."""
    try:
        return System(int(row[0] or ""), int(row[1] or ""), Lsn.parse(row[2] or ""))
    except (ValueError, IndexError):
        raise FormatError(f"IDENTIFY_SYSTEM: not a system: {row!r}") from None


SHOW_SEGMENT_SIZE = "SHOW wal_segment_size"


def parse_size(row: tuple[str | None, ...]) -> int:
    """``16MB`` to bytes. Raises FormatError."""
    found = re.fullmatch(r"(\d+)([kMG]?B)", row[0] or "") if row else None
    if found is None:
        raise FormatError(f"SHOW: not a size: {row!r}")
    return int(found[1]) * _SIZES[found[2]]


def quote_slot(name: str) -> str:
    """A slot's name for a command. Raises ValueError for one that no slot can have."""
    if not _SLOT.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a slot: small letters, digits and underscores, at most 63")
    return f'"{name}"'


def create_temporary_slot(name: str) -> str:
    """CREATE_REPLICATION_SLOT of a physical slot that keeps the WAL from the last checkpoint on, and ends with the
    connection."""
    return f"CREATE_REPLICATION_SLOT {quote_slot(name)} TEMPORARY PHYSICAL RESERVE_WAL"


def read_slot(name: str) -> str:
    """READ_REPLICATION_SLOT: its kind, and from where on it keeps the WAL."""
    return f"READ_REPLICATION_SLOT {quote_slot(name)}"


def parse_slot(row: tuple[str | None, ...]) -> Lsn | None:
    """From where on a slot keeps the WAL; None if there is none, or it keeps nothing yet. Raises FormatError."""
    if len(row) != 3 or (row[0] not in (None, "physical")):
        raise FormatError(f"READ_REPLICATION_SLOT: not a physical slot: {row!r}")
    return None if row[1] is None else Lsn.parse(row[1])


def start_replication(slot: str, start: Lsn, timeline: int) -> str:
    """START_REPLICATION."""
    return f"START_REPLICATION SLOT {quote_slot(slot)} PHYSICAL {start} TIMELINE {timeline}"


def parse_next_timeline(row: tuple[str | None, ...]) -> tuple[int, Lsn]:
    """The row at the end of a timeline: the one that follows, and where it begins. Raises FormatError."""
    start, timeline = parse_position((row[1], row[0]) if len(row) == 2 else row)
    return timeline, start


def parse_message(message: memoryview) -> tuple[Lsn, memoryview, Lsn, bool]:
    """(start, WAL bytes, the server's end of WAL, whether it wants an answer) of a message; a keepalive has no bytes,
    and the server's end as start. Raises FormatError."""
    try:
        if message[0] == WAL_DATA:
            _, start, end, _ = _WAL_DATA.unpack_from(message)
            return Lsn(start), message[_WAL_DATA.size :], Lsn(end), False
        if message[0] == KEEPALIVE:
            _, end, _, wanted = _KEEPALIVE.unpack_from(message)
            return Lsn(end), message[:0], Lsn(end), bool(wanted)
    except (struct.error, IndexError):
        pass
    raise FormatError(f"START_REPLICATION: a message of unknown kind: {bytes(message[:32])!r}")


def status(received: Lsn, confirmed: Lsn, unix_time: float) -> bytes:
    """A standby status update: WAL up to ``received`` has come, up to ``confirmed`` it is not needed again. With 0
    nothing is said of that: a server that stops then waits for what has come only, not for a confirmation."""
    now = int((unix_time - _EPOCH_2000) * 1_000_000)
    return _STATUS.pack(b"r", received, confirmed, confirmed, now, False)
