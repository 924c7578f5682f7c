"""One line out of what clickhouse-connect, urllib3 and the engine say."""

from __future__ import annotations

import re

import urllib3.exceptions
from clickhouse_connect.driver import exceptions as driver

from walshadow_core.api import DestinationError

UNKNOWN_TABLE, UNKNOWN_DATABASE, ACCESS_DENIED, AUTHENTICATION_FAILED = 60, 81, 497, 516
UNKNOWN_USER, WRONG_PASSWORD, REQUIRED_PASSWORD = 192, 193, 194
TIMEOUT_EXCEEDED, QUERY_WAS_CANCELLED = 159, 394

_LEAD = re.compile(r"^(?:Received ClickHouse exception, code: \d+, server response: )?(?:Code: \d+\. )?")
_TAIL = re.compile(r"\s*\(version [^()]*(?:\([^()]*\))?\s*\)\s*$|\s*\(for url [^()]*\)\s*$")
_LONGEST = 600


def one_line(error: BaseException) -> str:
    """The server's own words, without stack trace, version and URL, on one line of at most 600 characters."""
    text = str(error).split("Stack trace:")[0]
    text = " ".join(text.split())
    while (shorter := _TAIL.sub("", text)) != text:
        text = shorter
    text = _LEAD.sub("", text).replace("DB::Exception: ", "")
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def code_of(error: BaseException) -> int | None:
    """ClickHouse's error code, None if it is not an answer of the server."""
    code = getattr(error, "code", None)
    return code if isinstance(code, int) else None


def _chain(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    todo: list[BaseException | None] = [error]
    while todo:
        one = todo.pop()
        if one is None or one in found:
            continue
        found.append(one)
        reason = getattr(one, "reason", None)
        todo += [one.__cause__, one.__context__, reason if isinstance(reason, BaseException) else None]
    return found


def explain(error: BaseException, where: str, doing: str) -> DestinationError:
    """The error to raise for one of clickhouse-connect. ``where`` is the display URL, ``doing`` completes
    "while …"."""
    code = code_of(error)
    if code in (AUTHENTICATION_FAILED, UNKNOWN_USER, WRONG_PASSWORD, REQUIRED_PASSWORD):
        return DestinationError(
            f"ClickHouse at {where} refused the user or the password",
            "give them in the URL, or the password in WALSHADOW_CLICKHOUSE_PASSWORD or ?password_file=",
        )
    if code == ACCESS_DENIED:
        return DestinationError(f"ClickHouse at {where} does not allow it while {doing}: {one_line(error)}")
    if code == TIMEOUT_EXCEEDED:
        return DestinationError(
            f"{where}: time ran out while {doing}: {one_line(error)}", "raise the setting insert_timeout"
        )
    if code is not None:
        return DestinationError(f"{where}: ClickHouse failed while {doing}: {one_line(error)}")
    chain = _chain(error)
    if any(isinstance(e, urllib3.exceptions.SSLError) for e in chain):
        return DestinationError(
            f"no TLS with {where}: {one_line(error)}", "check the port, the certificate, or the setting ca_cert"
        )
    if any(
        isinstance(e, (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError)) for e in chain
    ):
        return DestinationError(
            f"no ClickHouse answers at {where}",
            "check host and port: it is the HTTP interface's, 8123, or 8443 with clickhouses://",
        )
    if any(isinstance(e, (urllib3.exceptions.ReadTimeoutError, TimeoutError)) for e in chain):
        return DestinationError(f"{where}: no answer in time while {doing}", "raise the setting insert_timeout")
    if isinstance(error, (driver.Error, urllib3.exceptions.HTTPError, OSError)):
        return DestinationError(f"{where}: failed while {doing}: {one_line(error)}")
    return DestinationError(f"{where}: failed while {doing}: {type(error).__name__}: {one_line(error)}")
