"""Rows of the catalog to types and relation descriptors. No I/O: where the rows came from does not matter here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from walshadow_core.api import Attribute, PgType, RelationDescriptor, RelFileLocator, TableRefused
from walshadow_core.catalog.keys import choose_key
from walshadow_core.catalog.refusals import Below, refusal, refusal_of_tree
from walshadow_core.catalog.rows import ARRAY_SUBSCRIPT_HANDLER, AttributeRow, CatalogRows, ClassRow, IndexRow, TypeRow
from walshadow_core.catalog.trees import merged
from walshadow_core.catalog.type_names import format_type

Missing = Mapping[tuple[int, int], bytes | str]
"""The missing values by (relation oid, attribute number): in on-disk form, or where that can't be had as text."""


class CatalogBuilder:
    """Makes descriptors of the rows of one database. Types are made once and shared."""

    def __init__(self, rows: CatalogRows) -> None:
        self._rows = rows
        self._classes = {row.oid: row for row in rows.classes}
        self._types = {row.oid: row for row in rows.types}
        self._subtypes = {row.type: row.subtype for row in rows.ranges}
        self._ranges = {row.multirange: row.type for row in rows.ranges}
        self._attributes: defaultdict[int, list[AttributeRow]] = defaultdict(list)
        for attribute in sorted(rows.attributes, key=lambda row: row.number):
            self._attributes[attribute.relation].append(attribute)
        self._labels: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
        for enum in sorted(rows.enums, key=lambda row: row.order):
            self._labels[enum.type].append((enum.oid, enum.label))
        self._indexes: defaultdict[int, list[IndexRow]] = defaultdict(list)
        for index in sorted(rows.indexes, key=lambda row: row.oid):
            self._indexes[index.relation].append(index)
        self._children: defaultdict[int, list[int]] = defaultdict(list)
        for edge in rows.inherits:
            if not edge.detach_pending:
                self._children[edge.parent].append(edge.child)
        self._unvalidated = {(row.relation, row.number) for row in rows.unvalidated}
        self._made: dict[int, PgType] = {}
        self._making: list[int] = []

    # -- relations

    def name_of(self, oid: int) -> tuple[str, str]:
        """(schema, name) of a relation."""
        row = self._classes[oid]
        return self._rows.namespaces[row.namespace], row.name

    def refusal(self, oid: int, *, with_children: bool = False) -> str | None:
        """Why this relation can't be loaded, with those below it where they belong to it; None if it can."""
        row = self._classes[oid]
        if reason := refusal(row, self._access_method(row)):
            return reason
        if row.kind != "p" and not with_children:
            return None
        classes = [self._classes[o] for o in self.below(oid)]
        return refusal_of_tree(Below(self.name_of(c.oid), c, self._access_method(c)) for c in classes)

    def _access_method(self, row: ClassRow) -> str | None:
        number = row.access_method
        return self._rows.access_methods.get(number, f"number {number}") if number else None

    def below(self, oid: int) -> list[int]:
        """The oids of the relations with rows that a query of this one reads too, in oid order: at any depth, without
        partitions that are being detached, and without temporary tables (of whoever)."""
        found: set[int] = set()
        waiting = list(self._children[oid])
        while waiting:
            child = waiting.pop()
            if child not in found:
                found.add(child)
                waiting += self._children[child]
        return sorted(o for o in found if self._classes[o].kind != "p" and self._classes[o].persistence != "t")

    def relation(
        self, oid: int, sizes: Mapping[int, int], missing: Missing, *, with_children: bool = False
    ) -> RelationDescriptor:
        """The descriptor of a relation, a partitioned table's with its leaves; ``with_children``: an ordinary
        table's with itself and those that inherit from it as leaves.

        ``sizes`` are bytes of the main forks. Raises TableRefused for a missing value that is not in ``missing``,
        and for a type that can't be described.
        """
        own = self._single(oid, sizes, missing)
        leaves = [self._single(leaf, sizes, missing) for leaf in self.stored(oid, with_children) if leaf != oid]
        return merged(own, leaves) if leaves or own.kind == "p" else own

    def stored(self, oid: int, with_children: bool) -> list[int]:
        """The oids of the relations whose files hold the rows of ``relation()``."""
        if self._classes[oid].kind == "p":
            return self.below(oid)
        return [oid, *(self.below(oid) if with_children else [])]

    def _single(self, oid: int, sizes: Mapping[int, int], missing: Missing) -> RelationDescriptor:
        row = self._classes[oid]
        schema, name = self.name_of(oid)
        try:
            attributes = tuple(self._attribute(a, missing) for a in self._attributes[oid])
        except TableRefused as refused:
            raise TableRefused(f"{schema}.{name}: {refused.message}", refused.remedy) from None
        not_null = {a.number for a in attributes if a.not_null}
        return RelationDescriptor(
            oid=oid,
            database=self._rows.database.name,
            schema=schema,
            name=name,
            locator=self._locator(row),
            kind=row.kind,
            persistence=row.persistence,
            replica_identity=row.replica_identity,
            key=choose_key(row.replica_identity, self._indexes[oid], not_null),
            attributes=attributes,
            encoding=self._rows.database.encoding,
            toast_oid=row.toast,
            toast_locator=self._locator(self._classes[row.toast]) if row.toast else None,
            size_bytes=sizes.get(oid, 0),
        )

    def _locator(self, row: ClassRow) -> RelFileLocator:
        database = self._rows.database
        return RelFileLocator(row.tablespace or database.tablespace, database.oid, row.number)

    def _attribute(self, row: AttributeRow, missing: Missing | None = None) -> Attribute:
        type_ = None if row.dropped else self.type(row.type)
        type_name = "" if type_ is None else format_type(type_, row.typmod)
        value = missing.get((row.relation, row.number)) if missing and row.has_missing and not row.dropped else None
        if missing is not None and value is None and row.has_missing and not row.dropped:
            raise TableRefused(
                f'column "{row.name}" has type {type_name}, of which the value for rows that are older than the column '
                "can't be read",
                "rewrite the table (VACUUM FULL), or leave it out",
            )
        return Attribute(
            number=row.number,
            name=row.name,
            type_oid=row.type,
            type_name=type_name,
            typmod=row.typmod,
            length=row.length,
            alignment=row.alignment,
            by_value=row.by_value,
            storage=row.storage,
            not_null=row.not_null and (row.relation, row.number) not in self._unvalidated,
            dropped=row.dropped,
            generated=row.generated,
            missing=value if isinstance(value, bytes) else None,
            missing_text=value if isinstance(value, str) else None,
            dimensions=row.dimensions,
            type=type_,
        )

    # -- types

    def type(self, oid: int) -> PgType:
        """The type with that oid. Raises TableRefused for one that is made of itself."""
        made = self._made.get(oid)
        if made is None:
            row = self._types.get(oid)
            if row is None:
                raise TableRefused(f"there is no type with oid {oid}", "check the source's catalog with pg_amcheck")
            if oid in self._making:
                raise TableRefused(f"type {row.name} is made of itself", "leave the table out")
            self._making.append(oid)
            try:
                made = self._made[oid] = self._type(row)
            finally:
                self._making.pop()
        return made

    def _type(self, row: TypeRow) -> PgType:
        plain = PgType(
            oid=row.oid,
            schema=self._rows.namespaces[row.namespace],
            name=row.name,
            kind=row.kind,
            length=row.length,
            alignment=row.alignment,
            by_value=row.by_value,
            delimiter=row.delimiter,
        )
        match row.kind:
            case "b" if row.subscript == ARRAY_SUBSCRIPT_HANDLER and row.element:
                return replace(plain, element=self.type(row.element))
            case "d":
                return replace(
                    plain,
                    base=self.type(row.base),
                    base_typmod=row.base_typmod,
                    base_dimensions=row.base_dimensions,
                )
            case "e":
                return replace(plain, labels=tuple(self._labels[row.oid]))
            case "c":
                return replace(plain, fields=tuple(self._attribute(a) for a in self._attributes[row.relation]))
            case "r":
                return replace(plain, subtype=self.type(self._subtypes[row.oid]))
            case "m":
                return replace(plain, range=self.type(self._ranges[row.oid]))
            case _:
                return plain
