"""Options that several commands share.

Secrets are best kept off the command line: the source and the destination can come from the environment
(``WALSHADOW_SOURCE``, ``WALSHADOW_TO``) or, written as ``@/path``, from a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console


def from_file(value: str | None) -> str | None:
    """``@/path`` to the content of that file, stripped; any other value is itself.

    Raises typer.BadParameter (wrong usage) if the file can't be read or is empty.
    """
    if value is None or not value.startswith("@"):
        return value
    path = Path(value[1:]).expanduser()
    try:
        content = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise typer.BadParameter(f"can't read {path}: {reason}") from error
    if not content:
        raise typer.BadParameter(f"{path} is empty")
    return content


Source = Annotated[
    str | None,
    typer.Option(
        "--source",
        envvar="WALSHADOW_SOURCE",
        metavar="DSN",
        callback=from_file,
        show_default=False,
        help="The source Postgres: a URL, or words such as 'host=db dbname=shop' or 'service=shop'; "
        "@/path takes it from a file.",
    ),
]

To = Annotated[
    str | None,
    typer.Option(
        "--to",
        envvar="WALSHADOW_TO",
        metavar="URL",
        callback=from_file,
        show_default=False,
        help="The destination, such as clickhouse://user@host:8123/db or chdb:///path?database=db; "
        "@/path takes it from a file.",
    ),
]

FromOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--from-option",
        metavar="NAME=VALUE",
        show_default=False,
        help="A setting of the source's plugin, such as max_rate=32MB (see 'walshadow plugins show'). Repeatable.",
    ),
]

ToOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--to-option",
        metavar="NAME=VALUE",
        show_default=False,
        help="A setting of the destination's plugin, such as out_of_range=null. Repeatable.",
    ),
]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON value on stdout; all else goes to stderr.")]


def required(value: str | None, flag: str, variable: str) -> str:
    """``value``, or UsageError saying how to give it: by ``flag`` or by the environment ``variable``."""
    from walshadow_core.api import UsageError

    if not value:
        raise UsageError(f"no {flag} given", f"give it, or set {variable}")
    return value


def key_values(words: Sequence[str] | None, flag: str) -> dict[str, str]:
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


def stderr_console() -> Console:
    """Where displays, warnings and reports go: stdout is left to results."""
    from rich.console import Console

    return Console(stderr=True)
