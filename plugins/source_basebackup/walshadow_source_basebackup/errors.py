"""Errors of the server and of libpq, to SourceErrors of one line with a remedy."""

from __future__ import annotations

import psycopg
from psycopg import pq

from walshadow_core.api import SourceError

AGAIN = "run it again"

_REMEDIES = {
    "0A000": "is it a Postgres of version 15 or later, and not a proxy before it?",
    "42601": "is it a Postgres of version 15 or later, and not a proxy before it?",
    "53100": "the server's disk is full: make room there",
    "53300": "raise max_wal_senders at the source and restart it, or end a replication connection; a load takes two of "
    "them, with --no-wal one",
    "53400": "raise max_replication_slots at the source and restart it, or drop a slot that nobody uses",
    "55000": AGAIN,
    "57014": "someone cancelled it at the source: " + AGAIN,
    "57P01": "someone ended the connection, or the source is stopping, or it was to keep more WAL than its "
    "max_slot_wal_keep_size allows: " + AGAIN,
    "57P02": "a process of the source crashed: see its log, and " + AGAIN,
    "57P03": "the source is starting or stopping: wait, and " + AGAIN,
    "58030": "the server can't read one of its own files: see its log",
    "58P01": "the server misses one of its own files: see its log",
}
"""What to do, by SQLSTATE (``utils/errcodes.txt``)."""

CONNECTION_LOST = "see the source's log and the network between, and " + AGAIN


_ATTEMPT = " connection to server "
"""libpq's beginning of the second and further attempts: with and without TLS, address by address."""


def one_line(text: str) -> str:
    """``text`` with every stretch of white space as one space."""
    return " ".join(text.split())


def remedy_for(sqlstate: str, hint: str | None = None) -> str | None:
    """The remedy for an error of the server. Its own hint, if it gave one, goes before ours."""
    if hint:
        return one_line(hint).removesuffix(".")
    if sqlstate.startswith("08"):
        return CONNECTION_LOST
    return _REMEDIES.get(sqlstate)


def server_error(result: pq.abc.PGresult, doing: str) -> SourceError:
    """An error that the server sent as a result. ``doing`` begins the message: ``the backup of db:5432``."""

    def field(which: pq.DiagnosticField) -> str:
        return (result.error_field(which) or b"").decode("utf-8", "replace")

    sqlstate = field(pq.DiagnosticField.SQLSTATE)
    primary = field(pq.DiagnosticField.MESSAGE_PRIMARY)
    if not sqlstate:
        # made by libpq itself: the connection is gone, often with the server's last words in the text
        return SourceError(f"{doing} broke off: {libpq_text(result.error_message)}", CONNECTION_LOST)
    return reported(sqlstate, primary, field(pq.DiagnosticField.MESSAGE_HINT), doing)


def reported(sqlstate: str, primary: str, hint: str | None, doing: str) -> SourceError:
    """An error of the server, by the fields of its message."""
    return SourceError(f"{doing} failed: {one_line(primary)} (SQLSTATE {sqlstate})", remedy_for(sqlstate, hint))


def connection_lost(error: psycopg.Error, doing: str) -> SourceError:
    """The connection broke in the middle."""
    return SourceError(f"{doing} broke off: {one_line(str(error))}", CONNECTION_LOST)


def libpq_text(message: bytes) -> str:
    """libpq's message in one line, without its guesses (the lines that begin with a tab)."""
    lines = message.decode("utf-8", "replace").splitlines()
    return one_line(" ".join(line for line in lines if not line.startswith("\t"))) or "the connection is gone"


def connect_text(error: psycopg.Error) -> str:
    """Why a connection could not be made, in one line: libpq's words for the last address and way it tried."""
    kept = [line for line in str(error).splitlines() if not line.startswith(("\t", "- ", "Multiple"))]
    text = one_line(" ".join(kept)).removeprefix("connection failed: ").removeprefix("connection is bad: ")
    attempts = text.split(_ATTEMPT)
    last = attempts[-1] if len(attempts) == 1 else _ATTEMPT.lstrip() + attempts[-1]
    return last.removesuffix(".") or type(error).__name__
