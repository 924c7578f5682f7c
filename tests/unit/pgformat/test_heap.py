"""The page walk, against pageinspect on real servers, and on pages damaged one way at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import psycopg
import pytest
from numpy.typing import NDArray

from walshadow_core.api import FormatError, Lsn
from walshadow_core.pgformat import heap
from walshadow_core.pgformat.heap import PAGE_HEADER, PAGE_SIZE, TUPLE_HEADER, PageWalk, PageWalker
from walshadow_core.testing.postgres import PostgresServer, available_majors

TABLES = ("mixed", "wide", "bare", "long", "pg_class", "pg_attribute")

SETUP = """
create table mixed (id int primary key, k int, a text, b numeric, c timestamptz);
create index on mixed (k);
insert into mixed select i, i, case when i % 3 > 0 then repeat('x', i % 50) end, case when i % 5 > 0 then i end,
    case when i % 7 > 0 then now() end from generate_series(1, 4000) i;
update mixed set a = 'hot' where id % 10 = 1;
update mixed set k = -k where id % 10 = 2;
delete from mixed where id % 10 = 3;
vacuum mixed;
update mixed set a = 'hot again' where id % 10 = 1;
delete from mixed where id % 10 = 4;
begin; insert into mixed select -i, i from generate_series(1, 500) i; rollback;
begin; update mixed set a = 'never' where id % 10 = 5; rollback;
create table bare ();
insert into bare select from generate_series(1, 700);
create table long (id int, t text);
alter table long alter t set storage external;
insert into long select i, repeat('abc', 2000) from generate_series(1, 50) i;
"""


@pytest.fixture(scope="module", params=available_majors(), ids=lambda m: f"pg{m}")
def server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    """A server with tables that hold every sort of tuple header; two sessions hold locks until the checkpoint."""
    with PostgresServer(request.param) as running:
        with running.connect() as conn:
            for statement in SETUP.split(";\n"):
                conn.execute(statement.encode())
            columns = ", ".join(f"c{i} int" for i in range(1600))
            conn.execute(f"create table wide ({columns})".encode())
            conn.execute(b"insert into wide (c0, c1599) values (1, 2), (3, 4)")
        with running.connect(autocommit=False) as one, running.connect(autocommit=False) as two:
            one.execute("select * from mixed where id % 10 = 6 for key share")
            two.execute("select * from mixed where id % 10 = 6 for share")
            one.execute("select * from mixed where id % 10 = 7 for update")
            two.execute("select * from mixed where id % 10 = 8 for no key update")
            one.execute("select * from mixed where id % 10 = 9 for key share")
            two.execute("update mixed set a = 'updated under a lock' where id % 10 = 9")
            two.commit()
            one.commit()
        running.execute("insert into mixed select i, i from generate_series(10001, 10300) i; checkpoint")
        yield running


def read(server: PostgresServer, table: str) -> NDArray[np.uint8]:
    path = server.execute(f"select pg_relation_filepath('{table}')")[0][0]
    return np.frombuffer(bytearray((server.data / path).read_bytes()), np.uint8)


def walk_all(pages: NDArray[np.uint8]) -> PageWalk:
    return PageWalker(max(1, len(pages) // PAGE_SIZE)).walk(pages, 0)


def null_bitmap(pages: NDArray[np.uint8], walk: PageWalk, i: int) -> str | None:
    """As pageinspect prints t_bits."""
    if not walk.data.has_nulls[i]:
        return None
    size = (int(walk.data.natts[i]) + 7) // 8
    at = int(walk.data.bitmap_start[i])
    return "".join(str(b >> k & 1) for b in pages[at : at + size].tolist() for k in range(8))


@pytest.mark.parametrize("table", TABLES)
def test_every_field_is_what_pageinspect_shows(server: PostgresServer, table: str) -> None:
    try:
        server.execute("create extension if not exists pageinspect")
    except psycopg.errors.FeatureNotSupported:
        pytest.skip(f"pageinspect is not there for Postgres {server.major}")
    pages = read(server, table)
    walk = walk_all(pages)
    with server.connect() as conn:
        shown = conn.execute(
            f"""
            select b, lp, b * {PAGE_SIZE} + lp_off, lp_len, t_xmin::text::bigint, t_xmax::text::bigint, t_infomask,
                   t_infomask2, t_hoff, t_bits, t_ctid::text, t_data
            from generate_series(0, {len(pages) // PAGE_SIZE - 1}) b,
                 heap_page_items(get_raw_page('{table}', b)) where lp_flags = {heap.LP_NORMAL}""".encode()
        ).fetchall()
        lsns = conn.execute(
            f"""
            select max(lsn)::text from generate_series(0, {len(pages) // PAGE_SIZE - 1}) b,
                 page_header(get_raw_page('{table}', b))""".encode()
        ).fetchone()
    assert walk.damage == ()
    assert len(walk) == len(shown) > 0
    h, d = walk.headers, walk.data
    for i, (block, lp, start, length, xmin, xmax, mask, mask2, hoff, bits, ctid, data) in enumerate(shown):
        assert (walk.block[i], walk.offnum[i], walk.start[i]) == (block, lp, start)
        assert (d.end[i] - start, d.data_start[i] - start, d.bitmap_start[i] - start) == (length, hoff, 23)
        assert (h.xmin[i], h.xmax[i]) == (xmin, xmax)
        assert (h.infomask[i], h.infomask2[i]) == (mask & 0xFFFF, mask2 & 0xFFFF)
        assert d.natts[i] == mask2 & heap.HEAP_NATTS_MASK
        assert d.has_nulls[i] == mask & heap.HEAP_HASNULL
        assert h.ctid_offset[i] == int(ctid.strip("()").split(",")[1])
        assert null_bitmap(pages, walk, i) == bits
        assert pages[d.data_start[i] : d.end[i]].tobytes() == (data or b"")
    assert lsns is not None
    assert walk.max_lsn == Lsn.parse(lsns[0])


def test_the_tables_hold_every_sort_of_header(server: PostgresServer) -> None:
    """Or else the comparison above would show little."""
    headers = walk_all(read(server, "mixed")).headers
    for bit in (
        heap.HEAP_HASNULL, heap.HEAP_HASVARWIDTH, heap.HEAP_XMAX_KEYSHR_LOCK, heap.HEAP_XMAX_EXCL_LOCK,
        heap.HEAP_XMAX_LOCK_ONLY, heap.HEAP_XMIN_COMMITTED, heap.HEAP_XMIN_INVALID, heap.HEAP_XMAX_INVALID,
        heap.HEAP_XMAX_IS_MULTI, heap.HEAP_UPDATED,
    ):  # fmt: skip
        assert (headers.infomask & bit).any(), hex(bit)
        assert not (headers.infomask & bit).all(), hex(bit)
    for bit in (heap.HEAP_KEYS_UPDATED, heap.HEAP_HOT_UPDATED, heap.HEAP_ONLY_TUPLE):
        assert (headers.infomask2 & bit).any(), hex(bit)


def test_visible_rows_are_where_their_ctid_says(server: PostgresServer) -> None:
    """Also on majors that come without pageinspect."""
    walk = walk_all(read(server, "mixed"))
    found = {
        f"({b},{o})": (int(x), int(y))
        for b, o, x, y in zip(walk.block, walk.offnum, walk.headers.xmin, walk.headers.xmax, strict=True)
    }
    rows = server.execute("select ctid::text, xmin::text::bigint, xmax::text::bigint from mixed")
    assert rows
    for ctid, xmin, xmax in rows:
        assert found[ctid] == (xmin, xmax)


# ------------------------------------------------------------------------------------- pages made by hand


def page_of(*tuples: bytes, lsn: int = 0x1_0000_0002) -> NDArray[np.uint8]:
    """A sound page with these tuples under line pointers 1, 2…"""
    page = np.zeros(PAGE_SIZE, np.uint8)
    upper = PAGE_SIZE
    for i, body in enumerate(tuples):
        upper = (upper - len(body)) & ~7
        page[upper : upper + len(body)] = np.frombuffer(body, np.uint8)
        point(page, i + 1, upper, heap.LP_NORMAL, len(body))
    header = page[: PAGE_HEADER.itemsize].view(PAGE_HEADER)
    header[0] = (
        lsn >> 32, lsn & 0xFFFFFFFF, 0, 0, 24 + 4 * len(tuples), upper, PAGE_SIZE, heap.PAGE_SIZE_AND_VERSION, 0
    )  # fmt: skip
    return page


def tuple_of(hoff: int = 24, natts: int = 1, infomask: int = 0, length: int = 28) -> bytes:
    body = np.zeros(max(length, TUPLE_HEADER.itemsize), np.uint8)
    body[: TUPLE_HEADER.itemsize].view(TUPLE_HEADER)[0] = (7, 0, 0, 0, 0, 1, natts, infomask, hoff)
    return body[:length].tobytes()


def point(page: NDArray[np.uint8], line: int, offset: int, flags: int, length: int) -> None:
    word = offset | flags << heap.LP_FLAGS_SHIFT | length << heap.LP_LENGTH_SHIFT
    at = 24 + 4 * (line - 1)
    page[at : at + 4] = np.frombuffer(word.to_bytes(4, "little"), np.uint8)


def header_field(name: str, value: int) -> Callable[[NDArray[np.uint8]], None]:
    def change(page: NDArray[np.uint8]) -> None:
        page[: PAGE_HEADER.itemsize].view(PAGE_HEADER)[name] = value

    return change


def line(offset: int, length: int) -> Callable[[NDArray[np.uint8]], None]:
    return lambda page: point(page, 1, offset, heap.LP_NORMAL, length)


def tuple_field(name: str, value: int) -> Callable[[NDArray[np.uint8]], None]:
    def change(page: NDArray[np.uint8]) -> None:
        at = PAGE_SIZE - 32
        page[at : at + TUPLE_HEADER.itemsize].view(TUPLE_HEADER)[name] = value

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (header_field("pagesize_version", PAGE_SIZE | 3), "layout version"),
        (header_field("pagesize_version", 4096 | 4), "page size"),
        (header_field("flags", 8), "flag bits"),
        (header_field("lower", 20), "bounds"),
        (header_field("lower", 27), "bounds"),
        (header_field("lower", PAGE_SIZE - 28), "bounds"),
        (header_field("upper", PAGE_SIZE + 1), "bounds"),
        (header_field("upper", 24), "bounds"),
        (header_field("special", PAGE_SIZE + 8), "bounds"),
        (header_field("special", PAGE_SIZE - 8), "special space"),
        (header_field("lower", 24 + 4 * 292), "more line pointers"),
        (header_field("upper", 0), "not initialised"),
        (line(PAGE_SIZE - 24, 32), "line pointer 1: points outside"),
        (line(PAGE_SIZE - 40, 28), "line pointer 1: points outside"),
        (line(0x7FF8, 28), "line pointer 1: points outside"),
        (line(PAGE_SIZE - 30, 24), "line pointer 1: points to an unaligned"),
        (line(PAGE_SIZE - 32, 23), "line pointer 1: shorter"),
        (line(PAGE_SIZE - 32, 0), "line pointer 1: shorter"),
        (tuple_field("hoff", 23), "t_hoff"),
        (tuple_field("hoff", 16), "t_hoff"),
        (tuple_field("hoff", 32), "t_hoff"),
        (tuple_field("hoff", 25), "t_hoff"),
        (tuple_field("infomask", heap.HEAP_HASNULL), None),
    ],
)
def test_damage_is_told_with_block_and_reason(change: Callable[[NDArray[np.uint8]], None], reason: str | None) -> None:
    """And the pages around it come."""
    pages = np.concatenate([page_of(tuple_of()) for _ in range(3)])
    change(pages[PAGE_SIZE : 2 * PAGE_SIZE])
    walk = PageWalker(3).walk(pages, 10)
    if reason is None:
        assert walk.damage == ()
        assert walk.block.tolist() == [10, 11, 12]
        return
    (damage,) = walk.damage
    assert damage.block == 11
    assert reason in damage.reason
    assert walk.block.tolist() == [10, 12]
    assert walk.start.tolist() == [PAGE_SIZE - 32, 3 * PAGE_SIZE - 32]


def test_a_null_bitmap_must_fit_the_header() -> None:
    fits = tuple_of(natts=8, infomask=heap.HEAP_HASNULL)
    too_long = tuple_of(natts=9, infomask=heap.HEAP_HASNULL)
    assert PageWalker(1).walk(page_of(fits), 0).damage == ()
    (damage,) = PageWalker(1).walk(page_of(fits, too_long), 0).damage
    assert damage.reason == "line pointer 2: the tuple's null bitmap does not fit its header"


def test_a_damaged_page_gives_none_of_its_tuples() -> None:
    page = page_of(tuple_of(), tuple_of(), tuple_of(hoff=0))
    walk = PageWalker(1).walk(page, 0)
    assert len(walk) == 0
    assert walk.max_lsn == 0
    assert len(walk.damage) == 1


def test_only_normal_line_pointers_are_tuples() -> None:
    page = page_of(*[tuple_of()] * 4)
    point(page, 1, 2, heap.LP_REDIRECT, 0)
    point(page, 2, 0, heap.LP_DEAD, 0)
    point(page, 4, 0, heap.LP_UNUSED, 0)
    assert PageWalker(1).walk(page, 0).offnum.tolist() == [3]


def test_new_pages_are_counted_and_skipped() -> None:
    pages = np.concatenate([page_of(tuple_of()), np.zeros(PAGE_SIZE, np.uint8), page_of(tuple_of())])
    walk = PageWalker(3).walk(pages, 0)
    assert (walk.pages, walk.empty_pages, len(walk), walk.damage) == (3, 1, 2, ())
    assert walk.block.tolist() == [0, 2]


def test_the_largest_lsn_counts() -> None:
    pages = np.concatenate([page_of(lsn=lsn) for lsn in (5, 0xFFFFFFFF_00000001, 0x1_FFFFFFFF)])
    assert PageWalker(3).walk(pages, 0).max_lsn == 0xFFFFFFFF_00000001


def test_a_full_page_of_the_smallest_tuples() -> None:
    page = page_of(*[tuple_of(length=24, natts=0)] * heap.MAX_TUPLES_PER_PAGE)
    walk = PageWalker(1).walk(page, 0)
    assert walk.offnum.tolist() == list(range(heap.FIRST_OFFSET_NUMBER, heap.MAX_TUPLES_PER_PAGE + 1))


def test_take_picks_tuples() -> None:
    walk = PageWalker(1).walk(page_of(*[tuple_of(natts=n) for n in range(5)]), 0)
    assert walk.data.take(np.array([4, 1])).natts.tolist() == [4, 1]
    assert len(walk.data.take(walk.data.natts > 2)) == 2


def test_what_can_not_be_walked_is_an_error() -> None:
    walker = PageWalker(1)
    with pytest.raises(FormatError, match="block 7 is truncated: 100 of 8192 bytes"):
        walker.walk(np.zeros(100, np.uint8), 7)
    with pytest.raises(FormatError, match="largest block number"):
        walker.walk(np.zeros(PAGE_SIZE, np.uint8), 0xFFFFFFFF)
    with pytest.raises(ValueError, match="2 pages for a walker of 1"):
        walker.walk(np.zeros(2 * PAGE_SIZE, np.uint8), 0)
    assert len(walker.walk(np.zeros(0, np.uint8), 0)) == 0
