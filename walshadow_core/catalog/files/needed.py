"""The rows that some relations need, and no others: a catalog can have millions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from walshadow_core.catalog.files.columns import PG_NAMESPACE
from walshadow_core.catalog.files.consistent import check
from walshadow_core.catalog.files.database import DatabaseCatalogs
from walshadow_core.catalog.rows import (
    ARRAY_SUBSCRIPT_HANDLER,
    AttributeRow,
    CatalogRows,
    ClassRow,
    InheritsRow,
    RangeRow,
    TypeRow,
)


@dataclass(frozen=True)
class Needed:
    """The rows, and the missing values in on-disk form by (relation, attribute number)."""

    rows: CatalogRows
    missing: dict[tuple[int, int], bytes]


def read_needed(catalogs: DatabaseCatalogs, asked: Collection[int], namespaces: dict[int, bytes]) -> Needed:
    """All that descriptors of the relations ``asked`` are made of: see CatalogRows."""
    inherits = catalogs.inherits()
    classes = _with_toast(catalogs, _with_descendants(asked, inherits))
    oids = {row.oid for row in classes if row.kind != "t"}
    ranges = catalogs.ranges()
    attributes, missing = catalogs.attributes(oids)
    types, fields = _closure(catalogs, attributes, ranges, oids)
    used = {row.namespace for row in classes} | {row.namespace for row in types}
    rows = CatalogRows(
        database=catalogs.database,
        namespaces={oid: catalogs.text(name, PG_NAMESPACE) for oid, name in namespaces.items() if oid in used},
        access_methods=catalogs.access_methods(),
        classes=classes,
        attributes=attributes + fields,
        types=types,
        enums=catalogs.enums([row.oid for row in types if row.kind == "e"]),
        ranges=ranges,
        indexes=catalogs.indexes(oids),
        inherits=inherits,
        unvalidated=catalogs.unvalidated(oids),
    )
    check(rows, oids)
    return Needed(rows, missing)


def _with_descendants(asked: Collection[int], inherits: list[InheritsRow]) -> set[int]:
    children: dict[int, list[int]] = {}
    for edge in inherits:
        children.setdefault(edge.parent, []).append(edge.child)
    found: set[int] = set()
    waiting = list(asked)
    while waiting:
        oid = waiting.pop()
        if oid not in found:
            found.add(oid)
            waiting += children.get(oid, [])
    return found


def _with_toast(catalogs: DatabaseCatalogs, oids: Collection[int]) -> list[ClassRow]:
    classes = catalogs.classes(oids)
    return classes + catalogs.classes({row.toast for row in classes} - {0} - set(oids))


def _closure(
    catalogs: DatabaseCatalogs, attributes: list[AttributeRow], ranges: list[RangeRow], known: Collection[int]
) -> tuple[list[TypeRow], list[AttributeRow]]:
    """The types of these attributes with all that they are made of, and the attributes of composite ones, but for
    those of the relations ``known``."""
    subtypes = {row.type: row.subtype for row in ranges}
    of_multirange = {row.multirange: row.type for row in ranges}
    types: dict[int, TypeRow] = {}
    fields: list[AttributeRow] = []
    wanted = {row.type for row in attributes if not row.dropped}
    while wanted:
        found = catalogs.types(wanted)
        types |= {row.oid: row for row in found}
        more, _ = catalogs.attributes({row.relation for row in found if row.kind == "c"} - set(known))
        fields += more
        wanted = {row.type for row in more if not row.dropped}
        for row in found:
            if row.kind == "b" and row.subscript == ARRAY_SUBSCRIPT_HANDLER:
                wanted.add(row.element)
            wanted |= {row.base, subtypes.get(row.oid, 0), of_multirange.get(row.oid, 0)}
        wanted -= {0, *types}
    return list(types.values()), fields
