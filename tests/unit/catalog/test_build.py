"""Rows of the catalog to descriptors, without a server: what the server's own catalogs can't be made to hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from walshadow_core.api import RelationDescriptor, RelFileLocator, TableRefused
from walshadow_core.catalog.build import CatalogBuilder
from walshadow_core.catalog.notices import notices
from walshadow_core.catalog.rows import (
    ARRAY_SUBSCRIPT_HANDLER,
    AttributeRow,
    CatalogRows,
    ClassRow,
    DatabaseRow,
    IndexRow,
    InheritsRow,
    TypeRow,
)
from walshadow_core.catalog.snapshot import describe

_INT = TypeRow(23, "int4", 11, 4, True, "b", ",", 0, 0, 0, "i", 0, -1, 0)
_OF_INT = TypeRow(1007, "_int4", 11, -1, False, "b", ",", 0, ARRAY_SUBSCRIPT_HANDLER, 23, "i", 0, -1, 0)


def _class(oid: int, name: str, kind: str = "r", space: int = 0) -> ClassRow:
    return ClassRow(oid, name, 2200, kind, "p", "d", 0 if kind == "p" else 2, 0 if kind == "p" else oid, space, 0)


def _column(
    relation: int, number: int, name: str, type_: int = 23, not_null: bool = True, **more: bool
) -> AttributeRow:
    return AttributeRow(
        relation, number, name, type_, -1, 4, "i", True, "p", not_null, more.get("dropped", False), "",
        more.get("has_missing", False), 0,
    )  # fmt: skip


def _key(oid: int, relation: int, *columns: int) -> IndexRow:
    return IndexRow(oid, relation, columns, len(columns), True, False, True, True, True, False, False)


def _rows(*classes: ClassRow) -> CatalogRows:
    rows = CatalogRows(DatabaseRow(5, "shop", "UTF8", 1663), {11: "pg_catalog", 2200: "public"})
    rows.types.extend((_INT, _OF_INT))
    rows.classes.extend(classes)
    return rows


def _relation(rows: CatalogRows, oid: int, with_children: bool = False) -> RelationDescriptor:
    return CatalogBuilder(rows).relation(oid, {}, {}, with_children=with_children)


def _tree(kind: str) -> CatalogRows:
    """A root or parent 20000, leaves 20002 (columns the other way round) and 20001."""
    rows = _rows(_class(20000, "root", kind), _class(20002, "two"), _class(20001, "one", space=20009))
    for oid in (20000, 20001):
        rows.attributes.extend((_column(oid, 1, "a"), _column(oid, 2, "b")))
    rows.attributes.extend((_column(20002, 3, "a"), _column(20002, 1, "b"), _column(20002, 2, "", dropped=True)))
    rows.inherits.extend((InheritsRow(20002, 20000, False), InheritsRow(20001, 20000, False)))
    return rows


def test_leaves_in_oid_order_with_their_own_numbers() -> None:
    root = _relation(_tree("p"), 20000)
    assert [leaf.name for leaf in root.stored] == ["one", "two"] and root.key == () == root.system
    assert [leaf.locator for leaf in root.leaves] == [RelFileLocator(20009, 5, 20001), RelFileLocator(1663, 5, 20002)]
    assert [a.number for a in root.leaves[1].columns] == [1, 3]


def test_keys_of_trees() -> None:
    rows = _tree("p")
    rows.indexes.extend((_key(30001, 20001, 2, 1), _key(30002, 20002, 3, 1)))
    root = _relation(rows, 20000)
    assert root.key_names == ("b", "a", "tableoid"), "the same columns, in the first leaf's order"
    rows.indexes.append(_key(30000, 20000, 1))
    assert _relation(rows, 20000).key_names == ("a",)
    rows = _tree("r")
    rows.indexes.extend((_key(30000, 20000, 1), _key(30001, 20001, 1), _key(30002, 20002, 3)))
    assert _relation(rows, 20000).key_names == ("a",) and _relation(rows, 20000).leaves == ()
    parent = _relation(rows, 20000, with_children=True)
    assert [leaf.name for leaf in parent.leaves] == ["root", "one", "two"]
    assert parent.key_names == ("a", "tableoid"), "a parent's key is checked in the parent alone"
    rows.indexes.pop()
    assert _relation(rows, 20000, with_children=True).key == ()


def test_a_child_by_two_ways_is_one_leaf() -> None:
    rows = _tree("r")
    rows.inherits.append(InheritsRow(20002, 20001, False))
    assert [leaf.oid for leaf in _relation(rows, 20000, with_children=True).leaves] == [20000, 20001, 20002]


def test_a_type_made_of_itself_is_refused() -> None:
    rows = _rows(_class(20000, "t"))
    rows.attributes.append(_column(20000, 1, "a", 20100))
    rows.types.append(TypeRow(20100, "loop", 2200, -1, False, "d", ",", 0, 0, 0, "i", 20101, -1, 0))
    rows.types.append(replace(_OF_INT, oid=20101, name="_loop", namespace=2200, element=20100))
    with pytest.raises(TableRefused, match=r"public\.t: type loop is made of itself; leave the table out"):
        _relation(rows, 20000)
    done = describe(CatalogBuilder(rows), {20000: "t"}, {}, {})
    assert done.relations == [] and done.refused[0].name == "t" and "made of itself" in done.refused[0].reason


def test_a_type_that_is_not_there_is_refused() -> None:
    rows = _rows(_class(20000, "t"))
    rows.attributes.append(_column(20000, 1, "a", 999))
    with pytest.raises(TableRefused, match="no type with oid 999"):
        _relation(rows, 20000)


def test_a_missing_value_that_nobody_knows_is_refused() -> None:
    rows = _rows(_class(20000, "t"))
    rows.attributes.append(_column(20000, 1, "a", has_missing=True))
    with pytest.raises(TableRefused, match='column "a" has type integer, of which'):
        _relation(rows, 20000)
    builder = CatalogBuilder(rows)
    assert builder.relation(20000, {}, {(20000, 1): b"\1\0\0\0"}).attributes[0].missing == b"\1\0\0\0"
    assert builder.relation(20000, {}, {(20000, 1): "1"}).attributes[0].missing_text == "1"


def test_relations_that_share_rows_are_refused() -> None:
    builder = CatalogBuilder(_tree("p"))
    done = describe(builder, {20001: "one", 20000: "root"}, {}, {})
    assert done.relations == [] and [name for name, _ in done.refused] == ["one", "root"]
    both = describe(builder, {20001: "one", 20002: "two"}, {}, {})
    assert [r.name for r in both.relations] == ["one", "two"] and both.refused == []


def test_notices() -> None:
    rows = _tree("r")
    rows.indexes.append(_key(30000, 20000, 1))
    parent = _relation(rows, 20000)
    assert notices(parent) == ()
    (left_out,) = notices(parent, ["public.one"])
    assert "FROM ONLY" in left_out and "public.one" in left_out
    (no_old_keys,) = notices(replace(parent, replica_identity="n"))
    assert "logs no old keys (REPLICA IDENTITY NOTHING" in no_old_keys
    (no_key,) = notices(replace(parent, key=(), replica_identity="f"))
    assert "no key (REPLICA IDENTITY FULL)" in no_key
    (view,) = notices(replace(parent, kind="m", key=()))
    assert "REFRESH" in view
    root = _relation(_tree("p"), 20000)
    assert notices(replace(root, leaves=())) == ()
