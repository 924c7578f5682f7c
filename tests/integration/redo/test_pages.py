"""Redo against the server: after a window of every heap operation, each page in the page store is the server's page."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.conftest import MAJORS
from tests.integration.work import lock_and_update_at_once, run
from walshadow_core.api import Lsn, RelFileLocator
from walshadow_core.catalog.files.columns import CATALOGS
from walshadow_core.pgformat.heap import PAGE_SIZE
from walshadow_core.redo.store import PageStore
from walshadow_core.redo.window import Redo
from walshadow_core.stream.reader import WalReader
from walshadow_core.testing.postgres import PostgresServer

SETTINGS = {"max_prepared_transactions": "5", "autovacuum": "off", "wal_keep_size": "1GB"}
CASES = [
    *[pytest.param(major, "replica", True, "off", id=f"pg{major}-replica") for major in MAJORS],
    *[
        pytest.param(major, "logical", False, "off", id=f"pg{major}-logical-unchecked", marks=pytest.mark.slow)
        for major in MAJORS
    ],
    pytest.param(MAJORS[-1], "logical", True, "pglz", id="newest-pglz"),
    pytest.param(MAJORS[0], "replica", True, "lz4", id="oldest-lz4", marks=pytest.mark.slow),
    pytest.param(MAJORS[0], "replica", True, "zstd", id="oldest-zstd", marks=pytest.mark.slow),
]

BEFORE = """
create table t (id int primary key, a text, n int) with (fillfactor = 70);
insert into t select i, repeat('x', i % 200), i from generate_series(1, 4000) i;
create table keyless (a text, b int);
insert into keyless select md5(i::text), i from generate_series(1, 2000) i;
create table toasted (id int primary key, v text); alter table toasted alter v set storage external;
insert into toasted select i, repeat(md5(i::text), 200) from generate_series(1, 30) i;
create table parts (i int primary key, p text) partition by range (i);
create table low partition of parts for values from (0) to (100);
create table high partition of parts for values from (100) to (200);
insert into parts select i, 'p' from generate_series(0, 99) i;
"""

WINDOW = """
insert into t select i, 'new ' || i, i from generate_series(4001, 5000) i;
update t set a = a || 'hot' where id % 3 = 0;
update t set id = id + 100000 where id % 50 = 0;
update t set a = repeat('longer', 40) where id % 11 = 0;
delete from t where id % 7 = 0;
update keyless set b = b + 1 where b % 2 = 0;
delete from keyless where b % 5 = 0;
begin; update t set n = -1 where id < 300; rollback;
begin; insert into t values (900001, 'one', 1); savepoint s; insert into t values (900002, 'two', 2); rollback to s;
  insert into t values (900003, 'three', 3); savepoint r; delete from t where id = 900001; release r; commit;
begin; select * from t where id between 10 and 60 for update; commit;
begin; select * from t where id between 20 and 40 for share; select * from t where id = 21 for key share; commit;
insert into t values (1, 'conflict', 0) on conflict (id) do update set a = excluded.a;
insert into t values (2, 'conflict', 0) on conflict (id) do nothing;
insert into t values (800000, 'no conflict', 0) on conflict (id) do nothing;
update parts set i = i + 100 where i < 20;
vacuum t;
insert into t select i, 'into the gaps', i from generate_series(6001, 6500) i;
vacuum (freeze) keyless;
update keyless set a = 'thawed' where b % 3 = 0;
update toasted set v = repeat(md5(id::text || 'u'), 300) where id % 2 = 0;
delete from toasted where id % 3 = 0;
vacuum toasted;
checkpoint;
update t set n = n + 1 where id % 4 = 0;
begin; update t set a = 'prepared' where id between 100 and 120; prepare transaction 'kept';
begin; delete from t where id between 200 and 220; prepare transaction 'undone'; rollback prepared 'undone';
commit prepared 'kept';
delete from t where id > 3000;
vacuum t;
insert into keyless select 'copied', i from generate_series(1, 500) i;
set vacuum_freeze_min_age = 0; vacuum (freeze) t;
update t set a = 'after freezing' where id % 2 = 0;
select count(*) from t where a like 'x%';
update t set a = 'pruned on access' where id % 2 = 0;
update t set a = 'pruned on access again' where id % 2 = 0;
create table made (i int, v text); insert into made select i, 'made' from generate_series(1, 300) i;
alter table keyless add column c int default 5;
insert into keyless values ('with c', 1, 7);
analyze;
grant select on t to public;
create type mood as enum ('sad', 'happy'); alter type mood add value 'ok' before 'happy';
create table altered (id int primary key, m mood, t text); create index on altered (t); alter table altered add c int;
begin; alter table altered drop column t; alter table altered add undone text; create table never (a int); rollback;
begin; savepoint s; alter table altered add lost int; rollback to s; alter table altered rename id to other; commit;
alter table altered rename to renamed; alter table renamed alter c type bigint; alter table renamed replica identity full;
create temp table passing as select attrelid, attname from pg_attribute; drop table passing; drop table made;
create table made (i int, v text); insert into made select i, 'made' from generate_series(1, 300) i;
truncate renamed; vacuum full renamed; vacuum pg_class; vacuum pg_attribute; vacuum (freeze) pg_type;
create table last (id int generated always as identity primary key); comment on table last is 'last'; analyze made;
"""

HINTS = 0x0100 | 0x0200 | 0x0400 | 0x0800
COMBO = 0x0020


def locators(server: PostgresServer) -> dict[RelFileLocator, str]:
    """Where the tables, their TOAST relations, and the catalogs that descriptors are made of are."""
    rows = server.execute(
        "select c.oid::regclass::text, pg_relation_filenode(c.oid),"
        " coalesce(nullif(c.reltablespace, 0), d.dattablespace), d.oid from pg_class c, pg_database d"
        " where d.datname = current_database() and c.relkind in ('r', 't')"
        " and (c.oid >= 16384 or c.oid = any(%s))",
        ([catalog.oid for catalog in CATALOGS if not catalog.shared],),
    )
    return {RelFileLocator(space, database, number): name for name, number, space, database in rows}


def wal(server: PostgresServer, first: Lsn, last: Lsn, reader: WalReader, segment: int) -> Iterable[Any]:
    """The records of [first, last), which a WAL page's start begins."""
    for start in range(first - first % segment, last, segment):
        name = server.execute("select pg_walfile_name(%s::pg_lsn)", (str(Lsn(start + 1)),))[0][0]
        data = (server.data / "pg_wal" / name).read_bytes()
        low, high = max(first - start, 0), min(last - start, segment)
        yield from reader.feed(data[low:high])


def has_pageinspect(server: PostgresServer) -> bool:
    """Not every build brings it: then pages are read from their files, and looked at by another server."""
    return bool(server.execute("select from pg_available_extensions where name = 'pageinspect'"))


def raw_page(server: PostgresServer, name: str, block: int) -> bytes:
    """The page as the server has it; without pageinspect, as it wrote it to its file at the last checkpoint."""
    if has_pageinspect(server):
        page: bytes = server.execute("select get_raw_page(%s, %s)", (name, block))[0][0]
        return page
    path = server.data / server.execute("select pg_relation_filepath(%s::regclass)", (name,))[0][0]
    with path.open("rb") as file:
        file.seek(block * PAGE_SIZE)
        return file.read(PAGE_SIZE)


def items(server: PostgresServer, page: bytes) -> list[tuple[Any, ...]]:
    """What pageinspect shows of a page, without where on the page a tuple is, and hint bits."""
    rows = server.execute(
        "select lp, lp_flags, case when lp_flags = 2 then lp_off end, lp_len, t_xmin::text, t_xmax::text,"
        " t_ctid::text, t_infomask2, t_infomask, t_hoff, t_bits, t_data from heap_page_items(%s)",
        (page,),
    )
    out = []
    for lp, flags, off, size, xmin, xmax, ctid, mask2, mask, *rest in rows:
        frozen = mask is not None and mask & 0x0300 == 0x0300
        out.append((lp, flags, off, size, xmin, xmax, ctid, mask2, mask and mask & ~(HINTS | COMBO), frozen, *rest))
    return out


@pytest.mark.parametrize(("major", "level", "checksums", "compression"), CASES)
def test_every_page_of_the_store_is_the_servers(
    major: int, level: str, checksums: bool, compression: str, pg_newest: PostgresServer
) -> None:
    """Line pointers and tuples, byte for byte, hint bits and command ids aside; tables, TOAST, catalogs."""
    words = ["--locale=C", "--encoding=UTF8", "--wal-segsize=1"]
    if checksums != (major >= 18):
        words.append("--data-checksums" if checksums else "--no-data-checksums")
    with PostgresServer(major, settings={**SETTINGS, "wal_level": level}, initdb=tuple(words)) as server:
        try:
            server.execute(f"alter system set wal_compression = '{compression}'")
        except psycopg.Error as error:
            pytest.skip(f"this server's build has no {compression}: {error}")
        server.execute("select pg_reload_conf()")
        inspector = server if has_pageinspect(server) else pg_newest
        inspector.execute("create extension if not exists pageinspect")
        run(server, BEFORE)
        server.execute("checkpoint")
        redo_lsn = Lsn.parse(server.execute("select redo_lsn::text from pg_control_checkpoint()")[0][0])
        before = locators(server)
        run(server, WINDOW)
        lock_and_update_at_once(server, "t", 40)
        end = Lsn.parse(server.execute("select pg_current_wal_insert_lsn()::text")[0][0])
        server.execute("select pg_switch_wal()")
        names = {**before, **locators(server)}
        index = {locator: k for k, locator in enumerate(names)}
        with tempfile.TemporaryDirectory() as folder:
            # Little memory, so that the file is used as well.
            store = PageStore(2 << 20, Path(folder))
            redo = Redo(major, index, store)
            segment = 1 << 20
            page_start = Lsn(redo_lsn - redo_lsn % PAGE_SIZE)
            for records in wal(server, page_start, end, WalReader(page_start, major, segment), segment):
                redo.apply(records.between(redo_lsn, end))
            server.execute("checkpoint")
            compared = compare(server, inspector, store, names, index)
        assert compared["t"] > 50
        assert {"keyless", "toasted", "low", "high", "made"} <= set(compared)
        assert {"pg_class", "pg_attribute", "pg_type", "pg_enum", "pg_index", "pg_constraint"} <= set(compared)
        assert any(name.startswith("pg_toast") for name in compared)


def compare(
    server: PostgresServer,
    inspector: PostgresServer,
    store: PageStore,
    names: dict[RelFileLocator, str],
    index: dict[RelFileLocator, int],
) -> dict[str, int]:
    """Compare every page; how many there were by relation."""
    compared: dict[str, int] = {}
    for locator, relation in index.items():
        name = names[locator]
        blocks = server.execute("select pg_relation_size(%s::regclass) / 8192", (name,))[0][0]
        for key in store.keys().tolist():
            if key >> 32 != relation:
                continue
            block = key & 0xFFFFFFFF
            assert block < blocks, f"{name}: block {block} was cut off"
            theirs = raw_page(server, name, block)
            assert items(inspector, store.page(key).tobytes()) == items(inspector, theirs), f"{name}, block {block}"
            compared[name] = compared.get(name, 0) + 1
    return compared
