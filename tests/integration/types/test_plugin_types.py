"""A plugin that adds a type: the example of the hook's documentation, from the server's file to ClickHouse."""

from __future__ import annotations

import importlib.metadata
from dataclasses import replace
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from tests.conftest import EmbeddedClickHouse
from tests.integration.exact.meddler import Meddler, stand_between
from tests.integration.support import Run, assert_equal, database, load
from tests.integration.types.heap_column import pg_type, written_column
from walshadow_core.api import PgType, PluginInfo, StoredValues, TypeCodec, hookimpl
from walshadow_core.testing.postgres import PostgresServer

ROWS = ["978-0-11-000222-4", None, "978-0-393-04002-9", "9780111000200!"]


def decode_ean(values: StoredValues) -> pa.Array:
    return pa.array(values.fixed("<u8") >> 1, mask=~values.valid)


@hookimpl
def walshadow_plugin_info() -> PluginInfo:
    return PluginInfo(name="isn", summary="the types of the extension isn")


@hookimpl
def walshadow_type_codec(pg_type: PgType) -> TypeCodec | None:
    if pg_type.name not in ("ean13", "isbn13"):
        return None
    return TypeCodec(pa.uint64(), decode_ean, suggested_type="UInt64")


class Point:
    """The entry point of this very module."""

    name = "isn"
    dist = None

    def load(self) -> Any:
        module = ModuleType("isn")
        module.walshadow_plugin_info = walshadow_plugin_info  # type: ignore[attr-defined]
        module.walshadow_type_codec = walshadow_type_codec  # type: ignore[attr-defined]
        return module


@pytest.fixture
def isn(pg: PostgresServer) -> Any:
    if not pg.execute("select 1 from pg_available_extensions where name = 'isn'"):
        pytest.skip(f"the Postgres {pg.major} here has no isn")
    with database(pg) as name:
        pg.execute("create extension isn; select isn_weak(true)", database=name)
        yield name


def test_a_column_is_what_the_plugin_makes_of_it(pg: PostgresServer, isn: str) -> None:
    known = pg_type(pg, "isbn13", isn)
    known = replace(known, codec=walshadow_type_codec(known))
    column = written_column(pg, "isbn13", [t for t in ROWS if t is None or "!" not in t], database=isn, type_=known)
    assert column.values.type == pa.uint64()
    assert column.values.to_pylist() == [None if t is None else int(t.replace("-", "")) for t in column.printed]


def test_the_bytes_in_hex_without_a_plugin(pg: PostgresServer, isn: str) -> None:
    column = written_column(pg, "isbn13", ROWS[:3], database=isn, form="hex")
    numbers = [
        None if v is None else int.from_bytes(bytes.fromhex(v), "little") >> 1 for v in column.values.to_pylist()
    ]
    assert numbers == [9780110002224, None, 9780393040029]


def test_a_load_with_it_and_without(
    pg: PostgresServer, isn: str, clickhouse: EmbeddedClickHouse, walshadow: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pg.execute(
        """create domain book as isbn13;
        create table books(id int primary key, code isbn13 not null, other ean13, more isbn13[], same book);
        insert into books values (1, '978-0-11-000222-4', null, '{978-0-393-04002-9,null}', '978-0-393-04002-9')""",
        database=isn,
    )
    refused = load(walshadow, pg, isn, clickhouse, "--table", "books")
    assert refused.code == 1
    assert "code" in refused.err and "isbn13" in refused.err and "hex" in refused.err
    real = importlib.metadata.entry_points
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **words: [*real(**words), Point()])
    loaded = load(walshadow, pg, isn, clickhouse, "--table", "books")
    assert loaded.code == 0, loaded.err
    rows = clickhouse.rows(f"select id, code, other, more, same, toTypeName(code) from {clickhouse.database}.books")
    assert rows == [(1, 9780110002224, None, [9780393040029, None], 9780393040029, "UInt64")]
    assert_equal(walshadow, pg, isn, clickhouse, "books")


def test_a_table_that_is_read_again(
    pg: PostgresServer, isn: str, clickhouse: EmbeddedClickHouse, walshadow: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its descriptor is another one then, whose types the plugin is asked about as well."""
    pg.execute("create table books as select 1 as id, '978-0-11-000222-4'::isbn13 as code", database=isn)
    real = importlib.metadata.entry_points
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **words: [*real(**words), Point()])
    stand_between(monkeypatch, Meddler(begun=lambda: pg.execute("vacuum full books", database=isn)))
    loaded = load(walshadow, pg, isn, clickhouse, "--table", "books")
    assert loaded.code == 0, loaded.err
    assert loaded.json["tables"][0]["passes"] == 2
    assert clickhouse.rows(f"select id, code from {clickhouse.database}.books") == [(1, 9780110002224)]


def test_a_load_of_the_bytes_in_hex(pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run) -> None:
    with database(pg_newest) as name:
        pg_newest.execute(
            "create extension seg; create table s(id int primary key, v seg, a aclitem);"
            " insert into s values (1, '1.5 .. 2.5', 'postgres=r/postgres'), (2, null, null)",
            database=name,
        )
        chosen = ("--type", "public.s.v=hex", "--type", "public.s.a=hex")
        loaded = load(walshadow, pg_newest, name, clickhouse, "--table", "s", *chosen)
        assert loaded.code == 0, loaded.err
        oid = int(pg_newest.execute("select 'postgres'::regrole::oid::int8")[0][0])
        assert clickhouse.rows(f"select id, v, a from {clickhouse.database}.s order by id") == [
            (1, "0000c03f00002040" + "02020000", oid.to_bytes(4, "little").hex() * 2 + "02000000" + "00000000"),
            (2, None, None),
        ]
