"""``walshadow engine``."""

import typer

engine_app = typer.Typer(help="An embedded ClickHouse engine of your own.", no_args_is_help=True)
