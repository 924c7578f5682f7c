"""The URL forms: ``clickhouse://user:pw@host:8123/db``, ``clickhouses://`` (TLS), ``chdb:///path?database=db``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from walshadow_core.api import UsageError
from walshadow_sink_clickhouse.settings import Settings, make_settings

HTTP, HTTPS, EMBEDDED = "clickhouse", "clickhouses", "chdb"
SCHEMES = (HTTP, HTTPS, EMBEDDED)
PASSWORD_VARIABLES = ("WALSHADOW_CLICKHOUSE_PASSWORD", "CLICKHOUSE_PASSWORD")


@dataclass(frozen=True)
class Target:
    """Where the destination is. ``path`` is the directory of an embedded engine, else None."""

    scheme: str
    database: str
    settings: Settings
    host: str = ""
    port: int = 0
    user: str = "default"
    password: str = field(default="", repr=False)
    path: Path | None = None

    @property
    def display_url(self) -> str:
        """The URL without password and settings."""
        if self.path is not None:
            return f"{EMBEDDED}://{quote(str(self.path))}?database={quote(self.database, safe='')}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        user = f"{quote(self.user, safe='')}@" if self.user != "default" else ""
        return f"{self.scheme}://{user}{host}:{self.port}/{quote(self.database, safe='')}"

    @property
    def loopback(self) -> bool:
        """Whether the server is on this machine, as far as the name tells."""
        return self.host in ("localhost", "127.0.0.1", "::1")


def is_ours(url: str) -> bool:
    """Whether the URL's scheme is one of this plugin."""
    return url.partition("://")[0] in SCHEMES and "://" in url


def parse_url(url: str, options: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> Target:
    """Read a URL and the options beside it. A password comes from the URL, else from ``password_file``, else
    from the environment (PASSWORD_VARIABLES). Raises UsageError, which never shows the URL's secrets."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        raise UsageError("the ClickHouse URL can't be read", "percent-encode special characters in it") from None
    values: dict[str, Any] = dict(parse_qsl(parts.query, keep_blank_values=True))
    values.update(options)
    settings = make_settings(values)
    if parts.scheme == EMBEDDED:
        if parts.netloc or not parts.path.startswith("/"):
            raise UsageError("an embedded engine needs an absolute path", "write chdb:///absolute/path?database=db")
        return Target(EMBEDDED, settings.database or "default", settings, path=Path(unquote(parts.path)))
    if not host:
        raise UsageError("the ClickHouse URL names no host", f"write {parts.scheme}://user@host:8123/database")
    try:
        port = parts.port or (8443 if parts.scheme == HTTPS else 8123)
    except ValueError:
        raise UsageError("the ClickHouse URL's port is not a number from 1 to 65535") from None
    in_path = unquote(parts.path.strip("/"))
    if in_path and settings.database and in_path != settings.database:
        raise UsageError(f"the ClickHouse URL names two databases, {in_path!r} and {settings.database!r}")
    return Target(
        parts.scheme,
        in_path or settings.database or "default",
        settings,
        host=host,
        port=port,
        user=unquote(parts.username) if parts.username else "default",
        password=_password(parts.password, settings.password_file, environment),
    )


def _password(in_url: str | None, file: Path | None, environment: Mapping[str, str]) -> str:
    if in_url is not None:
        return unquote(in_url)
    if file is not None:
        try:
            return file.read_text().rstrip("\r\n")
        except OSError as error:
            raise UsageError(f"can't read the password file {file}: {error.strerror}") from None
    for name in PASSWORD_VARIABLES:
        if name in environment:
            return environment[name]
    return ""
