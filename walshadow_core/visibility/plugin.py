"""The core's own gate as a plugin named ``gate``: it answers last, and only to its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from walshadow_core.api import PluginInfo, TransactionStatus, VisibilityResolver, hookimpl

NAME = "gate"


@hookimpl
def walshadow_plugin_info() -> PluginInfo:
    """The gate has no settings."""
    return PluginInfo(
        name=NAME,
        summary="Decides which tuples are rows: hint bits, then pg_xact and pg_multixact",
        resolvers=(NAME,),
    )


@hookimpl(trylast=True)
def walshadow_visibility_resolver(status: TransactionStatus, settings: Mapping[str, Any]) -> VisibilityResolver | None:
    """The gate over ``status``, unless ``settings`` asks for a resolver of another name."""
    if settings.get("resolver", NAME) != NAME:
        return None
    # the gate brings Numba with it, which a listing of plugins need not wait for
    from walshadow_core.visibility.gate import Gate

    return Gate(status)


@hookimpl
def walshadow_warmup() -> None:
    """Compile the kernels of gate and spool."""
    from walshadow_core.visibility.warmup import warmup

    warmup()
