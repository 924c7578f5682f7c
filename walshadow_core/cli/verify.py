"""``walshadow verify``: is every row there, with the values that the source has?"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from walshadow_core.cli.console import say, stderr_console
from walshadow_core.cli.options import Json, Source, To, ToOption, WithChildren, parse_options

_DIFFERENT = 4


def verify(
    source: Source,
    to: To,
    tables: Annotated[list[str], typer.Option("--table", "-t", help="The source table, as SQL names it.")],
    into: Annotated[
        str | None, typer.Option(help="The destination's name for it, where that is not the table's own.")
    ] = None,
    with_children: WithChildren = False,
    to_option: ToOption = None,
    as_json: Json = False,
) -> None:
    """Compare a table with its copy: counts, and a checksum per row over every column.

    The destination is read as a reader sees it: the last version of each row, deleted ones left out. Values that
    the destination can't hold, and that the load changed by its out_of_range setting, are counted apart: give the
    same --to-option as for the load. Columns that were left out of the load, and those that can't be compared, are
    named.

    \b
    walshadow verify --source postgresql://db/shop --table app.orders --to clickhouse://default@ch:8123/shop

    \b
    Exit codes: 0 equal, 1 failed, 2 wrong usage, 4 differences found (the first 20 keys are printed).
    """
    from walshadow_core.api import ComparableDestination, DestinationError, TableRefused, UsageError
    from walshadow_core.backfill.naming import destination_names
    from walshadow_core.catalog.codecs import with_codecs
    from walshadow_core.catalog.sql import read_catalog
    from walshadow_core.plugins import Plugins
    from walshadow_core.verify.verify import verify_table

    if len(tables) != 1:
        raise UsageError(f"--table was given {len(tables)} times", "verify compares one table: run it for each")
    console = stderr_console()
    plugins = Plugins.load()
    destination = plugins.destination(to, parse_options(to_option, "--to-option"))
    try:
        if not isinstance(destination, ComparableDestination):
            raise DestinationError(f"{destination.display_url}: this kind of destination can't be compared")
        catalog = read_catalog(source, tables, with_children=with_children)
        for name, reason in catalog.refused:
            raise TableRefused(reason if name in reason else f"{name}: {reason}")
        relation = with_codecs(catalog.relations, plugins.type_codec)[0]
        name = destination_names([relation], [f"{relation.qualified_name}={into}"] if into else [])[relation.oid]
        result = verify_table(source, relation, destination, name)
    finally:
        destination.close()
    if as_json:
        typer.echo(json.dumps(result.summary()))
    found = result.differences
    for column, reason in result.left_out.items():
        say(console, f"{relation.qualified_name}.{column}: not compared: {reason}")
    for column, count in result.adjusted.items():
        say(console, f"{relation.qualified_name}.{column}: {count:,} values that the destination can't hold, adjusted")
    if result.equal:
        say(console, f"equal: {relation.qualified_name} and {name}: {result.source_rows:,} rows")
        return
    say(
        console,
        f"different: {relation.qualified_name} has {result.source_rows:,} rows, {name} {result.destination_rows:,}: "
        f"{found.missing:,} missing, {found.extra:,} extra, {found.changed:,} changed",
    )
    for kind, key in found.keys:
        say(console, f"  {kind}: {key}")
    if found.total > len(found.keys):
        say(console, f"  and {found.total - len(found.keys):,} more")
    raise typer.Exit(_DIFFERENT)
