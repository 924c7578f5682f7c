"""What makes a walked copy void: DDL on the table, or on any relation that has its rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.backfill.made import relation
from walshadow_core.api import RelationDescriptor, RelFileLocator
from walshadow_core.backfill.exactness import void

TABLE = replace(relation("app.t"), toast_oid=16390, toast_locator=RelFileLocator(1663, 5, 16390))
ROOT = replace(relation("app.root", 16400), kind="p", leaves=(TABLE, relation("app.u", 16401)))
ELSEWHERE = RelFileLocator(1663, 5, 20000)


def _with_leaf(**changes: object) -> RelationDescriptor:
    return replace(ROOT, leaves=(replace(TABLE, **changes), ROOT.leaves[1]))  # type: ignore[arg-type]


@pytest.mark.parametrize("before", [TABLE, ROOT])
def test_growth_alone_is_no_reason(before: RelationDescriptor) -> None:
    leaves = tuple(replace(leaf, size_bytes=99) for leaf in before.leaves)
    assert void(before, replace(before, size_bytes=8192, leaves=leaves)) is None


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (TABLE, None, "app.t was dropped or renamed"),
        (TABLE, replace(TABLE, locator=ELSEWHERE), "app.t was rewritten"),
        (TABLE, replace(TABLE, toast_locator=ELSEWHERE), "app.t was rewritten"),
        (TABLE, replace(TABLE, key=()), "app.t was altered"),
        (ROOT, None, "app.root was dropped or renamed"),
        (ROOT, _with_leaf(locator=ELSEWHERE), "app.t was rewritten while the backup ran (TRUNCATE"),
        (ROOT, _with_leaf(toast_locator=ELSEWHERE), "app.t was rewritten"),
        (ROOT, _with_leaf(key=()), "app.root was altered"),
        (ROOT, replace(ROOT, leaves=ROOT.leaves[1:]), "app.root: a table below it came or went"),
        (ROOT, replace(ROOT, leaves=(*ROOT.leaves, relation("app.v", 16402))), "came or went"),
        (ROOT, replace(ROOT, leaves=()), "came or went"),
    ],
)
def test_what_voids(before: RelationDescriptor, after: RelationDescriptor | None, reason: str) -> None:
    found = void(before, after)
    assert found is not None and reason in found
