"""Arrays that went into Arrow and are filled again: never while somebody can still see what is in them."""

from __future__ import annotations

import numba
import numpy as np
import pyarrow as pa
import pytest

from walshadow_core.decode.columns import KEPT, Spare, VarColumn
from walshadow_core.decode.type_text import plain_text, take_bytes

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="so many rows are too much for interpreted kernels")


def block(column: VarColumn, letter: bytes, rows: int = 20000) -> pa.Array:
    """A block of ``rows`` strings of ten times that letter."""
    buf = np.frombuffer(letter * 64, np.uint8).copy()
    n = np.full(rows, 10, np.int32)
    column.append(buf, np.zeros(rows, np.int32), n, np.ones(rows, np.uint8))
    return column.finish()


def test_what_is_held_is_not_filled_again() -> None:
    column = VarColumn(pa.binary(), take_bytes)
    held = [block(column, bytes((ord("a") + k,))) for k in range(5)]
    for k, array in enumerate(held):
        assert set(array.to_pylist()) == {bytes((ord("a") + k,)) * 10}


def test_a_slice_a_child_and_a_view_hold_it_too() -> None:
    column = VarColumn(pa.binary(), take_bytes)
    first = block(column, b"a")
    cut = first.slice(100, 5)
    second = block(column, b"b")
    struct = pa.StructArray.from_arrays([second], names=["x"])
    third = block(column, b"c")
    view = np.frombuffer(third.buffers()[2], np.uint8)[7:9]
    del first, second, third
    for letter in b"defgh":
        block(column, bytes((letter,)))
    assert cut.to_pylist() == [b"a" * 10] * 5
    assert set(struct.field(0).to_pylist()) == {b"b" * 10}
    assert bytes(view) == b"cc"


def test_what_nobody_holds_is_filled_again() -> None:
    column = VarColumn(pa.binary(), take_bytes)
    places = []
    for _ in range(8):
        places.append(block(column, b"x").buffers()[2].address)
    assert len(set(places[2:])) <= 2


def test_few_are_kept_and_none_that_is_far_too_large() -> None:
    spare = Spare()
    arrays = [np.empty(100, np.uint8) for _ in range(2 * KEPT)]
    for array in arrays:
        spare.instead_of(array, 100)
    assert len(spare._lent) == KEPT
    del arrays, array
    assert spare.instead_of(np.empty(10, np.uint8), 10).size == 10
    assert spare.instead_of(np.empty(10, np.uint8), 101).size == 101


def test_plain_text_is_bytes_from_1_to_127() -> None:
    random = np.random.default_rng(1)
    for size in (*range(40), 1000):
        text = random.integers(1, 128, size).astype(np.uint8)
        assert plain_text(text)
        for byte in (0, 128, 255):
            for at in {0, size // 2, size - 1} if size else ():
                other = text.copy()
                other[at] = byte
                assert not plain_text(other)
