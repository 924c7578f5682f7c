"""All hooks of walshadow, on one page.

A plugin is a module (or object) registered under the entry-point group ``walshadow``. It marks functions with
``walshadow_core.api.hookimpl``; each is called with the arguments that it names. A hook that is asked for a
mode or URL that is not its own returns None. ``settings`` is always a mapping of option name to value, as the
user gave it (strings from the command line); the plugin validates it with its own pydantic model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pluggy
import typer

from walshadow_core.api import (
    PROJECT,
    BackupSource,
    Destination,
    PgType,
    PluginInfo,
    TransactionStatus,
    TypeCodec,
    VisibilityResolver,
    WalFetcher,
)

hookspec = pluggy.HookspecMarker(PROJECT)


@hookspec
def walshadow_plugin_info() -> PluginInfo:  # type: ignore[empty-body]
    """Say what you are. Every plugin implements this one.

    >>> @hookimpl
    ... def walshadow_plugin_info():
    ...     return PluginInfo(name="sink-parquet", summary="Parquet files", schemes=("parquet+",))
    """


@hookspec(firstresult=True)
def walshadow_backup_source(mode: str, settings: Mapping[str, Any]) -> BackupSource | None:
    """A source of base backups for ``mode``, the word that users write as ``--from`` or ``initial_load``.

    ``settings`` holds ``dsn`` (the source's connection string, may be absent) and the ``--from-option`` values.

    >>> @hookimpl
    ... def walshadow_backup_source(mode, settings):
    ...     return TarSource(Settings(**settings)) if mode == "tar" else None
    """


@hookspec(firstresult=True)
def walshadow_wal_fetcher(mode: str, settings: Mapping[str, Any]) -> WalFetcher | None:
    """A source of archived WAL segments for ``mode``.

    >>> @hookimpl
    ... def walshadow_wal_fetcher(mode, settings):
    ...     return FolderFetcher(Settings(**settings)) if mode == "folder" else None
    """


@hookspec(firstresult=True)
def walshadow_visibility_resolver(status: TransactionStatus, settings: Mapping[str, Any]) -> VisibilityResolver | None:
    """The gate of a pass. The first plugin that answers decides for every tuple; the core's own gate answers last.

    ``settings`` holds ``resolver``, the name that the user asked for (``gate`` by default).

    >>> @hookimpl
    ... def walshadow_visibility_resolver(status, settings):
    ...     return EverythingResolver() if settings.get("resolver") == "everything" else None
    """


@hookspec(firstresult=True)
def walshadow_destination(url: str, settings: Mapping[str, Any]) -> Destination | None:
    """A destination for ``url`` (``scheme://…``; it may hold a password: never log it).

    ``settings`` holds the ``--to-option`` values.

    >>> @hookimpl
    ... def walshadow_destination(url, settings):
    ...     return ParquetDestination(url, Settings(**settings)) if url.startswith("parquet+") else None
    """


@hookspec(firstresult=True)
def walshadow_type_codec(pg_type: PgType) -> TypeCodec | None:
    """How values of a type are decoded, of which the core knows nothing, or less than you.

    It is asked for every base type that is not Postgres's own, and for the few of those that the core does not decode
    (``aclitem``), wherever a table has them: in a column, an array, a domain, a composite. Your answer goes before the
    core's. A type is best known by its name: its oid and schema are another one in every database.

    The types of the extension ``isn`` are eight bytes, the number times two and a bit that marks a wrong check digit:

    >>> @hookimpl
    ... def walshadow_type_codec(pg_type):
    ...     if pg_type.name not in ("ean13", "isbn13"):
    ...         return None
    ...     return TypeCodec(pa.uint64(), decode_ean, suggested_type="UInt64")
    ...
    >>> def decode_ean(values):
    ...     return pa.array(values.fixed("<u8") >> 1, mask=~values.valid)
    """


@hookspec
def walshadow_register_commands(app: typer.Typer) -> None:
    """Add commands of your own to the ``walshadow`` program.

    >>> @hookimpl
    ... def walshadow_register_commands(app):
    ...     app.add_typer(engine_app, name="engine")
    """


@hookspec
def walshadow_warmup() -> None:
    """Compile your kernels, if you have any, so that the first load on a machine need not.

    >>> @hookimpl
    ... def walshadow_warmup():
    ...     native.warmup()
    """
