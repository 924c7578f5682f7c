"""Which index is the key: the rules of postgres_facts, one by one."""

from __future__ import annotations

import dataclasses

import pytest

from walshadow_core.catalog.keys import choose_key
from walshadow_core.catalog.rows import IndexRow

_PLAIN = IndexRow(
    oid=100, relation=1, columns=(3,), key_columns=9, primary=False, replica_identity=False, unique=True, immediate=True, valid=True,
    partial=False, exclusion=False,
)  # fmt: skip
_PRIMARY = dataclasses.replace(_PLAIN, oid=101, columns=(2, 1), primary=True)
_ALL = frozenset(range(1, 9))


def _but(index: IndexRow, **changes: object) -> IndexRow:
    return dataclasses.replace(index, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("identity", ["d", "f", "n"])
def test_the_primary_key_in_index_order(identity: str) -> None:
    assert choose_key(identity, [_PLAIN, _PRIMARY], _ALL) == (2, 1)


def test_default_takes_no_other_index() -> None:
    assert choose_key("d", [_PLAIN], _ALL) == ()
    assert choose_key("d", [_PLAIN, _but(_PRIMARY, immediate=False)], _ALL) == ()


@pytest.mark.parametrize("identity", ["f", "n"])
def test_full_and_nothing_fall_back_to_a_unique_index(identity: str) -> None:
    deferrable = _but(_PRIMARY, immediate=False)
    assert choose_key(identity, [deferrable, _PLAIN], _ALL) == (3,)
    assert choose_key(identity, [deferrable], _ALL) == ()


@pytest.mark.parametrize(
    "changes",
    [{"unique": False}, {"immediate": False}, {"valid": False}, {"partial": True}, {"columns": (3, 0)},
     {"exclusion": True}, {"columns": (3, 9)}],
    ids=str,
)  # fmt: skip
def test_an_index_that_is_no_key(changes: dict[str, object]) -> None:
    assert choose_key("f", [_but(_PLAIN, **changes)], _ALL) == ()


def test_the_smallest_then_the_oldest_index() -> None:
    wide, young, old = _but(_PLAIN, oid=1, columns=(1, 2)), _but(_PLAIN, oid=9, columns=(4,)), _but(_PLAIN, oid=8)
    assert choose_key("f", [wide, young, old], _ALL) == (3,)


def test_using_index() -> None:
    chosen = _but(_PLAIN, replica_identity=True)
    assert choose_key("i", [_PRIMARY, chosen], _ALL) == (3,)


def test_using_an_index_over_columns_that_can_be_null_is_as_nothing() -> None:
    chosen = _but(_PLAIN, replica_identity=True)
    assert choose_key("i", [chosen], _ALL - {3}) == ()
    assert choose_key("i", [_PRIMARY, chosen], _ALL - {3}) == (2, 1)


def test_using_an_index_that_was_dropped_is_as_nothing() -> None:
    assert choose_key("i", [_PRIMARY], _ALL) == (2, 1)
    assert choose_key("i", [_PLAIN], _ALL) == (3,)
    assert choose_key("i", [], _ALL) == ()
