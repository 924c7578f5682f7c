"""``walshadow inspect``: what is in a file, for people who debug."""

from __future__ import annotations

import typer

from walshadow_core.cli.inspect_wal import wal

app = typer.Typer(
    no_args_is_help=True, help="Look into WAL segments.", rich_markup_mode=None, pretty_exceptions_enable=False
)
app.command()(wal)
