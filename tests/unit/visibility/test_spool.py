"""The spool gives back what it was given, in order, whatever fits into memory."""

from __future__ import annotations

import threading
import tracemalloc
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from walshadow_core.api import Bytes, FormatError, TupleHeaders, WalshadowError
from walshadow_core.pgformat.heap import PageWalk, TupleData
from walshadow_core.visibility.spool import CHUNK_BYTES, DeferredSpool, SpooledTuples
from walshadow_core.visibility.spoolfile import MemoryBudget


def make_walk(rng: np.random.Generator, sizes: list[int], first_block: int = 0) -> tuple[PageWalk, Bytes]:
    """Tuples of these sizes one behind the other, at odd places too, with random bytes and headers."""
    gaps = rng.integers(0, 5, len(sizes))
    start = (np.cumsum(gaps) + np.cumsum([0, *sizes[:-1]])).astype(np.int32) if sizes else np.zeros(0, np.int32)
    end = (start + np.array(sizes, np.int64)).astype(np.int32)
    pages = rng.integers(0, 256, int(end[-1]) + 3 if sizes else 8).astype(np.uint8)
    n = len(sizes)

    def some(dtype: type) -> NDArray[np.generic]:
        return rng.integers(0, np.iinfo(dtype).max, n, dtype, endpoint=True)

    walk = PageWalk(
        start=start,
        data=TupleData(start + 24, start + 23, some(np.int32), some(np.uint8), end),  # type: ignore[arg-type]
        headers=TupleHeaders(some(np.uint32), some(np.uint32), some(np.uint16), some(np.uint16), some(np.uint16)),  # type: ignore[arg-type]
        block=(first_block + np.arange(n)).astype(np.uint32),
        offnum=some(np.uint16),  # type: ignore[arg-type]
        max_lsn=0,
        pages=1,
        empty_pages=0,
        damage=(),
    )
    return walk, pages


def rows_of(
    buf: Bytes,
    start: NDArray[np.int32],
    data: TupleData,
    headers: TupleHeaders,
    block: NDArray[np.uint32],
    offnum: NDArray[np.uint16],
) -> list[tuple[Any, ...]]:
    """One comparable value per tuple, places relative to the tuple's own start."""
    assert np.array_equal(data.data_start - 24, start) and np.array_equal(data.bitmap_start - 23, start)
    return [
        (buf[s:e].tobytes(), *rest)
        for s, e, *rest in zip(
            start.tolist(),
            data.end.tolist(),
            data.natts.tolist(),
            data.has_nulls.tolist(),
            *(getattr(headers, f).tolist() for f in headers.__dataclass_fields__),
            block.tolist(),
            offnum.tolist(),
            strict=True,
        )
    ]


def walk_rows(walk: PageWalk, pages: Bytes, index: NDArray[np.int64]) -> list[tuple[Any, ...]]:
    all_rows = rows_of(pages, walk.start, walk.data, walk.headers, walk.block, walk.offnum)
    return [all_rows[i] for i in index.tolist()]


def batch_rows(batch: SpooledTuples) -> list[tuple[Any, ...]]:
    start = batch.data.bitmap_start - 23
    assert np.all(start % 8 == 0) and batch.buf.ctypes.data % 8 == 0, "tuples must stay aligned"
    arrays = [
        batch.buf,
        batch.block,
        batch.offnum,
        *(getattr(batch.data, f) for f in ("data_start", "bitmap_start", "natts", "has_nulls", "end")),
        *(getattr(batch.headers, f) for f in batch.headers.__dataclass_fields__),
    ]
    assert all(a.flags.writeable and a.flags.c_contiguous and a.flags.aligned for a in arrays)
    return rows_of(batch.buf, start, batch.data, batch.headers, batch.block, batch.offnum)


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 2**32),
    walks=st.lists(st.lists(st.one_of(st.integers(24, 80), st.integers(24, 8160)), max_size=150), max_size=6),
    memory=st.sampled_from([0, 40_000, 200_000, 1 << 30]),
)
def test_gives_back_what_it_was_given_in_order(
    tmp_path_factory: pytest.TempPathFactory, seed: int, walks: list[list[int]], memory: int
) -> None:
    rng = np.random.default_rng(seed)
    budget = MemoryBudget(memory)
    spool = DeferredSpool(budget, tmp_path_factory.getbasetemp())
    expected: list[tuple[Any, ...]] = []
    for number, sizes in enumerate(walks):
        walk, pages = make_walk(rng, sizes, number * 1000)
        index = np.flatnonzero(rng.random(len(sizes)) < 0.7)
        spool.add(walk, pages, index)
        expected += walk_rows(walk, pages, index)
        pages[:] = 0  # the pages are the walker's again
    assert spool.rows == len(expected)
    assert spool.bytes == sum(len(row[0]) for row in expected)
    assert budget.used <= memory
    assert [row for batch in spool.batches() for row in batch_rows(batch)] == expected
    assert budget.used == 0


def fill(spool: DeferredSpool, rng: np.random.Generator, total: int) -> list[tuple[Any, ...]]:
    expected = []
    while spool.bytes < total:
        walk, pages = make_walk(rng, [100] * 5000, spool.rows)
        index = np.arange(5000)
        spool.add(walk, pages, index)
        expected += walk_rows(walk, pages, index)
    return expected


def test_past_its_memory_it_goes_to_a_file_that_has_no_name(tmp_path: Path) -> None:
    spool = DeferredSpool(3 << 20, tmp_path)
    expected = fill(spool, np.random.default_rng(1), 10 << 20)
    assert spool.spilled > 6 << 20
    assert list(tmp_path.iterdir()) == []
    batches = 0
    got = []
    for batch in spool.batches():
        assert len(batch.buf) <= CHUNK_BYTES
        got += batch_rows(batch)
        batches += 1
    assert got == expected and batches <= 25


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """Where every chunk is a small one, because other spools have the budget, there are very many of them."""
    walk, pages = make_walk(np.random.default_rng(6), [8000] * 3)
    with closing(DeferredSpool(0, tmp_path)) as spool:
        for _ in range(50):
            spool.add(walk, pages, np.arange(3))
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(2000):
                spool.add(walk, pages, np.arange(3))
            grown = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        assert spool.spilled > 40 << 20 and grown < 64 << 10
        assert sum(map(len, spool.batches())) == spool.rows == 6150


def test_small_spools_stay_small(tmp_path: Path) -> None:
    budget = MemoryBudget(1 << 20)
    spools = [DeferredSpool(budget, tmp_path) for _ in range(200)]
    walk, pages = make_walk(np.random.default_rng(2), [64] * 20)
    for spool in spools:
        spool.add(walk, pages, np.arange(20))
    assert budget.used == 0 and all(spool.spilled == 0 for spool in spools)
    assert all(sum(map(len, spool.batches())) == 20 for spool in spools)


def test_spools_share_a_budget(tmp_path: Path) -> None:
    budget = MemoryBudget(4 << 20)
    spools = [DeferredSpool(budget, tmp_path) for _ in range(4)]
    expected: list[list[tuple[Any, ...]]] = [[] for _ in spools]

    def work(i: int) -> None:
        expected[i] = fill(spools[i], np.random.default_rng(i), 3 << 20)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert budget.used <= budget.limit and sum(spool.spilled for spool in spools) > 0
    for spool, rows in zip(spools, expected, strict=True):
        assert [row for batch in spool.batches() for row in batch_rows(batch)] == rows
    assert budget.used == 0


def test_close_gives_everything_back_at_any_time(tmp_path: Path) -> None:
    budget = MemoryBudget(2 << 20)
    spool = DeferredSpool(budget, tmp_path)
    fill(spool, np.random.default_rng(3), 4 << 20)
    next(spool.batches())
    spool.close()
    spool.close()
    assert budget.used == 0


def test_it_is_read_once(tmp_path: Path) -> None:
    spool = DeferredSpool(1 << 20, tmp_path)
    walk, pages = make_walk(np.random.default_rng(4), [64])
    spool.add(walk, pages, np.array([True]))
    assert sum(len(batch) for batch in spool.batches()) == 1
    with pytest.raises(RuntimeError):
        spool.batches()
    with pytest.raises(RuntimeError):
        spool.add(walk, pages, np.array([0]))


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    spool = DeferredSpool(0, tmp_path / "gone")
    with pytest.raises(WalshadowError, match=r"can't spool .*gone: No such file"):
        fill(spool, np.random.default_rng(5), 1 << 20)


@pytest.mark.parametrize("damage", ["index", "negative index", "end", "start", "backwards", "giant"])
def test_a_walk_that_points_elsewhere_is_an_error(tmp_path: Path, damage: str) -> None:
    walk, pages = make_walk(np.random.default_rng(6), [64, 64, 64])
    index = np.array([0, 1, 2])
    if damage == "index":
        index[1] = 3
    elif damage == "negative index":
        index[1] = -1
    elif damage == "end":
        walk.data.end[1] = len(pages) + 1
    elif damage == "start":
        walk.start[1] = -8
    elif damage == "backwards":
        walk.data.end[1] = walk.start[1] - 8
    else:
        pages = np.zeros(40_000, np.uint8)
        walk.data.end[1] = walk.start[1] + 30_000
    with pytest.raises(FormatError):
        DeferredSpool(1 << 20, tmp_path).add(walk, pages, index)
