"""Options that several commands share.

Secrets are best kept off the command line: the source and the destination can come from the environment
(``WALSHADOW_SOURCE``, ``WALSHADOW_TO``) or, written as ``@/path``, from a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from walshadow_core.ops.secrets import has_password, resolve_secret, scrub, secrets_in

_given: list[str] = []
"""What this run was given that may hold a secret, for `scrubbed`."""


def _secret(value: str | None) -> str | None:
    if value is None:
        return None
    resolved = resolve_secret(value)
    _given.append(resolved)
    return resolved


def remember(word: str) -> bool:
    """Keep what secrets a word of the command line has out of messages; whether it has any."""
    if not has_password(word):
        return False
    _given.append(word)
    return True


def scrubbed(text: str) -> str:
    """``text`` without the secrets of this run's source and destination, whoever wrote them into it."""
    return scrub(text, (secret for given in _given for secret in secrets_in(given)))


Source = Annotated[
    str,
    typer.Option(
        "--source",
        envvar="WALSHADOW_SOURCE",
        metavar="DSN",
        callback=_secret,
        show_default=False,
        help="The source Postgres: a URL, or words such as 'host=db dbname=shop' or 'service=shop'; "
        "@/path takes it from a file.",
    ),
]

OptionalSource = Annotated[
    str | None,
    typer.Option(
        "--source",
        envvar="WALSHADOW_SOURCE",
        metavar="DSN",
        callback=_secret,
        show_default=False,
        help="The Postgres that knows the table.",
    ),
]

To = Annotated[
    str,
    typer.Option(
        "--to",
        envvar="WALSHADOW_TO",
        metavar="URL",
        callback=_secret,
        show_default=False,
        help="The destination, such as clickhouse://user@host:8123/db or chdb:///path?database=db; "
        "@/path takes it from a file.",
    ),
]

FromOption = Annotated[
    list[str] | None,
    typer.Option(
        "--from-option",
        metavar="NAME=VALUE",
        show_default=False,
        help="A setting of the source's plugin, such as max_rate=32MB (see 'walshadow plugins show'). Repeatable.",
    ),
]

ToOption = Annotated[
    list[str] | None,
    typer.Option(
        "--to-option",
        metavar="NAME=VALUE",
        show_default=False,
        help="A setting of the destination's plugin, such as out_of_range=null. Repeatable.",
    ),
]

WithChildren = Annotated[
    bool,
    typer.Option(
        "--with-children",
        help="The rows of tables that inherit from a named one belong to it, as SELECT shows them: its columns, and "
        "tableoid to tell whose a row is. Without it, as SELECT … FROM ONLY. Partitions always belong to their root.",
    ),
]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON value on stdout; all else goes to stderr.")]


def parse_options(words: Sequence[str] | None, flag: str) -> dict[str, str]:
    """``["max_rate=32MB"]`` to ``{"max_rate": "32MB"}``; dashes in names count as underscores.

    Raises UsageError naming ``flag`` for a word without a name or ``=`` and for a name given twice. The words
    themselves are not shown: a value may be a secret.
    """
    from walshadow_core.api import UsageError

    options: dict[str, str] = {}
    for word in words or ():
        name, equals, value = word.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name:
            raise UsageError(f"{flag} wants NAME=VALUE", f"for example {flag} name=value")
        if name in options:
            raise UsageError(f"{flag} {name} is given twice")
        options[name] = value
    return options
