"""Each refusal says why and what to do, in one line."""

from __future__ import annotations

import pytest

from walshadow_core.catalog.refusals import closest, no_schema, not_found, refusal


def test_an_ordinary_table_is_not_refused() -> None:
    assert refusal(16384, "r", "p", "heap", []) is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((20000, "v", "p", None, []), "a view"),
        ((20000, "m", "p", "heap", []), "a materialized view"),
        ((20000, "f", "p", None, []), "foreign table"),
        ((20000, "S", "p", None, []), "a sequence"),
        ((20000, "i", "p", "btree", []), "an index"),
        ((20000, "I", "p", "btree", []), "an index"),
        ((20000, "c", "p", None, []), "composite type"),
        ((20000, "t", "p", "heap", []), "TOAST"),
        ((20000, "?", "p", None, []), "kind '?'"),
        ((20000, "p", "p", None, [("a", "b"), ("a", "C d")]), 'name its leaves for now: a.b, a."C d"'),
        ((20000, "p", "p", None, []), "no partitions"),
        ((1259, "r", "p", "heap", []), "system catalog"),
        ((20000, "r", "t", "heap", []), "temporary"),
        ((20000, "r", "u", "heap", []), "SET LOGGED"),
        ((20000, "r", "?", "heap", []), "persistence '?'"),
        ((20000, "r", "p", "columnar", []), "columnar"),
        ((20000, "r", "p", "heap", [("a", "child")]), "a.child"),
    ],
)
def test_what_is_refused(arguments: tuple[int, str, str, str | None, list[tuple[str, str]]], words: str) -> None:
    reason = refusal(*arguments)
    assert reason is not None and words in reason and "; " in reason and "\n" not in reason


def test_close_names() -> None:
    assert closest("order", ["orders", "customers", "Order"]) == ["Order", "orders"]
    assert closest("zzz", ["orders"]) == []
    assert "did you mean app.orders?" in not_found("order", "in schema app", [("app", "orders"), ("app", "x")])
    assert 'did you mean app."Orders"?' in not_found("orders", "in schema app", [("app", "Orders")])
    assert "check its name" in not_found("zzz", "in schema app", [("app", "orders")])
    assert "check its name" in not_found("zzz", "in schema app", [])
    assert "did you mean app?" in no_schema("aap", ["app", "public"])
    assert "check its name" in no_schema("zzz", ["app"])
