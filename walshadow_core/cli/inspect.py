"""``walshadow inspect``: what is in a file, for people who debug."""

from __future__ import annotations

import typer

from walshadow_core.cli.inspect_page import file, page
from walshadow_core.cli.inspect_wal import wal

app = typer.Typer(
    no_args_is_help=True,
    help="Look into heap files and WAL segments.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for _command in (page, file, wal):
    app.command()(_command)
