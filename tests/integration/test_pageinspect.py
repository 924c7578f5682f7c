"""pageinspect and our reader agree on every header field of thousands of pages."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.integration.support import database
from walshadow_core.pgformat.heap import PAGE_SIZE, PageWalker
from walshadow_core.pgformat.pageview import PageView, view_page
from walshadow_core.testing.postgres import PostgresServer

FILL = """
create table t (id int, a text, b int, c numeric, d text[]) with (fillfactor = 60);
insert into t select i, case when i % 3 = 0 then md5(i::text) end, case when i % 2 = 0 then i end, i / 7.0,
  case when i % 11 = 0 then array['a', null] end from generate_series(1, 26000) i;
create index on t (id);
update t set b = 0 where id % 7 = 0; update t set b = 1 where id % 21 = 0; update t set id = -id where id % 29 = 0;
delete from t where id % 5 = 0;
begin; select count(*) from (select * from t where id % 13 = 0 for update) s; commit;
begin; select count(*) from (select * from t where id % 17 = 0 for key share) s; savepoint s;
update t set b = 2 where id % 170 = 1; rollback to s; commit;
begin; insert into t select i from generate_series(1, 500) i; rollback"""
"""HOT chains, locks, deletes, aborted rows."""

LINES = {0: "unused", 1: "normal", 2: "redirect", 3: "dead"}


@pytest.fixture
def pages(pg: PostgresServer) -> Iterator[list[bytes]]:
    with database(pg) as db:
        with pg.connect(db) as one, pg.connect(db) as two:
            for statement in FILL.split(";"):
                one.execute(statement.encode())
            one.execute("begin; select * from t where id % 19 = 0 for key share")
            two.execute("begin; select * from t where id % 19 = 0 for key share")
            one.execute("commit")
            two.execute("commit")
            one.execute("vacuum (freeze, index_cleanup on) t")
            for statement in FILL.split(";")[3:]:
                one.execute(statement.replace("% 7", "% 31").encode())
            one.execute("vacuum t")
            one.execute("delete from t where id % 10 = 3")
            one.execute("vacuum (index_cleanup off) t")
            one.execute("update t set b = 5 where id % 3 = 1")
            one.execute("checkpoint")
            paths = one.execute(
                "select pg_relation_filepath(c) from unnest(array['t', 'pg_class', 'pg_attribute', 'pg_proc']::regclass[]) c"
            ).fetchall()
        yield [
            content[at : at + PAGE_SIZE]
            for (path,) in paths
            for content in [(pg.data / path).read_bytes()]
            for at in range(0, len(content), PAGE_SIZE)
        ]


def test_every_header_field(pages: list[bytes], server_with_pageinspect: PostgresServer) -> None:
    assert len(pages) > 500
    views = [view_page(page, block) for block, page in enumerate(pages)]
    with server_with_pageinspect.connect() as connection:
        for start in range(0, len(pages), 100):
            part = pages[start : start + 100]
            for view, shown in zip(views[start:], connection.execute(_HEADERS, (part,)).fetchall(), strict=False):
                assert _header(view) == shown[1:], view.block
            lines: dict[int, list[tuple[object, ...]]] = {n: [] for n in range(len(part))}
            for number, *row in connection.execute(_ITEMS, (part,)).fetchall():
                lines[number - 1].append(tuple(row))
            for number, shown_lines in lines.items():
                assert _lines(views[start + number]) == shown_lines, start + number
    assert {line.state for view in views for line in view.lines} == set(LINES.values())
    _check_walk(pages)


def _check_walk(pages: list[bytes]) -> None:
    """The walk of a load finds the same tuples."""
    walker = PageWalker()
    for start in range(0, len(pages), walker.max_pages):
        part = pages[start : start + walker.max_pages]
        walk = walker.walk(np.frombuffer(bytearray(b"".join(part)), np.uint8), start)
        assert walk.damage == ()
        expected = [
            (view.block, line.number, t.xmin, t.xmax, t.infomask, t.infomask2, t.ctid[1], t.attributes)
            for view in (view_page(page, start + n) for n, page in enumerate(part))
            for line in view.lines
            if (t := line.tuple) is not None
        ]
        h = walk.headers
        columns = (walk.block, walk.offnum, h.xmin, h.xmax, h.infomask, h.infomask2, h.ctid_offset, walk.data.natts)
        assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected


@pytest.fixture
def server_with_pageinspect(pg_newest: PostgresServer) -> PostgresServer:
    """The newest server looks at the pages of all: they have one layout."""
    pg_newest.execute("create extension if not exists pageinspect")
    return pg_newest


_HEADERS = """
select n, h.lsn::text, h.checksum::int4, h.flags::int4, h.lower::int4, h.upper::int4, h.special::int4,
  h.pagesize::int4, h.version::int4, h.prune_xid::text::int8
from unnest(%s::bytea[]) with ordinality p (page, n), page_header(page) h order by n"""
_ITEMS = """
select n, i.lp::int4, i.lp_off::int4, i.lp_flags::int4, i.lp_len::int4, i.t_xmin::text::int8, i.t_xmax::text::int8,
  i.t_field3::int8, i.t_ctid::text, i.t_infomask2, i.t_infomask, i.t_hoff::int4, i.t_bits,
  (heap_tuple_infomask_flags(i.t_infomask, i.t_infomask2)).raw_flags
from unnest(%s::bytea[]) with ordinality p (page, n), heap_page_items(page) i order by n, i.lp"""


def _header(view: PageView) -> tuple[object, ...]:
    h = view.header
    checksum = h.checksum - 65536 if h.checksum > 32767 else h.checksum
    return (str(h.lsn), checksum, h.flags, h.lower, h.upper, h.special, h.page_size, h.version, h.prune_xid)


def _lines(view: PageView) -> list[tuple[object, ...]]:
    states = {name: number for number, name in LINES.items()}
    shown: list[tuple[object, ...]] = []
    for line in view.lines:
        t = line.tuple
        fields: tuple[object, ...] = (None,) * 9
        if t is not None:
            ctid = f"({t.ctid[0]},{t.ctid[1]})"
            flags = list(t.flag_names)
            fields = (t.xmin, t.xmax, t.field3, ctid, t.infomask2, t.infomask, t.hoff, t.bits, flags)
        shown.append((line.number, line.offset, states[line.state], line.length, *fields))
    return shown
