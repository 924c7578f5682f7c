"""Table names are read as Postgres reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walshadow_core.api import UsageError
from walshadow_core.catalog.names import (
    QualifiedName,
    parse_qualified,
    printable,
    printable_name,
    quote_identifier,
)


@pytest.mark.parametrize(
    ("text", "schema", "name"),
    [
        ("orders", None, "orders"),
        ("app.orders", "app", "orders"),
        ("App.ORDERS", "app", "orders"),
        (' app . "Order Lines" ', "app", "Order Lines"),
        ('"Weird ""name"""', None, 'Weird "name"'),
        ('"a.b"."c.d"', "a.b", "c.d"),
        ("straße.Ärger", "straße", "Ärger"),
        ("_x$1", None, "_x$1"),
        ('"order"', None, "order"),
        ("表", None, "表"),
        ('"back\\slash".x', "back\\slash", "x"),
    ],
)
def test_names_that_are_names(text: str, schema: str | None, name: str) -> None:
    assert parse_qualified(text) == QualifiedName(None, schema, name)


def test_a_database_may_stand_before() -> None:
    assert parse_qualified('shop."App".x') == QualifiedName("shop", "App", "x")


@pytest.mark.parametrize(
    "text",
    ["", " ", ".", "app.", ".x", "a..b", '"x', '""', 'a.""', "a.b.c.d", "1x", "my-table", "a b", '"a"b', "a;b",
     "a\0b", "\udc80", "$x", "U&\"x\"", "it's"],
)  # fmt: skip
def test_texts_that_are_no_names(text: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_qualified(text)
    assert error.value.exit_code == 2
    assert "\n" not in str(error.value)


_ANY_NAME = st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), min_size=1)


@given(_ANY_NAME, _ANY_NAME)
def test_what_is_printed_reads_back(schema: str, name: str) -> None:
    assert parse_qualified(printable_name(schema, name)) == QualifiedName(None, schema, name)
    assert parse_qualified(quote_identifier(name)) == QualifiedName(None, None, name)
    assert parse_qualified(str(QualifiedName("db", schema, name))) == QualifiedName("db", schema, name)


def test_quotes_only_where_they_are_needed() -> None:
    assert [printable(n) for n in ("orders", "Orders", "a b", 'a"b')] == ["orders", '"Orders"', '"a b"', '"a""b"']
    assert quote_identifier("orders") == '"orders"'
