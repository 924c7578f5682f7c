"""Compressed and out-of-line values, through the whole program: every byte is what SELECT gives."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from tests.conftest import EmbeddedClickHouse, Ran
from tests.integration.support import assert_equal, database, load
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


def assert_same(pg: PostgresServer, db: str, to: EmbeddedClickHouse, table: str, key: str = "id") -> int:
    """Digest and length of every value are the same; gives the count of rows."""
    types = pg.execute(
        "select attname, format_type(atttypid, -1) from pg_attribute where attrelid = %s::regclass and attnum > 0 "
        "and not attisdropped", (table,), database=db,
    )  # fmt: skip
    values = {name: name if kind == "bytea" else f"convert_to({name}::text, 'UTF8')" for name, kind in types}
    ours = ", ".join(f"md5({v}), length({v})" for v in values.values())
    theirs = ", ".join(f"lower(hex(MD5(toString({name})))), length(toString({name}))" for name in values)
    here = pg.execute(f"select {key}, {ours} from {table} order by {key}", database=db)
    there = to.rows(f"SELECT {key}, {theirs} FROM {to.database}.{table} ORDER BY {key}")
    assert len(here) == len(there)
    for a, b in zip(here, there, strict=True):
        assert a == tuple(v.decode() if isinstance(v, bytes) else v for v in b)
    return len(here)


@pytest.mark.parametrize("method", ["pglz", "lz4"])
def test_values_of_every_size_and_storage(
    pg: PostgresServer, db: str, clickhouse: EmbeddedClickHouse, walshadow: Run, method: str
) -> None:
    if method not in METHODS[pg.major]:
        pytest.skip("the server was built without it")
    columns = ", ".join(f"{s} text, {s}_b bytea" for s in STORAGES)
    pg.execute(f"set default_toast_compression = {method}; create table t (id int primary key, {columns})", database=db)
    for s in STORAGES:
        pg.execute(f"alter table t alter {s} set storage {s}, alter {s}_b set storage {s}", database=db)
        pg.execute(
            f"alter table t alter {s} set compression {method}, alter {s}_b set compression {method}", database=db
        )
    sizes = [0, 1, 31, 100, 126, 127, 1500, 1990, CHUNK - 5, CHUNK, CHUNK + 1, 2000, 2032, 2033, 2500]
    more = [n * CHUNK + d for n in (2, 3, 4, 5, 8) for d in (-1, 0, 1)] + [8000, 8192, 20000, 1 << 20]
    row = 0
    for size in sizes + more:
        for s in STORAGES:
            if s == "plain" and size > 3000:
                continue
            text, data = words(size, size), noise(size, size) if size % 2 else words(size, size + 1).encode()[:size]
            pg.execute(f"insert into t (id, {s}, {s}_b) values (%s, %s, %s)", (row, text, None), database=db)
            pg.execute(f"insert into t (id, {s}, {s}_b) values (%s, %s, %s)", (row + 1, None, data), database=db)
            row += 2
    pg.execute("insert into t (id) values (-1)", database=db)
    ran = loaded(walshadow, pg, db, clickhouse, "t")
    assert ran.json["tables"][0]["toast_bytes"] > 1 << 20
    assert assert_same(pg, db, clickhouse, "t") > 100
    assert_equal(walshadow, pg, db, clickhouse, "t")
