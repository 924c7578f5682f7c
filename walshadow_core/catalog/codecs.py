"""Which types of a relation a plugin decodes: asked once the catalog is read, as the catalog knows no plugins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from walshadow_core.api import Attribute, PgType, RelationDescriptor, TypeCodec
from walshadow_core.decode.types import CODECS

Ask = Callable[[PgType], TypeCodec | None]


def with_codecs(relations: Sequence[RelationDescriptor], ask: Ask) -> tuple[RelationDescriptor, ...]:
    """The relations with ``PgType.codec`` filled in, at any depth. ``ask`` hears of each base type once that is not
    Postgres's own, or that the core does not decode."""
    filler = _Filler(ask)
    return tuple(filler.relation(r) for r in relations)


class _Filler:
    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._types: dict[PgType, PgType] = {}

    def relation(self, relation: RelationDescriptor) -> RelationDescriptor:
        leaves = tuple(self.relation(leaf) for leaf in relation.leaves)
        return replace(relation, attributes=self._attributes(relation.attributes), leaves=leaves)

    def _attributes(self, attributes: tuple[Attribute, ...]) -> tuple[Attribute, ...]:
        return tuple(a if a.type is None else replace(a, type=self._type(a.type)) for a in attributes)

    def _type(self, known: PgType) -> PgType:
        if known not in self._types:
            self._types[known] = self._filled(known)
        return self._types[known]

    def _filled(self, known: PgType) -> PgType:
        if known.kind == "b" and known.element is None:
            return known if known.oid in CODECS else replace(known, codec=self._ask(known))
        return replace(
            known,
            element=self._part(known.element),
            base=self._part(known.base),
            fields=self._attributes(known.fields),
            subtype=self._part(known.subtype),
            range=self._part(known.range),
        )

    def _part(self, part: PgType | None) -> PgType | None:
        return None if part is None else self._type(part)
