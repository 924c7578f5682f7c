"""Domains: stored as what they are made of."""

from __future__ import annotations

from dataclasses import replace

from walshadow_core.api import TableRefused
from walshadow_core.decode.columns import Codec, Codecs, ContainerMaker, TypeUse


def base_use(use: TypeUse) -> TypeUse:
    """The use of what a domain is made of."""
    base = use.type.base
    if base is None:
        raise TableRefused(f'column "{use.column}": what the domain {use.type_name} is made of is not known')
    return replace(use, type=base, typmod=use.type.base_typmod, dimensions=use.type.base_dimensions)


def _native(use: TypeUse, codecs: Codecs) -> Codec:
    return codecs.native(base_use(use))


def _text(use: TypeUse, codecs: Codecs) -> Codec:
    return codecs.text(base_use(use))


CONTAINERS: dict[str, ContainerMaker] = {"d": _native}
CONTAINER_TEXTS: dict[str, ContainerMaker] = {"d": _text}
"""By PgType.kind."""
