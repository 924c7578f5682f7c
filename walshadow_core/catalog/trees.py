"""Partition roots and inheritance trees: many relations with rows, one relation with columns and a key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from walshadow_core.api import Attribute, PgType, RelationDescriptor

_OID = PgType(26, "pg_catalog", "oid", "b", 4, "i", True)

TABLEOID = Attribute(-6, "tableoid", _OID.oid, "oid", -1, 4, "i", True, "p", True, type=_OID)
"""The system column (TableOidAttributeNumber in ``access/sysattr.h``): which relation a row came from."""


def merged(root: RelationDescriptor, below: Sequence[RelationDescriptor]) -> RelationDescriptor:
    """``root`` with the rows of ``below``, and its own first where it has some (an inheritance parent).

    A partitioned table's key is checked over all leaves, as it has the partition key's columns in it. Any other key
    is checked in each leaf alone: it tells rows apart only together with the leaf's oid.
    """
    leaves = tuple(below) if root.kind == "p" else (root, *below)
    size = sum(leaf.size_bytes for leaf in leaves)
    not_null = [{a.name for a in leaf.attributes if a.not_null} for leaf in leaves]
    attributes = tuple(
        replace(a, not_null=a.not_null and all(a.name in names for names in not_null)) for a in root.attributes
    )
    whole = replace(root, attributes=attributes, leaves=leaves, size_bytes=size)
    if not leaves or (root.kind == "p" and root.key):
        return whole
    key = _common_key(root, leaves)
    if not key:
        return replace(whole, key=())
    return replace(whole, key=(*key, TABLEOID.number), system=(TABLEOID,))


def _common_key(root: RelationDescriptor, leaves: Sequence[RelationDescriptor]) -> tuple[int, ...]:
    """The numbers in ``root`` of what is each leaf's key, in the first leaf's order; () if their keys differ."""
    first = leaves[0].key_names
    if any(set(leaf.key_names) != set(first) for leaf in leaves):
        return ()
    numbers = {a.name: a.number for a in root.attributes if not a.dropped}
    return tuple(numbers[name] for name in first) if numbers.keys() >= set(first) else ()
