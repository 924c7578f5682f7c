"""What walshadow sees of this package: three hooks and the settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from walshadow_core.api import Destination, PluginInfo, hookimpl
from walshadow_sink_parquet.destination import ParquetDestination
from walshadow_sink_parquet.settings import PREFIX, Settings


@hookimpl
def walshadow_plugin_info() -> PluginInfo:
    """A scheme that ends in ``+`` claims every scheme that begins so: ``parquet+file``, ``parquet+s3``…"""
    return PluginInfo(
        name="sink-parquet",
        summary="Parquet files on any fsspec file system",
        schemes=(PREFIX,),
        settings=Settings,
    )


@hookimpl
def walshadow_destination(url: str, settings: Mapping[str, Any]) -> Destination | None:
    """A ParquetDestination for URLs of ours, None for others. Raises UsageError for one that can't be."""
    if not url.lower().startswith(PREFIX):
        return None
    return ParquetDestination(url, Settings.model_validate(dict(settings)))
