"""Domains: stored as what they are made of."""

from __future__ import annotations

from dataclasses import replace

from walshadow_core.api import TableRefused
from walshadow_core.decode.columns import Codec, Codecs, ContainerMaker, TypeUse


def _base(use: TypeUse) -> TypeUse:
    base = use.type.base
    if base is None:
        raise TableRefused(f'column "{use.column}": what the domain {use.type_name} is made of is not known')
    return replace(use, type=base, typmod=use.type.base_typmod)


def _native(use: TypeUse, codecs: Codecs) -> Codec:
    return codecs.native(_base(use))


def _text(use: TypeUse, codecs: Codecs) -> Codec:
    return codecs.text(_base(use))


CONTAINERS: dict[str, ContainerMaker] = {"d": _native}
CONTAINER_TEXTS: dict[str, ContainerMaker] = {"d": _text}
"""By PgType.kind."""
