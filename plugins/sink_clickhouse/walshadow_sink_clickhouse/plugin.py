"""The hooks of the ClickHouse destination."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from walshadow_core.api import Destination, PluginInfo, hookimpl
from walshadow_sink_clickhouse.settings import Settings
from walshadow_sink_clickhouse.url import SCHEMES, is_ours, parse_url


@hookimpl
def walshadow_plugin_info() -> PluginInfo:
    """What this plugin is."""
    return PluginInfo(
        name="sink-clickhouse",
        summary="ClickHouse over HTTP, or embedded (chDB)",
        schemes=SCHEMES,
        settings=Settings,
    )


@hookimpl
def walshadow_destination(url: str, settings: Mapping[str, Any]) -> Destination | None:
    """A destination for clickhouse://, clickhouses:// and chdb:// URLs. Connects at first use."""
    if not is_ours(url):
        return None
    target = parse_url(url, settings)
    from walshadow_sink_clickhouse.destination import ClickHouseDestination

    return ClickHouseDestination(target)


@hookimpl
def walshadow_register_commands(app: typer.Typer) -> None:
    """Add ``walshadow engine``."""
    from walshadow_sink_clickhouse.commands import engine_app

    app.add_typer(engine_app, name="engine")


@hookimpl
def walshadow_warmup() -> None:
    """Compile the kernels."""
    from walshadow_sink_clickhouse.kernels import warmup

    warmup()
