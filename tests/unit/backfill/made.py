"""Descriptors and plans for tests that need no server."""

from __future__ import annotations

from walshadow_core.api import Attribute, RelationDescriptor, RelFileLocator, TablePlan


def relation(qualified: str, oid: int = 16384, size: int = 0) -> RelationDescriptor:
    """``schema.table`` with one int column that is its key."""
    schema, _, name = qualified.partition(".")
    attribute = Attribute(1, "id", 23, "integer", -1, 4, "i", True, "p", True)
    return RelationDescriptor(
        oid,
        "db",
        schema,
        name,
        RelFileLocator(1663, 5, oid),
        "r",
        "p",
        "d",
        (1,),
        (attribute,),
        "UTF8",
        size_bytes=size,
    )


def plan(table: str, *, exists: bool) -> TablePlan:
    """A plan into ``table``."""
    return TablePlan(relation(f"public.{table}"), table, f"{table}__staging", exists, (), "")
