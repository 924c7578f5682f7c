"""Each refusal says why and what to do, in one line."""

from __future__ import annotations

import pytest

from walshadow_core.catalog.refusals import Below, closest, no_schema, not_found, refusal, refusal_of_tree
from walshadow_core.catalog.rows import ClassRow


def _row(oid: int = 20000, kind: str = "r", persistence: str = "p", access_method: int = 2) -> ClassRow:
    return ClassRow(oid, "x", 2200, kind, persistence, "d", access_method, oid, 0, 0)


@pytest.mark.parametrize("row", [_row(16384), _row(kind="m"), _row(kind="p", access_method=0)])
def test_what_has_rows_is_not_refused(row: ClassRow) -> None:
    assert refusal(row, "heap") is None


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (_row(kind="v"), "a view"),
        (_row(kind="f"), "foreign table"),
        (_row(kind="S"), "a sequence"),
        (_row(kind="i"), "an index"),
        (_row(kind="I"), "an index"),
        (_row(kind="c"), "composite type"),
        (_row(kind="t"), "TOAST"),
        (_row(kind="?"), "kind '?'"),
        (_row(1259), "system catalog"),
        (_row(persistence="t"), "temporary"),
        (_row(persistence="u"), "SET LOGGED"),
        (_row(kind="p", persistence="u"), "SET LOGGED"),
        (_row(persistence="?"), "persistence '?'"),
        (_row(access_method=20001), "columnar"),
    ],
)
def test_what_is_refused(row: ClassRow, words: str) -> None:
    reason = refusal(row, "columnar")
    assert reason is not None and words in reason and "; " in reason and "\n" not in reason


def test_relations_below() -> None:
    good = Below(("a", "good"), _row(), "heap")
    assert refusal_of_tree([good]) is None and refusal_of_tree([]) is None
    bad = [
        Below(("a", "F"), _row(kind="f"), None),
        Below(("a", "u"), _row(persistence="u"), "heap"),
        Below(("a", "c"), _row(access_method=20001), "columnar"),
    ]
    reason = refusal_of_tree([good, *bad])
    assert reason is not None and "a.good" not in reason
    assert 'a."F" (a foreign table), a.u (unlogged), a.c (access method columnar); ' in reason


def test_close_names() -> None:
    assert closest("order", ["orders", "customers", "Order"]) == ["Order", "orders"]
    assert closest("zzz", ["orders"]) == []
    assert "did you mean app.orders?" in not_found("order", "in schema app", [("app", "orders"), ("app", "x")])
    assert 'did you mean app."Orders"?' in not_found("orders", "in schema app", [("app", "Orders")])
    assert "check its name" in not_found("zzz", "in schema app", [("app", "orders")])
    assert "check its name" in not_found("zzz", "in schema app", [])
    assert "did you mean app?" in no_schema("aap", ["app", "public"])
    assert "check its name" in no_schema("zzz", ["app"])
