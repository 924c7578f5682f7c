"""The hooks of this plugin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from walshadow_core.api import BackupSource, PluginInfo, hookimpl
from walshadow_source_basebackup.settings import MODE, Settings, parse_settings


@hookimpl
def walshadow_plugin_info() -> PluginInfo:
    """Name, mode and settings."""
    return PluginInfo(
        name="source-basebackup",
        summary="A base backup of a running Postgres (15 and later), over a replication connection",
        modes=(MODE,),
        settings=Settings,
    )


@hookimpl
def walshadow_backup_source(mode: str, settings: Mapping[str, Any]) -> BackupSource | None:
    """A source for mode ``base_backup``. Raises UsageError for options that make no sense."""
    if mode != MODE:
        return None
    from walshadow_source_basebackup.source import BaseBackupSource

    return BaseBackupSource(parse_settings(settings))
