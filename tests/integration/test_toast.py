"""Compressed and out-of-line values, through the whole program: every byte is what SELECT gives."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from walshadow_sink_clickhouse.engine import EngineProcess

from tests.conftest import EmbeddedClickHouse, Ran
from tests.integration.support import assert_equal, database, load, with_peak
from walshadow_core.plugins import Plugins
from walshadow_core.testing.postgres import PostgresServer

Run = Callable[..., Ran]

METHODS = {15: ("pglz", "lz4"), 16: ("pglz",), 17: ("pglz", "lz4"), 18: ("pglz",)}
"""What the servers at hand were built with."""
STORAGES = ("plain", "main", "external", "extended")
CHUNK = 1996


@pytest.fixture
def db(pg: PostgresServer) -> Iterator[str]:
    with database(pg) as name:
        yield name


def words(size: int, seed: int) -> str:
    """Text that compresses to about half, as long as that."""
    rng = random.Random(seed)
    known = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyzäöü", k=rng.randint(2, 9))) for _ in range(200)]
    parts: list[str] = []
    length = 0
    while length < size:
        parts.append(rng.choice(known) + str(rng.randint(0, 99)))
        length += len(parts[-1]) + 1
    return " ".join(parts)[:size]


def noise(size: int, seed: int) -> bytes:
    """Bytes that don't compress."""
    return random.Random(seed).randbytes(size)


def loaded(run: Run, pg: PostgresServer, db: str, to: EmbeddedClickHouse, table: str, *more: str) -> Ran:
    """Load it, and see that it went well."""
    ran = load(run, pg, db, to, "--table", table, *more)
    assert ran.code == 0, ran.err + ran.out
    return ran


def assert_same(pg: PostgresServer, db: str, to: EmbeddedClickHouse, table: str, without: str = "") -> int:
    """Digest and length of every value are the same; gives the count of rows."""
    types = pg.execute(
        "select attname, format_type(atttypid, -1) from pg_attribute where attrelid = %s::regclass and attnum > 0 "
        "and not attisdropped and attname <> %s", (table, without), database=db,
    )  # fmt: skip
    values = {
        name: name if kind == "bytea" else f"convert_to(case when {name} is not null then concat({name}) end, 'UTF8')"
        for name, kind in types
    }
    ours = ", ".join(f"md5({v}), length({v})" for v in values.values())
    theirs = ", ".join(f"lower(hex(MD5(toString({name})))), length(toString({name}))" for name in values)
    here = pg.execute(f"select {ours} from {table} order by id", database=db)
    there = to.rows(f"SELECT {theirs} FROM {to.database}.{table} ORDER BY id")
    assert len(here) == len(there)
    for a, b in zip(here, there, strict=True):
        assert a == tuple(v.decode() if isinstance(v, bytes) else v for v in b)
    return len(here)


def test_values_of_every_size_storage_and_method(
    pg: PostgresServer, db: str, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    columns = [f"{storage}_{method}" for storage in STORAGES for method in METHODS[pg.major]]
    pg.execute(
        f"create table t (id int primary key, {', '.join(f'{c} text, {c}_b bytea' for c in columns)})", database=db
    )
    for c in columns:
        storage, method = c.split("_")
        for name in (c, f"{c}_b"):
            change = f"alter {name} set storage {storage}, alter {name} set compression {method}"
            pg.execute(f"alter table t {change}", database=db)
    sizes = [0, 1, 31, 126, 127, 1500, CHUNK - 5, CHUNK, CHUNK + 1, 2000, 2032, 2033, 2500]
    sizes += [n * CHUNK + d for n in (2, 3, 4, 5, 8) for d in (-1, 0, 1)] + [8000, 8192, 20000, 1 << 20]
    with pg.connect(db) as connection:
        row = 0
        for size in sizes:
            text = words(size, size)
            data = noise(size, size) if size % 2 else text.encode()[:size]
            for c in columns:
                if not (c.startswith("plain") and size > 3000):
                    connection.execute(f"insert into t (id, {c}) values (%s, %s)", (row, text))
                    connection.execute(f"insert into t (id, {c}_b) values (%s, %s)", (row + 1, data))
                    row += 2
        connection.execute("insert into t (id) values (-1)")
    ran = loaded(walshadow, pg, db, clickhouse, "t")
    assert ran.json["tables"][0]["toast_bytes"] > 1 << 20
    assert assert_same(pg, db, clickhouse, "t") > 100
    assert_equal(walshadow, pg, db, clickhouse, "t")


TEXT = "(select string_agg(md5((g * {n} + k)::text), '') from generate_series(1, {n}) k)"
"""Text of 32 * n characters that compresses badly."""
ZIPS = "repeat(md5((g + {n})::text), {n})"
"""Text of 32 * n characters that compresses well."""


def test_what_transactions_did(pg: PostgresServer, db: str, clickhouse: EmbeddedClickHouse, walshadow: Run) -> None:
    """Several toasted columns, NULLs between them; rows updated with and without their pointers, deleted, aborted, and
    chunks whose deleter has not ended."""
    run = partial(pg.execute, database=db)
    run("create table t (id int primary key, v int, a text, b text, c bytea, d text)")
    run("alter table t alter b set storage external")
    run(
        f"""insert into t select g, 0, case when g % 3 > 0 then {TEXT.format(n=150)} end, {ZIPS.format(n=200)},
        case when g % 4 > 0 then convert_to({TEXT.format(n=70)}, 'UTF8') end, {ZIPS.format(n=3000)}
        from generate_series(1, 120) g"""
    )
    run("update t set v = 1 where id % 2 = 0")
    run("update t set v = 2, b = b || 'changed' where id % 5 = 0")
    run("delete from t where id % 7 = 0")
    run(
        f"""begin; insert into t select 1000 + g, 9, {TEXT.format(n=150)}, {TEXT.format(n=90)} from generate_series(1, 20) g;
        update t set a = {TEXT.format(n=160).replace("g *", "id *")}; delete from t where id < 50; rollback"""
    )
    run(
        f"""begin; insert into t select 2000 + g, 9, {TEXT.format(n=150)} from generate_series(1, 5) g; savepoint s;
        insert into t select 3000 + g, 9, {TEXT.format(n=150)} from generate_series(1, 5) g; rollback to s;
        insert into t select 4000 + g, 9, {TEXT.format(n=150)} from generate_series(1, 5) g; commit"""
    )
    with pg.connect(db) as open_:
        open_.execute("begin")
        open_.execute("delete from t where id between 60 and 80")
        open_.execute("update t set a = repeat(a, 2), b = 'short' where id between 90 and 110")
        ran = loaded(walshadow, pg, db, clickhouse, "t", "--jobs", "2", "--memory", "32")
        assert ran.json["tables"][0]["rows_gated"] > 50
        assert assert_same(pg, db, clickhouse, "t") > 100
        open_.execute("rollback")


REWRITES = {
    "full": "vacuum full t_full",
    "sorted": "cluster t_sorted using t_sorted_pkey",
    "altered": "alter table t_altered alter v type bigint",
}


def test_tables_that_were_rewritten(
    pg: PostgresServer, db: str, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    """VACUUM FULL and CLUSTER keep value ids, and copy rows that others may still see; an ALTER TABLE makes new ones."""
    run = partial(pg.execute, database=db)
    for name, rewrite in REWRITES.items():
        t = f"t_{name}"
        run(f"create table {t} (id int primary key, v int, a text, b text)")
        run(f"insert into {t} select g, 0, {TEXT.format(n=150)}, {ZIPS.format(n=3000)} from generate_series(1, 60) g")
        with pg.connect(db) as old:
            old.execute("begin isolation level repeatable read")
            old.execute("select count(*) from pg_class")
            run(f"update {t} set v = id where id % 2 = 0")
            run(f"delete from {t} where id % 3 = 0")
            run(rewrite)
        run(f"update {t} set v = -1, a = a || 'x' where id % 10 = 1")
    loaded(walshadow, pg, db, clickhouse, "t_full", "--table", "t_sorted", "--table", "t_altered")
    for name in REWRITES:
        assert assert_same(pg, db, clickhouse, f"t_{name}") == 40


def test_types_and_another_encoding(pg: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run) -> None:
    """Toasted values of other types; text in LATIN1 comes out as UTF-8."""
    with database(pg, "encoding 'LATIN1' locale 'C' template template0") as db:
        run = partial(pg.execute, database=db)
        run("create table t (id int primary key, t text, v varchar(20000), c char(9000), n numeric, j json, b bytea)")
        run(
            """insert into t select g, repeat('größe' || g, g * 300), repeat('ÄÖÜ' || g, 2000), 'é' || g,
            (repeat(g::text, 4000) || '.' || repeat('7', g * 100))::numeric,
            ('{"a": "' || repeat('ß' || g, 4000) || '"}')::json, convert_to(repeat('xyz' || g, g * 999), 'UTF8')
            from generate_series(1, 30) g"""
        )
        run("alter table t alter t set storage external, alter n set storage external, alter j set storage external")
        run("insert into t select id + 100, t || 'x', v, c, n + 1, j, b || '\\x00' from t")
        loaded(walshadow, pg, db, clickhouse, "t")
        assert assert_same(pg, db, clickhouse, "t") == 60


def test_large_values(pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run) -> None:
    """50 MB each: text that compresses some, text that compresses as far as can be, bytes as they are."""
    with database(pg_newest) as db:
        run = partial(pg_newest.execute, database=db)
        run("create table t (id int primary key, a text, b bytea)")
        run("alter table t alter b set storage external")
        run(
            """insert into t
            select 1, repeat(string_agg(k % 97 || ' words, ', ''), 5500), null from generate_series(1, 1000) k union all
            select 2, 'small', convert_to(repeat(string_agg(md5(k::text), ''), 520), 'UTF8') from generate_series(1, 3000) k
            union all select 3, repeat('x', 50000000), ''"""
        )
        assert run("select count(*) from t where length(a) >= 50000000 or length(b) >= 49000000") == [(3,)]
        loaded(walshadow, pg_newest, db, clickhouse, "t", "--memory", "32")
        assert assert_same(pg_newest, db, clickhouse, "t") == 3


def test_ids_are_not_given_again(clickhouse: EmbeddedClickHouse, walshadow: Run) -> None:
    """Though the oid counter came around: as long as chunks of a transaction that failed are in the pages, their ids
    are taken, even after their inserter is known to have aborted. So one id has one value."""
    with PostgresServer(15, settings={"autovacuum": "off"}) as pg:
        pg.execute("create table t (id int primary key, a text); alter table t alter a set storage external")
        toast = pg.execute("select reltoastrelid::regclass::text from pg_class where relname = 't'")[0][0]
        with pg.connect() as connection:
            connection.execute("begin; insert into t select g, repeat('old', 3000) from generate_series(1, 9) g")
            ids = [row[0] for row in connection.execute(f"select distinct chunk_id from {toast}").fetchall()]
            connection.rollback()
        # Whoever reads the chunks leaves the hint that their inserter has aborted.
        assert pg.execute(f"select count(*) from {toast}") == [(0,)]
        pg.stop()
        pg.run("pg_resetwal", "-o", str(min(ids)), str(pg.data))
        pg.start()
        pg.execute("insert into t select g, repeat('new' || g, 3000) from generate_series(1, 9) g")
        again = {row[0] for row in pg.execute(f"select distinct chunk_id from {toast}")}
        assert len(again) == 9 and not again & set(ids) and min(again) < max(ids) + 100
        loaded(walshadow, pg, "postgres", clickhouse, "t")
        assert assert_same(pg, "postgres", clickhouse, "t") == 9


def test_partitions_have_toast_of_their_own(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    """Leaves with columns in another order; one column of the root is left out, and its values are not looked up."""
    with database(pg_newest) as db:
        run = partial(pg_newest.execute, database=db)
        run("create table t (id int primary key, a text, b bytea, c text) partition by range (id)")
        run("create table t1 partition of t for values from (1) to (100)")
        run("create table t2 (c text, gone int, b bytea, id int not null, a text)")
        run("alter table t2 drop column gone")
        run("alter table t attach partition t2 for values from (100) to (200)")
        run("alter table t1 alter a set storage external; alter table t2 alter c set storage external")
        run(
            f"""insert into t select g, {TEXT.format(n=100)}, convert_to({TEXT.format(n=80)}, 'UTF8'), {TEXT.format(n=90)}
            from generate_series(1, 199) g where g % 3 > 0"""
        )
        loaded(walshadow, pg_newest, db, clickhouse, "t", "--exclude", "t.c")
        assert assert_same(pg_newest, db, clickhouse, "t", without="c") == 133


class Cut:
    """A backup source whose backup lacks one page of one file: it is all zeros there."""

    def __init__(self, source: Any, path: str, page: int) -> None:
        self._source, self._path, self._page = source, path, page

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    @contextmanager
    def open(self, request: Any) -> Iterator[Any]:
        with self._source.open(request) as backup:
            cut = self

            class Backup:
                start = backup.start

                def end(self) -> Any:
                    return backup.end()

                def parts(self) -> list[Any]:
                    return [Part(part) for part in backup.parts()]

            class Part:
                def __init__(self, part: Any) -> None:
                    self._part = part

                def __getattr__(self, name: str) -> Any:
                    return getattr(self._part, name)

                def files(self) -> Iterator[Any]:
                    return (File(f) if f.path == cut._path else f for f in self._part.files())

            class File:
                def __init__(self, file: Any) -> None:
                    self.path, self.size, self._file = file.path, file.size, file

                def chunks(self) -> Iterator[memoryview]:
                    content = bytearray(b"".join(map(bytes, self._file.chunks())))
                    content[cut._page * 8192 : (cut._page + 1) * 8192] = bytes(8192)
                    yield memoryview(content)

            yield Backup()


def test_a_value_that_is_not_whole_fails_by_name(
    pg: PostgresServer, db: str, clickhouse: EmbeddedClickHouse, walshadow: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = partial(pg.execute, database=db)
    run(
        "create table t (id int primary key, small text, body text); create table other (id int primary key, body text)"
    )
    run("alter table t alter body set storage external; alter table other alter body set storage external")
    run("insert into t select g, 'row', repeat(chr(64 + g), 9000) from generate_series(1, 9) g")
    run("insert into other select * from (select id, body from t) s")
    path, toast = run(
        "select pg_relation_filepath(reltoastrelid), reltoastrelid::regclass::text from pg_class where relname = 't'"
    )[0]
    value, seq = run(f"select chunk_id, chunk_seq from {toast} where ctid::text like '(2,%' order by 1, 2 limit 1")[0]
    source = Plugins.source
    monkeypatch.setattr(Plugins, "source", lambda *words: Cut(source(*words), path, 2))
    ran = load(walshadow, pg, db, clickhouse, "--table", "t", "--table", "other")
    assert ran.code == 3
    states = {t["table"]: t for t in ran.json["tables"]}
    assert states["public.other"]["status"] == "done"
    error = states["public.t"]["error"]
    assert states["public.t"]["status"] == "failed"
    assert f'column "body": TOAST value {value} lacks chunk {seq} of 5' in error
    assert "public.t" in error and "block 0, line pointer" in error
    assert clickhouse.tables() == {"other"}
    assert_same(pg, db, clickhouse, "other")


BUDGET = 192
"""MiB: the default of --memory."""


@pytest.mark.parametrize("mib", [200, pytest.param(2048, marks=pytest.mark.slow)])
def test_memory_does_not_grow_with_toast(pg_newest: PostgresServer, tmp_path: Path, mib: int) -> None:
    """The whole process, its libraries and kernels included, stays under the budget and 200 MiB."""

    def peak(db: str, url: str, table: str) -> float:
        words = ("load", "--source", pg_newest.dsn(db), "--to", url, "--table", table, "--json", "--no-progress")
        ran, peak = with_peak(*words)
        assert ran.code == 0, ran.err
        return peak

    with database(pg_newest) as db, EngineProcess(tmp_path / "engine") as engine:
        for table, rows in (("few", 10), ("many", (mib << 20) // 8000)):
            pg_newest.execute(f"create table {table} (id int primary key, v text)", database=db)
            pg_newest.execute(f"alter table {table} alter v set storage external", database=db)
            insert = f"insert into {table} select g, repeat(md5(g::text), 250) from generate_series(1, {rows}) g"
            pg_newest.execute(insert, database=db)
        few, many = (peak(db, engine.url("big"), table) for table in ("few", "many"))
        print(f"peak: {few:.0f} MiB for 10 rows, {many:.0f} MiB for {mib} MiB of TOAST")
        assert many < BUDGET + 200
