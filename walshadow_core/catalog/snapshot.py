"""What one look at a catalog gives for the tables that were asked for, wherever its rows came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from walshadow_core.api import RelationDescriptor, TableRefused
from walshadow_core.catalog.build import CatalogBuilder, Missing
from walshadow_core.catalog.names import printable_name
from walshadow_core.catalog.notices import notices
from walshadow_core.catalog.refusals import Refusal, shares_rows


@dataclass
class Described:
    """The descriptors, in the order in which the tables were asked for; the names that can't be had; and what to
    tell the user about each relation, by its oid."""

    relations: list[RelationDescriptor] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    notices: dict[int, tuple[str, ...]] = field(default_factory=dict)


def describe(
    builder: CatalogBuilder,
    asked: Mapping[int, str],
    sizes: Mapping[int, int],
    missing: Missing,
    *,
    with_children: bool = False,
) -> Described:
    """Describe the relations of ``asked`` (what was written, by oid), which `CatalogBuilder.refusal` lets pass."""
    done = Described()
    for oid, text in asked.items():
        try:
            relation = builder.relation(oid, sizes, missing, with_children=with_children)
        except TableRefused as refused:
            done.refused.append(Refusal(text, str(refused)))
            continue
        left_out = [] if relation.leaves or relation.kind == "p" else builder.below(oid)
        done.relations.append(relation)
        done.notices[oid] = notices(relation, [printable_name(*builder.name_of(o)) for o in left_out])
    _refuse_shared(done, asked)
    return done


def _refuse_shared(done: Described, asked: Mapping[int, str]) -> None:
    """Refuse relations that have rows of one file: a root and one of its own leaves, say."""
    owners: dict[int, RelationDescriptor] = {}
    reasons: dict[int, str] = {}
    for relation in done.relations:
        for stored in relation.stored:
            other = owners.setdefault(stored.oid, relation)
            if other is not relation:
                reason = shares_rows(asked[other.oid], asked[relation.oid])
                reasons.setdefault(other.oid, reason)
                reasons.setdefault(relation.oid, reason)
    done.relations = [r for r in done.relations if r.oid not in reasons]
    done.refused += [Refusal(asked[oid], reason) for oid, reason in reasons.items()]
