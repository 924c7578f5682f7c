"""What a user says about columns, against a catalog: found, or refused with what was likely meant."""

from __future__ import annotations

import pytest

from walshadow_core.api import Attribute, ColumnChoice, RelationDescriptor, RelFileLocator, UsageError
from walshadow_core.catalog.choices import Choices, ColumnWords, read_choices
from walshadow_core.catalog.names import ColumnName, parse_column


def attribute(number: int, name: str, **facts: object) -> Attribute:
    return Attribute(number, name, 25, "text", -1, -1, "i", False, "x", False, **facts)  # type: ignore[arg-type]


def relation(schema: str, name: str, *columns: Attribute, oid: int = 16385, leaves: object = ()) -> RelationDescriptor:
    locator = RelFileLocator(1663, 16384, oid)
    return RelationDescriptor(
        oid, "shop", schema, name, locator, "r", "p", "d", (1,), columns, "UTF8", leaves=leaves  # type: ignore[arg-type]
    )  # fmt: skip


ORDERS = relation(
    "app",
    "orders",
    attribute(1, "id"),
    attribute(2, "note"),
    attribute(3, "Ämount = x"),
    attribute(4, "virtual", generated="v"),
    attribute(5, "gone", dropped=True),
)
ITEMS = relation("app", "items", attribute(1, "id"), attribute(2, "note"), oid=16390)
OTHER = relation("old", "items", attribute(1, "id"), oid=16391)
ALL = (ORDERS, ITEMS, OTHER)


def read(exclude: str = "", kind: str = "", not_null: str = "", nullable: str = "", refused: bool = False) -> Choices:
    words = ([word] if word else [] for word in (exclude, kind, not_null, nullable))
    return read_choices(ColumnWords(*words), ALL, refused)


def test_names_of_columns() -> None:
    assert parse_column("Orders.Note") == (ColumnName(None, "orders", "note"), None)
    assert parse_column('app."O.x" . "a=b" = Decimal(38,4)') == (ColumnName("app", "O.x", "a=b"), "Decimal(38,4)")
    assert str(parse_column('app."O.x".c=')[0]) == 'app."O.x".c'
    for text in ("note", "a.b.c.d", "a.b-c", "", "a..b", "=x", 'a."b'):
        with pytest.raises(UsageError, match="is not a column name"):
            parse_column(text)


def test_columns_that_are_left_out() -> None:
    """Leaves are without them too, whatever the order of their columns."""
    chosen = read(exclude="app.orders.note")
    assert [a.name for a in chosen.applied(ORDERS).columns] == ["id", "Ämount = x"]
    assert chosen.applied(ITEMS) is ITEMS
    leaf = relation("app", "leaf", attribute(1, "note"), attribute(2, "id"), oid=7)
    root = relation("app", "orders", *ORDERS.attributes, leaves=(leaf,))
    assert [a.name for a in chosen.applied(root).leaves[0].columns] == ["id"]


def test_how_columns_land() -> None:
    assert read(kind='orders."Ämount = x"=Decimal(38,4)', not_null="orders.note").of(ORDERS) == {
        "Ämount = x": ColumnChoice("Decimal(38,4)"),
        "note": ColumnChoice(nullable=False),
    }
    both = read(kind="orders.note=String", nullable="app.orders.note").of(ORDERS)
    assert both == {"note": ColumnChoice("String", True)} and not read(kind="orders.note=String").of(ITEMS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"exclude": "app.orders.id"}, r"--exclude app\.orders\.id: it is in the key of app\.orders"),
        ({"exclude": "orders.nott"}, r"app\.orders has no such column; did you mean note\?"),
        ({"exclude": "orders.gone"}, "has no such column"),
        ({"exclude": "orders.virtual"}, "virtual generated column, which has no bytes and is left out anyway"),
        ({"exclude": "order.note"}, r"no such table among those named by --table; did you mean app\.orders\.note\?"),
        ({"exclude": "new.orders.note"}, "no such table"),
        ({"exclude": "items.note"}, r"may be of app\.items or old\.items; write the schema before it"),
        ({"exclude": "orders.note=x"}, "nothing to be said after ="),
        ({"kind": "orders.note"}, r"the type is missing; write --type orders\.note=TYPE"),
        ({"kind": "orders.note="}, "the type is missing"),
        ({"kind": "orders.note=String", "exclude": "orders.note"}, "--exclude leaves it out"),
        ({"not_null": "orders.note", "nullable": "orders.note"}, "both --not-null and --nullable"),
    ],
)
def test_words_that_make_no_sense(words: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read(**words)  # type: ignore[arg-type]


def test_two_types_for_one_column() -> None:
    with pytest.raises(UsageError, match="String was given for it before"):
        read_choices(ColumnWords(types=["orders.note=String", "app.orders.note=JSON"]), ALL)


def test_words_about_tables_that_are_refused() -> None:
    """They may be meant where some tables can't be loaded."""
    assert not read(exclude="lost.note", refused=True).left_out
