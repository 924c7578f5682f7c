"""``walshadow load``: the rows of tables, from a base backup into a destination, once."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from walshadow_core.cli import signals
from walshadow_core.cli.console import say, stderr_console
from walshadow_core.cli.options import FromOption, Json, Source, To, ToOption, WithChildren, parse_options

if TYPE_CHECKING:
    from rich.console import Console

    from walshadow_core.api import BackupSource, Destination, RelationDescriptor
    from walshadow_core.backfill.options import LoadOptions, Planned
    from walshadow_core.backfill.stats import LoadStats
    from walshadow_core.catalog.choices import Choices, ColumnWords
    from walshadow_core.catalog.sql import CatalogSnapshot
    from walshadow_core.cli.catalogs import CatalogReader
    from walshadow_core.plugins import Plugins


def load(
    source: Source,
    to: To,
    tables: Annotated[
        list[str] | None, typer.Option("--table", "-t", help="A table to load, as SQL names it. Repeat for more.")
    ] = None,
    mode: Annotated[str, typer.Option("--from", help="Where the rows come from.")] = "base_backup",
    catalog_from: Annotated[
        str,
        typer.Option(
            "--catalog",
            metavar="sql|backup",
            help="What says how tables look: the source itself (sql), or a backup's own files (backup), which needs no "
            "SQL connection. For base_backup that is one more backup, read to its end before the load's own.",
        ),
    ] = "sql",
    into: Annotated[
        list[str] | None,
        typer.Option(help="Another name at the destination: app.orders=orders2, or a template: '{schema}_{table}'."),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option("--exclude", metavar="COLUMN", help="A column to leave out: app.orders.note. Repeatable."),
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            metavar="COLUMN=TYPE",
            help="The destination's type for a column: 'app.orders.amount=Decimal(38,4)'; String takes any as text, "
            "hex a type that nobody knows. Repeatable.",
        ),
    ] = None,
    not_null: Annotated[
        list[str] | None,
        typer.Option(
            "--not-null",
            metavar="COLUMN",
            help="A column that shall not be NULL at the destination: a NULL fails the table. Repeatable.",
        ),
    ] = None,
    nullable: Annotated[
        list[str] | None,
        typer.Option("--nullable", metavar="COLUMN", help="A column that may be NULL at the destination. Repeatable."),
    ] = None,
    with_children: WithChildren = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace tables that hold rows which walshadow did not write.")
    ] = False,
    skip_refused: Annotated[
        bool, typer.Option("--skip-refused", help="Load the other tables where some can't be loaded (exit code 3).")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    as_json: Json = False,
    no_progress: Annotated[bool, typer.Option("--no-progress", help="Neither display nor progress lines.")] = False,
    from_option: FromOption = None,
    to_option: ToOption = None,
    invalid_text: Annotated[
        str, typer.Option(help="Text that is not valid in the database's encoding: error, replace, or bytes.")
    ] = "error",
    memory: Annotated[int, typer.Option(help="MiB that buffers, batches and spool may take.", min=32)] = 192,
    no_wal: Annotated[
        bool,
        typer.Option(
            "--no-wal",
            help="Don't stream the WAL beside the backup: one connection less, and exact only where nobody writes.",
        ),
    ] = False,
    jobs: Annotated[int, typer.Option(help="Decoding threads.", min=1, max=64)] = 1,
    resolver: Annotated[str, typer.Option(help="The visibility resolver that decides which tuples are rows.")] = "gate",
) -> None:
    """Load tables from a base backup: heap pages in, rows out, published atomically.

    The destination table has the source table's name, in the database of the URL. Loaded again, its content is
    replaced. Nothing at the destination changes until a table is complete. A partitioned table comes with all its
    partitions, in one table; a partition can be named alone.

    \b
    walshadow load --source postgresql://walshadow@db/shop --table app.orders --from base_backup \\
        --to clickhouse://default@ch:8123/shop
    walshadow load --table app.orders --table app.items --into '{schema}_{table}' --dry-run
    walshadow load --table app.orders --from-option max_rate=32MB --to-option out_of_range=null
    walshadow load --table app.events --with-children --to clickhouse://default@ch:8123/shop
    walshadow load --table app.orders --catalog backup
    walshadow load --table app.orders --exclude app.orders.note --type 'app.orders.amount=Decimal(38,4)'

    With --catalog backup, names without a schema are looked up in the schemas of the role's name and public. With
    --no-wal as well, DDL, TRUNCATE and VACUUM FULL should wait while it runs: the backup's copies alone may not tell.

    \b
    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 some tables failed (the summary names them).
    """
    from walshadow_core.api import UsageError, WalshadowError
    from walshadow_core.backfill.options import LoadOptions
    from walshadow_core.catalog.choices import ColumnWords
    from walshadow_core.cli.catalogs import FilesReader, SqlReader
    from walshadow_core.cli.warmup import start_loading_kernels
    from walshadow_core.decode.types import DecodeOptions
    from walshadow_core.plugins import Plugins
    from walshadow_core.visibility.status import CopiedStatus

    if not tables:
        raise UsageError("no --table given", "name at least one, e.g. --table app.orders")
    if catalog_from not in ("sql", "backup"):
        raise UsageError(f"--catalog {catalog_from}: not one of sql, backup")
    if invalid_text not in ("error", "replace", "bytes"):
        raise UsageError(f"--invalid-text {invalid_text}: not one of error, replace, bytes")
    options = LoadOptions(DecodeOptions(invalid_text=invalid_text), memory << 20, jobs, window=not no_wal)  # type: ignore[arg-type]
    words = ColumnWords(exclude or (), types or (), not_null or (), nullable or ())
    console = stderr_console()
    plugins = Plugins.load()
    kernels = start_loading_kernels(plugins)
    backup_source = plugins.source(mode, {"dsn": source, **parse_options(from_option, "--from-option")})
    catalog_reader: CatalogReader = SqlReader(source, with_children)
    destination = plugins.destination(to, parse_options(to_option, "--to-option"))
    try:
        if catalog_from == "backup":
            kernels.join()
            catalog_reader = FilesReader(source, with_children, backup_source, console, plugins, options)
        # A backup that is read for its catalog is to be ended, the rest can be left as it is.
        with signals.interrupting() if catalog_from == "backup" else contextlib.nullcontext():
            catalog, planned, refused, choices = _plan(
                catalog_reader, tables, into or [], plugins, destination, options, replace, skip_refused, words
            )
        if refused and not (skip_refused and planned):
            raise _refusal(refused)
        plugins.resolver(CopiedStatus(), {"resolver": resolver})
        for name, reason in refused:
            say(console, f"left out: {name}: {reason}")
        backup_source.preflight()
        stats = _stats(catalog, planned, refused)
        if dry_run:
            _print_dry_run(catalog, planned, as_json)
            raise typer.Exit(3 if refused else 0)
        kernels.join()
        try:
            with signals.interrupting():
                _run(
                    console, plugins, catalog_reader, backup_source, destination, catalog, planned, stats, options,
                    resolver, no_progress, choices,
                )  # fmt: skip
        except WalshadowError as error:
            stats.fail(str(error))
            if as_json:
                typer.echo(json.dumps(stats.summary()))
            raise
        _report(console, stats, destination.display_url, as_json)
    finally:
        destination.close()
    raise typer.Exit(stats.exit_code())


def _plan(
    catalog_reader: CatalogReader,
    tables: list[str],
    into: list[str],
    plugins: Plugins,
    destination: Destination,
    options: LoadOptions,
    replace: bool,
    skip_refused: bool,
    words: ColumnWords,
) -> tuple[CatalogSnapshot, list[Planned], list[tuple[str, str]], Choices]:
    """The catalog, what will be loaded, what is refused with its reason, and what is chosen for columns: before any
    byte is read."""
    from walshadow_core.backfill.load import plan_tables
    from walshadow_core.backfill.naming import destination_names
    from walshadow_core.catalog.choices import read_choices

    catalog = catalog_reader.read(tables)
    refused = [(name, reason) for name, reason in catalog.refused]
    choices = read_choices(words, catalog.relations, bool(refused))
    relations = _as_wanted(catalog.relations, plugins, choices)
    if refused and not skip_refused:
        return catalog, [], refused + _undecodable(relations, options, choices), choices
    names = destination_names(relations, into)
    planned, more = plan_tables(destination, relations, names, options.decode, replace=replace, choices=choices.columns)
    return catalog, planned, refused + more, choices


def _as_wanted(relations: Sequence[RelationDescriptor], plugins: Plugins, choices: Choices) -> list[RelationDescriptor]:
    """What the catalog says, with what plugins and the user say of types and columns."""
    from walshadow_core.catalog.codecs import with_codecs

    return [choices.applied(relation) for relation in with_codecs(relations, plugins.type_codec)]


def _undecodable(relations: list[RelationDescriptor], options: LoadOptions, choices: Choices) -> list[tuple[str, str]]:
    """What else is refused, so that all is said at once. Where something is chosen for columns, the destination would
    have to say in which form it wants them."""
    from walshadow_core.api import TableRefused
    from walshadow_core.decode.table import decodable

    refused = []
    for relation in relations:
        try:
            if not choices.columns.get(relation.oid):
                decodable(relation, options.decode)
        except TableRefused as error:
            refused.append((relation.qualified_name, str(error)))
    return refused


def _refusal(refused: list[tuple[str, str]]) -> Exception:
    from walshadow_core.api import TableRefused

    reasons = "; ".join(f"{name}: {reason.removeprefix(f'{name}: ')}" for name, reason in refused)
    return TableRefused(reasons)


def _stats(catalog: CatalogSnapshot, planned: list[Planned], refused: list[tuple[str, str]]) -> LoadStats:
    from walshadow_core.backfill.stats import LoadStats, TableStats

    stats = LoadStats([TableStats(p.relation, p.plan.table, warnings=_warnings(catalog, p)) for p in planned])
    stats.refused = dict(refused)
    return stats


def _warnings(catalog: CatalogSnapshot, item: Planned) -> list[str]:
    """What the user should know before the load."""
    return [*catalog.notices.get(item.relation.oid, ()), *item.plan.warnings]


def _run(
    console: Console,
    plugins: Plugins,
    catalog_reader: CatalogReader,
    source: BackupSource,
    destination: Destination,
    catalog: CatalogSnapshot,
    planned: list[Planned],
    stats: LoadStats,
    options: LoadOptions,
    resolver: str,
    no_progress: bool,
    choices: Choices,
) -> None:
    from contextlib import nullcontext

    from walshadow_core.backfill.load import load as load_tables
    from walshadow_core.cli.warmup import warm_up_if_cold
    from walshadow_core.decode.warmup import groups_of
    from walshadow_core.ops.progress import LoadDisplay

    groups = (
        groups_of(c.attribute.type, c.form) for p in planned for c in p.plan.columns if c.attribute.type is not None
    )
    warm_up_if_cold(console, plugins, set().union(*groups))
    names = [_sql_name(p.relation) for p in planned]
    display = nullcontext() if no_progress else LoadDisplay(stats, console, live=console.is_terminal)
    with display:
        load_tables(
            source,
            destination,
            catalog.cluster,
            planned,
            stats,
            lambda status: plugins.resolver(status, {"resolver": resolver}),
            lambda: catalog_reader.recheck(names, lambda relation: _as_wanted([relation], plugins, choices)[0]),
            options,
        )


def _sql_name(relation: RelationDescriptor) -> str:
    from walshadow_core.catalog.names import quote_identifier

    return f"{quote_identifier(relation.schema)}.{quote_identifier(relation.name)}"


def _report(console: Console, stats: LoadStats, url: str, as_json: bool) -> None:
    for table in stats.tables:
        for warning in table.warnings:
            say(console, f"warning: {warning}")
        for column, count in table.adjusted.items():
            say(
                console,
                f"warning: {table.name}.{column}: {count:,} values that the destination can't hold were adjusted",
            )
        if table.failed:
            say(console, f"failed: {table.name}: {table.error}")
        else:
            exact = f", exact as of {table.exact_at}" if table.exact_at is not None else ""
            say(console, f"loaded: {table.name} -> {table.destination}: {table.rows_written:,} rows{exact}")
    if not stats.all_failed:
        say(console, f"in {stats.seconds:.1f} s, into {url}")
    if as_json:
        typer.echo(json.dumps(stats.summary()))


def _print_dry_run(catalog: CatalogSnapshot, planned: list[Planned], as_json: bool) -> None:
    wanted = sum(p.relation.size_bytes for p in planned)
    cluster = catalog.cluster.cluster_bytes
    if as_json:
        typer.echo(json.dumps({
            "tables": [_dry_table(catalog, p) for p in planned], "bytes_wanted": wanted, "bytes_to_read": cluster,
        }))  # fmt: skip
        return
    from rich.console import Console
    from rich.table import Table

    from walshadow_core.ops.progress import human_bytes

    console = Console()
    for item in planned:
        relation = item.relation
        console.print(
            f"{relation.qualified_name} ({human_bytes(relation.size_bytes)}) -> {item.plan.table}"
            + (" (exists)" if item.plan.exists else " (new)"),
            markup=False, highlight=False,
        )  # fmt: skip
        grid = Table(box=None, padding=(0, 2), header_style="dim")
        for title in ("column", "Postgres", "destination", ""):
            grid.add_column(title)
        for column in item.plan.columns:
            key = "key" if column.attribute.number in relation.key else ""
            grid.add_row(*(_plain(x) for x in (column.name, column.attribute.type_name, column.type, key)))
        console.print(grid)
        console.print(item.plan.create_sql, markup=False, highlight=False, soft_wrap=True)
        for warning in _warnings(catalog, item):
            say(console, f"warning: {warning}")
        console.print()
    whole = f"about {human_bytes(cluster)}" if cluster is not None else "the whole cluster (its size can't be told)"
    console.print(f"wanted: {human_bytes(wanted)} of tables; to be read: {whole}", markup=False, highlight=False)


def _plain(text: str) -> Any:
    from rich.text import Text

    return Text(text)


def _dry_table(catalog: CatalogSnapshot, item: Planned) -> dict[str, Any]:
    return {
        "table": item.relation.qualified_name,
        "destination": item.plan.table,
        "exists": item.plan.exists,
        "bytes": item.relation.size_bytes,
        "create": item.plan.create_sql,
        "columns": [
            {
                "name": c.name,
                "postgres": c.attribute.type_name,
                "destination": c.type,
                "nullable": c.nullable,
                "form": c.form,
            }
            for c in item.plan.columns
        ],
        "excluded": [a.name for a in item.relation.attributes if a.number in item.relation.excluded],
        "key": list(item.relation.key_names),
        "warnings": _warnings(catalog, item),
    }
