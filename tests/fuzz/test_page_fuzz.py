"""The page walk and the checksums on damaged pages: an answer or a FormatError, and never a look outside.

``make test`` runs this folder with ``NUMBA_BOUNDSCHECK=1``, where a read or a write outside of an array raises.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from walshadow_core.api import FormatError
from walshadow_core.pgformat import heap
from walshadow_core.pgformat.checksum import bad_checksums
from walshadow_core.pgformat.heap import PAGE_SIZE, PageWalk, PageWalker
from walshadow_core.testing.postgres import PostgresServer, available_majors

MAX_PAGES = 4
Pages = NDArray[np.uint8]

fuzz = settings(max_examples=200, deadline=None)
"""No deadline: the first example compiles the kernels."""


@pytest.fixture(scope="module")
def real_pages() -> Pages:
    """Pages that a server wrote, with nulls, updates, deletes, pruned lines and locks."""
    with PostgresServer(available_majors()[-1], initdb=("--locale=C", "--encoding=UTF8", "-k")) as server:
        with server.connect() as conn:
            conn.execute("create table t (id int, a text, b int)")
            conn.execute("""insert into t select i, case when i % 3 = 0 then md5(i::text) end,
                            case when i % 2 = 0 then i end from generate_series(1, 1000) i""")
            conn.execute("delete from t where id % 5 = 0")
            conn.execute("vacuum (truncate off) t")
            conn.execute("update t set a = 'new' where id % 7 = 0")
            conn.execute("begin; select * from t where id % 11 = 0 for update; commit")
            conn.execute("checkpoint")
            row = conn.execute("select pg_relation_filepath('t')").fetchone()
        assert row is not None
        data = bytearray((server.data / row[0]).read_bytes())
    pages = np.frombuffer(data, np.uint8)[: MAX_PAGES * PAGE_SIZE]
    assert len(pages) == MAX_PAGES * PAGE_SIZE
    return pages


@cache
def walker() -> PageWalker:
    return PageWalker(MAX_PAGES)


def walk_closely(pages: Pages, first_block: int) -> PageWalk | None:
    """Walk a buffer that lies between guards; check all that a walk promises of any bytes whatever."""
    guarded = np.full(len(pages) + 2 * PAGE_SIZE, 0xFF, np.uint8)
    inside = guarded[PAGE_SIZE : PAGE_SIZE + len(pages)]
    inside[:] = pages
    try:
        walk = walker().walk(inside, first_block)
    except FormatError:
        assert len(pages) % PAGE_SIZE or first_block + len(pages) // PAGE_SIZE > heap.MAX_BLOCK
        return None
    assert (inside == pages).all()
    data, n = walk.data, len(walk)
    assert all(len(a) == n for a in (data.natts, data.has_nulls, walk.headers.xmin, walk.headers.ctid_offset))
    page = walk.block.astype(np.int64) - first_block
    base = page * PAGE_SIZE
    assert ((page >= 0) & (page < walk.pages)).all()
    assert (walk.start >= base + heap.PAGE_HEADER_SIZE).all()
    assert (walk.start % 8 == 0).all()
    assert (data.end <= base + PAGE_SIZE).all()
    assert (data.bitmap_start == walk.start + heap.TUPLE_HEADER_SIZE).all()
    assert (data.data_start >= walk.start + heap.MIN_HOFF).all()
    assert (data.data_start <= data.end).all()
    bitmap_bytes = np.where(data.has_nulls, (data.natts + 7) // 8, 0)
    assert (data.bitmap_start + bitmap_bytes <= data.data_start).all()
    assert (np.diff(base * heap.MAX_TUPLES_PER_PAGE + walk.offnum) > 0).all()
    assert ((walk.offnum >= 1) & (walk.offnum <= heap.MAX_TUPLES_PER_PAGE)).all()
    damaged = {d.block - first_block for d in walk.damage}
    assert len(damaged) == len(walk.damage)
    assert not damaged & set(page.tolist())
    assert len(damaged) + walk.empty_pages <= walk.pages
    return walk


CHANGES = st.lists(
    st.tuples(
        st.integers(0, MAX_PAGES - 1),
        st.one_of(st.integers(0, 23), st.integers(24, 24 + 4 * 291), st.integers(PAGE_SIZE - 2000, PAGE_SIZE - 1)),
        st.one_of(st.integers(0, 7).map(lambda bit: 1 << bit), st.integers(1, 255)),
    ),
    min_size=1,
    max_size=12,
)
"""Bytes to spoil: page, byte (most of them in headers and line pointers), and what to xor it with."""


def spoil(pages: Pages, changes: list[tuple[int, int, int]]) -> Pages:
    spoilt = pages.copy()
    for page, byte, mask in changes:
        spoilt[page * PAGE_SIZE + byte] ^= mask
    return spoilt


def same_pages(a: Pages, b: Pages) -> NDArray[np.bool_]:
    return np.array([(a[at : at + PAGE_SIZE] == b[at : at + PAGE_SIZE]).all() for at in range(0, len(a), PAGE_SIZE)])


@fuzz
@given(CHANGES, st.integers(0, heap.MAX_BLOCK - MAX_PAGES))
def test_spoilt_pages_give_damage_or_rows(
    real_pages: Pages, changes: list[tuple[int, int, int]], first_block: int
) -> None:
    """Pages that were left alone give just the rows that they gave before."""
    pages = spoil(real_pages, changes)
    whole = walk_closely(real_pages, first_block)
    assert whole is not None
    assert whole.damage == ()
    same = same_pages(pages, real_pages)
    expected = whole.start[same[whole.block - first_block]].tolist()
    walk = walk_closely(pages, first_block)
    assert walk is not None
    assert walk.start[same[walk.block - first_block]].tolist() == expected


@fuzz
@given(CHANGES)
def test_a_checksum_finds_each_spoilt_page(real_pages: Pages, changes: list[tuple[int, int, int]]) -> None:
    """One miss in 65,536 is what 16 bits give, so one page may be missed; pd_upper of 0 means that there is none."""
    pages = spoil(real_pages, changes)
    changed = np.flatnonzero(~same_pages(pages, real_pages))
    upper = pages.reshape(MAX_PAGES, PAGE_SIZE)[:, heap.UPPER_AT : heap.UPPER_AT + 2].max(axis=1) > 0
    found = set(bad_checksums(pages, 0).tolist())
    assert found <= set(changed.tolist())
    assert len(set(changed[upper[changed]].tolist()) - found) <= 1


@fuzz
@given(st.integers(0, 2**32 - 1), st.integers(0, MAX_PAGES), st.integers(0, 2**32))
def test_random_bytes(seed: int, pages: int, first_block: int) -> None:
    walk_closely(np.random.default_rng(seed).integers(0, 256, pages * PAGE_SIZE, np.uint8), first_block)


@fuzz
@given(st.integers(0, 2**32 - 1), st.integers(0, 300), st.booleans())
def test_random_line_pointers_under_a_sound_header(real_pages: Pages, seed: int, lines: int, random_body: bool) -> None:
    """Random bytes seldom get past the page header: here they are all in line pointers and tuples."""
    rng = np.random.default_rng(seed)
    page = rng.integers(0, 256, PAGE_SIZE, np.uint8) if random_body else real_pages[:PAGE_SIZE].copy()
    lower = heap.PAGE_HEADER_SIZE + heap.LINE_POINTER_SIZE * lines
    page[: heap.PAGE_HEADER_SIZE].view(heap.PAGE_HEADER)[0] = (
        1, 2, 3, 0, lower, lower, PAGE_SIZE, heap.PAGE_SIZE_AND_VERSION, 0
    )  # fmt: skip
    offset = rng.integers(lower, 0x8000 if rng.integers(4) == 0 else PAGE_SIZE, lines) & ~7
    length = rng.integers(0, np.maximum(PAGE_SIZE + 8 - offset, 1))
    pointers = offset | heap.LP_NORMAL << heap.LP_FLAGS_SHIFT | length << heap.LP_LENGTH_SHIFT
    page[heap.PAGE_HEADER_SIZE : lower] = pointers.astype("<u4").view(np.uint8)
    walk_closely(page, 0)


@fuzz
@given(st.integers(0, MAX_PAGES * PAGE_SIZE), st.integers(0, 100))
def test_truncated_buffers(real_pages: Pages, length: int, first_block: int) -> None:
    pages = real_pages[:length].copy()
    walk = walk_closely(pages, first_block)
    assert (walk is None) == (length % PAGE_SIZE != 0)
    try:
        assert bad_checksums(pages, 0).tolist() == []
    except FormatError:
        assert length % PAGE_SIZE
