"""Connection strings: nothing of a password comes out, whatever shape it is in."""

from __future__ import annotations

import psycopg
import pytest

from walshadow_core.api import SourceError, UsageError
from walshadow_core.catalog.connect import (
    parse_dsn,
    query_error,
    secrets_of,
    source_connection,
)


def test_words() -> None:
    words = parse_dsn("postgresql://u:hunter2@h:5433/d?sslmode=require")
    assert words == {"user": "u", "password": "hunter2", "host": "h", "port": "5433", "dbname": "d",
                     "sslmode": "require"}  # fmt: skip
    assert secrets_of(words) == ("hunter2",)
    assert parse_dsn("") == {}


@pytest.mark.parametrize(
    "dsn",
    ["postgres://u:hunter@2@host/db", "postgres://u:hunter/2@host/db", "password=hunter two host=x",
     "host=127.0.0.1 port=hunter", "hunter", "postgres://u:hunter%zz@h/d", "foo=hunter"],
)  # fmt: skip
def test_a_dsn_that_is_none_is_not_quoted(dsn: str) -> None:
    with pytest.raises(UsageError) as error, source_connection(dsn):
        pass
    assert "hunter" not in str(error.value) and "\n" not in str(error.value)
    assert error.value.__context__ is None or error.value.__suppress_context__


@pytest.mark.parametrize(
    ("dsn", "words", "remedy"),
    [
        ("host=127.0.0.1 port=1 password=hunter2", "Connection refused", "listen_addresses"),
        ("host=no-such-host.invalid password=hunter2", "no-such-host.invalid", "check host="),
        ("host=/nonexistent password=hunter2", "No such file", "check host="),
        ("service=no_such_service", "no_such_service", "PGSERVICEFILE"),
    ],
)
def test_no_connection(dsn: str, words: str, remedy: str) -> None:
    with pytest.raises(SourceError) as error, source_connection(dsn):
        pass
    text = str(error.value)
    assert words in text and remedy in text
    assert "\n" not in text and "hunter2" not in text


def test_a_lost_connection_and_an_unknown_error() -> None:
    assert "connection was lost" in str(query_error(psycopg.OperationalError("gone\nreally")))
    assert "SQLSTATE 42P01" in str(query_error(psycopg.errors.UndefinedTable("x")))
    assert "max_standby_streaming_delay" in str(query_error(psycopg.errors.SerializationFailure("x")))
    assert "grant" in str(query_error(psycopg.errors.InsufficientPrivilege("x")))
