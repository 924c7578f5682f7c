"""The merge of two sorted digest streams, against a count of Python objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from walshadow_core.api import RowDigests
from walshadow_core.verify.merge import SHOWN, _Side, compare

ROWS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), max_size=60)


def _stream(rows: list[tuple[int, int]], piece: int) -> Iterator[RowDigests]:
    rows = sorted(rows)
    for at in range(0, len(rows), piece):
        part = rows[at : at + piece]
        yield RowDigests(
            pa.array([f"{k:032x}" for k, _ in part]),
            pa.array([f"{v:032x}" for _, v in part]),
            pa.array([f"id={k}" for k, _ in part]),
        )


@given(ROWS, ROWS, st.integers(1, 9), st.integers(1, 9))
def test_counts_are_those_of_a_multiset(
    left: list[tuple[int, int]], right: list[tuple[int, int]], a: int, b: int
) -> None:
    found = compare(_stream(left, a), _stream(right, b))
    lone_left, lone_right = Counter(left) - Counter(right), Counter(right) - Counter(left)
    keys_left: Counter[int] = Counter()
    keys_right: Counter[int] = Counter()
    for (key, _), n in lone_left.items():
        keys_left[key] += n
    for (key, _), n in lone_right.items():
        keys_right[key] += n
    assert found.missing == (keys_left - keys_right).total()
    assert found.extra == (keys_right - keys_left).total()
    assert found.changed == (keys_left & keys_right).total()
    assert len(found.keys) == min(SHOWN, found.total)


@given(st.dictionaries(st.integers(0, 200), st.integers(0, 3), min_size=1), st.integers(1, 9))
def test_one_changed_row_is_named(rows: dict[int, int], piece: int) -> None:
    pairs = sorted(rows.items())
    key, value = pairs[len(pairs) // 2]
    other = [(k, v) for k, v in pairs if k != key] + [(key, value + 1)]
    found = compare(_stream(pairs, piece), _stream(other, 3))
    assert (found.missing, found.extra, found.changed) == (0, 0, 1)
    assert found.keys == [("changed", f"id={key}")]


def test_copies_of_one_row_take_the_room_of_one() -> None:
    """A table without a key may hold nothing else, and all of them have one key."""
    side = _Side(_stream([(7, 1)] * 1000 + [(8, 1)], 10))
    side.complete_to(f"{7:032x}".encode())
    assert side.rows.count.tolist() == [1000, 1]
    found = compare(_stream([(7, 1)] * 1000, 10), _stream([(7, 1)] * 990 + [(7, 2)] * 4, 7))
    assert (found.missing, found.extra, found.changed) == (6, 0, 4)
    assert [kind for kind, _ in found.keys] == ["missing"] * 6 + ["changed"] * 4
