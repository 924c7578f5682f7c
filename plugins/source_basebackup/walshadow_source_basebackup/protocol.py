"""The words of BASE_BACKUP: the command, and the messages inside its COPY stream. No I/O.

The protocol is that of PostgreSQL 15 and later (``backup/basebackup_copy.c``; "Streaming Replication Protocol"
in the documentation): a row with the start position, rows of tablespaces, one COPY stream whose messages begin
with a byte of kind, a row with the end position.
"""

from __future__ import annotations

from dataclasses import dataclass

from walshadow_core.api import FormatError, Lsn

CONTENT = ord("d")
"""Bytes of the archive that was announced last."""
NEW_ARCHIVE = ord("n")
"""An archive begins: its file name and its tablespace's path, each with a closing zero byte."""
PROGRESS = ord("p")
"""Bytes sent so far, of an archive that may be padded: only a sign of life to us."""

IDENTIFY_SYSTEM = "IDENTIFY_SYSTEM"


@dataclass(frozen=True, slots=True)
class Archive:
    """One tar archive of the stream. ``tablespace`` is an oid, None for the data directory itself."""

    name: str
    tablespace: int | None

    @property
    def prefix(self) -> str:
        """What to put before the archive's own paths to have them relative to the data directory."""
        return "" if self.tablespace is None else f"pg_tblspc/{self.tablespace}/"


def quote_literal(text: str) -> str:
    """A string of the replication grammar (``repl_scanner.l``): only the quote itself is special."""
    if "\0" in text:
        raise ValueError("a zero byte can't be sent to Postgres")
    return "'" + text.replace("'", "''") + "'"


def base_backup_command(*, label: str, checkpoint: str, max_rate_kb: int | None) -> str:
    """The BASE_BACKUP command. ``checkpoint`` is ``fast`` or ``spread``, ``max_rate_kb`` in kB/s.

    WAL false: the WAL comes another way. WAIT false: else a failing archive_command holds up the end.
    VERIFY_CHECKSUMS false: else one bad page of any other table fails the whole backup at its end.
    """
    options = [
        f"LABEL {quote_literal(label)}",
        f"CHECKPOINT {quote_literal(checkpoint)}",
        "PROGRESS true",
        "WAL false",
        "WAIT false",
        "MANIFEST 'no'",
        "VERIFY_CHECKSUMS false",
        "TABLESPACE_MAP true",
    ]
    if max_rate_kb is not None:
        options.append(f"MAX_RATE {max_rate_kb}")
    return f"BASE_BACKUP ({', '.join(options)})"


def parse_position(row: tuple[str | None, ...]) -> tuple[Lsn, int]:
    """A row of start or end position (``recptr``, ``tli``) to (LSN, timeline). Raises FormatError."""
    try:
        lsn, timeline = row
        return Lsn.parse(lsn or ""), int(timeline or "")
    except ValueError:
        raise FormatError(f"BASE_BACKUP: not a position and timeline: {row!r}") from None


def parse_system_identifier(row: tuple[str | None, ...]) -> int:
    """The row that IDENTIFY_SYSTEM gives (its first column), to the cluster's identifier. Raises FormatError."""
    try:
        return int(row[0] or "")
    except (ValueError, IndexError):
        raise FormatError(f"IDENTIFY_SYSTEM: not a system: {row!r}") from None


def parse_tablespaces(rows: list[tuple[str | None, ...]]) -> tuple[dict[int, str], int | None]:
    """The rows of tablespaces (``spcoid``, ``spclocation``, ``size`` in kB) to ({oid: path}, bytes over all).

    The data directory's own row has neither oid nor path. Bytes are None if a size is missing.
    """
    paths: dict[int, str] = {}
    total: int | None = 0
    try:
        for oid, path, size in rows:
            if oid is not None:
                paths[int(oid)] = path or ""
            total = None if total is None or size is None else total + int(size) * 1024
    except ValueError:
        raise FormatError(f"BASE_BACKUP: not a list of tablespaces: {rows!r}") from None
    return paths, total


def parse_new_archive(message: memoryview) -> Archive:
    """A NEW_ARCHIVE message, its kind byte included. Raises FormatError."""
    words = bytes(message[1:]).split(b"\0")
    if len(words) != 3 or words[2]:
        raise FormatError(f"BASE_BACKUP: a malformed archive announcement: {bytes(message[:100])!r}")
    name = words[0].decode("utf-8", "replace")
    if not words[1]:
        return Archive(name, None)
    stem = name.removesuffix(".tar")
    if not stem.isdecimal():
        raise FormatError(f"BASE_BACKUP: archive {name!r} of a tablespace is not named by an oid")
    return Archive(name, int(stem))
