"""``walshadow engine``: an embedded ClickHouse engine that others can query."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

engine_app = typer.Typer(help="An embedded ClickHouse engine.", no_args_is_help=True)


@engine_app.callback()
def engine() -> None:
    """An embedded ClickHouse engine."""


@engine_app.command()
def serve(
    path: Annotated[Path, typer.Argument(help="The engine's directory; made if it is not there.")],
    port: Annotated[int, typer.Option(help="TCP port; 0 takes a free one.")] = 8123,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    user: Annotated[str | None, typer.Option(help="Ask for this user.")] = None,
    password_file: Annotated[Path | None, typer.Option(help="Ask for the password in this file.")] = None,
) -> None:
    """Serve an engine's directory over ClickHouse's HTTP interface, until Ctrl-C.

    A load or a query can then use clickhouse://localhost:8123/DATABASE from any process.
    """
    from walshadow_core.api import UsageError
    from walshadow_sink_clickhouse.engine import LOOPBACK, EngineServer

    password = None
    if password_file is not None:
        try:
            password = password_file.read_text().rstrip("\r\n")
        except OSError as error:
            raise UsageError(f"can't read {password_file}: {error.strerror}") from None
    elif host not in LOOPBACK:
        typer.echo(f"warning: everyone who can reach {host}:{port} may read and write", err=True)
    server = EngineServer(path, port, host, user, password)
    url = f"http://{server.host}:{server.port}/"
    login = f" -u {user or 'default'}:…" if user or password else ""
    typer.echo(f"engine of {path} at {url}, Ctrl-C ends it")
    typer.echo(f"  query it:       curl{login} {url} --data-binary 'SHOW DATABASES'")
    typer.echo(f"  load into it:   walshadow load … --to {server.url('DATABASE')}")
    try:
        server.serve()
    except KeyboardInterrupt:
        typer.echo("ended")
    finally:
        server.stop()
