"""Whether the rows of a backup's catalogs fit together. A server's snapshot always does; a copy may be damaged, or may
have been taken while DDL ran."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from walshadow_core.api import FormatError, SourceError
from walshadow_core.catalog.files.scan import CHANGED, TAKE_ANOTHER
from walshadow_core.catalog.rows import CatalogRows
from walshadow_core.decode.deform import ALIGNMENTS, CSTRING

_STORAGES = "pemx"
_REMEDY = "the backup is damaged: take another"


def check(rows: CatalogRows, relations: Collection[int]) -> None:
    """Raises FormatError for a value that no catalog has, SourceError for a row that another one names and that is not
    there. ``relations`` are the oids of the relations that descriptors will be made of."""
    _check_layouts(rows)
    classes = {row.oid: row for row in rows.classes}
    for oid in relations:
        if oid not in classes:
            raise _lost("pg_class", oid, "pg_inherits")
        if (toast := classes[oid].toast) and toast not in classes:
            raise _lost("pg_class", toast, "pg_class")
    types = {row.oid for row in rows.types}
    for namespace in {row.namespace for row in rows.classes} | {row.namespace for row in rows.types}:
        if namespace not in rows.namespaces:
            raise _lost("pg_namespace", namespace, "pg_class or pg_type")
    for attribute in rows.attributes:
        if not attribute.dropped and attribute.type not in types:
            raise _lost("pg_type", attribute.type, "pg_attribute")
    ranges = {row.type: row.subtype for row in rows.ranges}
    multiranges = {row.multirange: row.type for row in rows.ranges}
    for type_ in rows.types:
        if type_.kind == "r" and type_.oid not in ranges:
            raise _lost("pg_range", type_.oid, "pg_type")
        if type_.kind == "m" and type_.oid not in multiranges:
            raise _lost("pg_range", type_.oid, "pg_type")
    _check_indexes(rows)


def _check_layouts(rows: CatalogRows) -> None:
    types = {t.oid: (t.length, t.alignment, t.by_value) for t in rows.types}
    for oid, (length, alignment, _) in types.items():
        if alignment not in ALIGNMENTS or length < CSTRING or length == 0:
            raise FormatError(f"pg_type has length {length} and alignment {alignment!r} for type {oid}", _REMEDY)
    for a in rows.attributes:
        sound = a.alignment in ALIGNMENTS and a.storage in _STORAGES and a.length >= CSTRING and a.length != 0
        as_type = a.dropped or a.type not in types or types[a.type] == (a.length, a.alignment, a.by_value)
        if not sound or not as_type:
            raise FormatError(
                f"pg_attribute has length {a.length}, alignment {a.alignment!r} and storage {a.storage!r} for "
                f"attribute {a.number} of relation {a.relation}, which its type has not",
                _REMEDY,
            )


def _check_indexes(rows: CatalogRows) -> None:
    numbers: defaultdict[int, set[int]] = defaultdict(set)
    for attribute in rows.attributes:
        if not attribute.dropped:
            numbers[attribute.relation].add(attribute.number)
    for index in rows.indexes:
        key = index.columns[: index.key_columns]
        if index.key_columns < 1 or len(key) != index.key_columns:
            raise FormatError(f"pg_index says that index {index.oid} has {index.key_columns} key columns", TAKE_ANOTHER)
        if not {number for number in key if number > 0} <= numbers[index.relation]:
            raise SourceError(f"{CHANGED}: index {index.oid} has columns that its table has not", TAKE_ANOTHER)


def _lost(catalog: str, oid: int, of: str) -> SourceError:
    return SourceError(f"{CHANGED}: {catalog} has no row for oid {oid}, which {of} names", TAKE_ANOTHER)
