"""SQL connections to the source: what went wrong, in one line, with the remedy and without the password."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from walshadow_core.api import SourceError, UsageError

SourceConnection = psycopg.Connection[tuple[Any, ...]]

_SECRET_WORDS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
"""The words of a connection string whose values are secrets."""

_CONNECT_TIMEOUT = "20"
"""Seconds, where neither the DSN nor PGCONNECT_TIMEOUT says otherwise."""

_REMEDIES: tuple[tuple[str, str], ...] = (
    (r"no password supplied|password authentication failed|authentication failed for user",
     "give the right user and password in the source DSN, PGPASSWORD or ~/.pgpass"),
    (r"no pg_hba\.conf entry", "add a line for this host, user and database to pg_hba.conf and reload the server"),
    (r'role ".*" does not exist', "create the role, or name another with user= in the source DSN"),
    (r'database ".*" does not exist', "name an existing database with dbname= in the source DSN"),
    (r"permission denied for database", "GRANT CONNECT ON DATABASE to this role"),
    (r"not permitted to log in", "ALTER ROLE … LOGIN"),
    (r"too many (clients|connections)|connection slots are reserved",
     "close other connections, or raise max_connections"),
    (r"Hot standby mode is disabled|not accepting connections", "set hot_standby = on on the standby"),
    (r"is starting up|shutting down|in recovery mode|not yet accepting connections",
     "wait until the server is up, then try again"),
    (r"failed to resolve host|could not translate host name|Name or service not known",
     "check host= in the source DSN"),
    (r"Connection refused|No such file or directory",
     "check host= and port= in the source DSN, and that the server runs and listens there (listen_addresses)"),
    (r"timeout expired|timed out|No route to host|Network is unreachable",
     "check host= and port= in the source DSN, and the firewalls between"),
    (r"does not support SSL|SSL error|certificate|sslmode|no encryption",
     "check sslmode= and the certificates in the source DSN"),
    (r"definition of service .* not found", "check service= and the file that PGSERVICEFILE names"),
)  # fmt: skip


def parse_dsn(dsn: str) -> dict[str, str]:
    """The words of a libpq connection string (URI or ``key=value``). Raises UsageError.

    libpq quotes the piece it stumbled over, and with an unescaped password that piece is part of it: so the
    error here quotes nothing, and a host or port that looks like half a password is an error too.
    """
    try:
        words = {k: str(v) for k, v in conninfo_to_dict(dsn).items() if v is not None}
    except psycopg.Error:
        raise _bad_dsn() from None
    if "@" in words.get("host", "") or not re.fullmatch(r"[0-9, ]*", words.get("port", "")):
        raise _bad_dsn()
    return words


def connection_words(dsn: str) -> dict[str, str]:
    """The words of a connection string together with libpq's defaults (PGDATABASE, PGUSER…), where these are known
    without connecting: a DSN that names a service leaves the rest to that. Raises UsageError."""
    words = parse_dsn(dsn)
    if "service" in words:
        return words
    defaults = {o.keyword.decode(): o.val.decode() for o in psycopg.pq.Conninfo.get_defaults() if o.val}
    return {**defaults, **words}


def secrets_of(words: Mapping[str, str]) -> tuple[str, ...]:
    """The secret values among the words of a connection string."""
    return tuple(words[k] for k in _SECRET_WORDS if words.get(k))


@contextmanager
def source_connection(dsn: str) -> Iterator[SourceConnection]:
    """A connection in autocommit mode with client_encoding UTF8, closed on leaving.

    Whatever psycopg raises, then or inside the block, comes out as a SourceError; a DSN that does not parse is
    a UsageError.
    """
    words = parse_dsn(dsn)
    words.pop("replication", None)
    words["client_encoding"] = "UTF8"
    words.setdefault("fallback_application_name", "walshadow")
    if not os.environ.get("PGCONNECT_TIMEOUT"):
        words.setdefault("connect_timeout", _CONNECT_TIMEOUT)
    try:
        # Poolers in transaction mode don't keep prepared statements.
        connection = psycopg.connect(make_conninfo(**words), autocommit=True, prepare_threshold=None)
    except psycopg.Error as error:
        raise _connect_error(error, words) from None
    with connection:
        try:
            yield connection
        except psycopg.Error as error:
            raise query_error(error) from error


def query_error(error: psycopg.Error) -> SourceError:
    """What a failed statement on the source comes to."""
    reason = _one_line(str(error.diag.message_primary or error))
    match error.sqlstate:
        case "22021" | "22P05":
            remedy = "a name in the database can't be turned into UTF-8: rename that table, column or type"
        case "40001":
            remedy = "the standby's recovery was in the way: try again, or raise max_standby_streaming_delay"
        case "42501":
            remedy = "the role of the source DSN lacks a privilege that every role has by default: grant it"
        case "55P03" | "57014":
            remedy = "the server gave up waiting: try again, or raise the role's statement_timeout"
        case None | "57P01" | "57P02" | "57P03" | "08006" | "08003":
            remedy = "the connection was lost: try again when the server is up"
        case state:
            remedy = f"SQLSTATE {state}"
    return SourceError(f"the source's catalog can't be read: {reason}", remedy)


def _connect_error(error: psycopg.Error, words: Mapping[str, str]) -> SourceError:
    reason = _one_line(str(error))
    for secret in (*secrets_of(words), os.environ.get("PGPASSWORD", "")):
        reason = reason.replace(secret, "***") if secret else reason
    remedy = next((r for pattern, r in _REMEDIES if re.search(pattern, reason)), "check the source DSN")
    return SourceError(f"no connection to the source Postgres: {reason}", remedy)


def _bad_dsn() -> UsageError:
    return UsageError(
        "the source DSN does not parse as a libpq connection string",
        "write 'host=… port=… user=… dbname=…' (values with spaces in single quotes) or "
        "postgresql://user@host:port/database (in the password, @ as %40, / as %2F, : as %3A)",
    )


def _one_line(text: str) -> str:
    text = re.sub(r"\s*(Is the server running|\n\s*HINT:).*?(\?|$)", "", text)
    text = re.sub(r"^(connection failed|connection is bad|connection timeout expired): ", "", text)
    return " ".join(text.split())
