"""``--into``: templates, single names, and what is refused."""

from __future__ import annotations

import pytest

from tests.unit.backfill.made import relation
from walshadow_core.api import UsageError
from walshadow_core.backfill.naming import destination_names

ORDERS, ITEMS, OTHER = relation("app.orders", 1), relation("app.items", 2), relation("crm.orders", 3)


def test_the_tables_own_names() -> None:
    assert destination_names([ORDERS, ITEMS], []) == {1: "orders", 2: "items"}


def test_a_template_for_all_and_a_name_for_one() -> None:
    assert destination_names([ORDERS, ITEMS, OTHER], ["{schema}_{table}", "crm.orders=old"]) == {
        1: "app_orders", 2: "app_items", 3: "old",
    }  # fmt: skip
    assert destination_names([ORDERS], ["orders=new"]) == {1: "new"}


def test_placeholders_in_names_are_left_alone() -> None:
    odd = relation("{table}.{schema}", 9)
    assert destination_names([odd], ["{schema}-{table}"]) == {9: "{table}-{schema}"}
    assert destination_names([ORDERS], ["app.orders={table}"]) == {1: "{table}"}


def test_an_equals_sign_is_as_good_as_any_other() -> None:
    odd, short = relation("app.a=b", 9), relation("app.a", 8)
    assert destination_names([odd, short], ["app.a=b=c"]) == {9: "c", 8: "a"}
    assert destination_names([odd, short], ["app.a=x=y"]) == {9: "a=b", 8: "x=y"}
    assert destination_names([ORDERS], ["{table}=1"]) == {1: "orders=1"}


@pytest.mark.parametrize(
    ("into", "words"),
    [
        (["app.orders="], ["empty"]),
        (["nothing"], ["neither"]),
        (["app.absent=x"], ["app.absent", "no such table"]),
        (["orders=x", "{schema}_{table}"], ["app.orders", "crm.orders"]),
        ([], ["app.orders", "crm.orders", "land in orders"]),
        (["app.items=orders", "crm.orders=y"], ["app.orders", "app.items"]),
    ],
)
def test_refused(into: list[str], words: list[str]) -> None:
    with pytest.raises(UsageError) as refused:
        destination_names([ORDERS, ITEMS, OTHER], into)
    for word in words:
        assert word in str(refused.value)
