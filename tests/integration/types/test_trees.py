"""jsonb, jsonpath, hstore, tsvector, tsquery and snapshots: what servers of every major print, for random values."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator

import pytest

from tests.integration.support import database
from tests.integration.types import trees
from tests.integration.types.heap_column import written_column
from walshadow_core.testing.postgres import PostgresServer

JSON_TEXTS = [
    "null", "true", '""', "[]", "{}", "[[], {}, [[]]]", '{"": {"": [null]}}', "0", "-0", "-0.0", "0.00", "1e400", "1e-400",
    "-1.50", "100000", "12345678901234567890.12345678901234567890", '{"a": 1, "a": 2, "b": 3}', '{"bb": 1, "a": 2, "c": 3}',
    json.dumps(list(range(300))), json.dumps({str(k): [k, "v" * (k % 9)] for k in range(150)}),
    "[" * 300 + "]" * 300, '{"a":' * 200 + "1" + "}" * 200, '"\\u00e9\\ud83d\\ude00\\u0001\\/"', json.dumps("\\" * 99 + '"' * 99),
    "[" + ", ".join(["9" * 40] * 70) + "]", '"' + "é" * 1500 + '"',
]  # fmt: skip
PATHS = [
    "$", "strict $", "-1", "(-1).abs()", "1 - (2 - 3)", "(1 - 2) - 3", "($.a + $[1 to 5, 7] ? (@ > 3).double()).type()",
    "!($.a == 1)", "($.a like_regex \"x\")", "$.a[last - 1 to last]", '"a"', "null", "$v", '$"v x"', "+$.a", "-$[*]",
    "$.datetime()", "$.a ? (@.b == 1 && (@.c == 2 || @.d == 3))", "$.**{2147483647}", "$." + ".".join(["a"] * 300),
    "!(" * 100 + "$ == 1" + ")" * 100,
]  # fmt: skip


def some(make: Callable[[random.Random], str], seed: int, many: int) -> Iterator[str | None]:
    """Random texts, a NULL now and then."""
    rng = random.Random(seed)
    return (None if k % 50 == 0 else make(rng) for k in range(many))


def few_bytes(texts: Iterator[str | None]) -> Iterator[str | None]:
    """Those that fit in a page."""
    return (t for t in texts if t is None or len(t.encode()) < 3000)


def test_jsonb(pg: PostgresServer) -> None:
    written_column(pg, "jsonb", [*JSON_TEXTS, *few_bytes(some(trees.json_text, pg.major, 4000))]).assert_same()


def test_jsonpath(pg: PostgresServer) -> None:
    rng = random.Random(pg.major)
    texts = [trees.Paths(rng, pg.major).text() for _ in range(2500)]
    written_column(pg, "jsonpath", [None, *PATHS, *few_bytes(iter(texts))]).assert_same()


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("tsvector", trees.vector),
        ("tsquery", trees.query),
        ("pg_snapshot", trees.snapshot),
        ("txid_snapshot", trees.snapshot),
    ],
)
def test_text_search_and_snapshots(pg: PostgresServer, name: str, make: Callable[[random.Random], str]) -> None:
    written_column(pg, name, few_bytes(some(make, pg.major, 1500))).assert_same()


def test_hstore(pg: PostgresServer) -> None:
    if not pg.execute("select 1 from pg_available_extensions where name = 'hstore'"):
        pytest.skip(f"the Postgres {pg.major} here has no hstore")
    with database(pg) as name:
        pg.execute("create extension hstore", database=name)
        texts = ["", '""=>""', '"a"=>NULL', *some(trees.hstore, pg.major, 2000)]
        written_column(pg, "hstore", texts, database=name).assert_same()


@pytest.mark.parametrize("encoding", ["LATIN1", "EUC_JP", "SQL_ASCII"])
def test_other_encodings(pg_newest: PostgresServer, encoding: str) -> None:
    letters = {"LATIN1": "é", "EUC_JP": "日"}.get(encoding, "x")
    texts = {
        "jsonb": [json.dumps({f"{letters}\n": [f'"{letters}\\', letters * 30]}, ensure_ascii=False)],
        "jsonpath": [json.dumps(f"$.{letters}", ensure_ascii=False)],
        "tsvector": [f"'{letters}''' '{letters}\\\\x':1A"],
        "tsquery": [f"'{letters}''' & '{letters}\\\\x':*"],
    }
    with database(pg_newest, f"encoding '{encoding}' template template0 locale 'C'") as name:
        for type_name, values in texts.items():
            written_column(pg_newest, type_name, values, database=name).assert_same()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_many(pg: PostgresServer, seed: int) -> None:
    rng = random.Random(seed * 100 + pg.major)
    for name, make in {
        "jsonb": trees.json_text,
        "jsonpath": lambda r: trees.Paths(r, pg.major).text(),
        "tsvector": trees.vector,
        "tsquery": trees.query,
    }.items():
        written_column(pg, name, few_bytes(make(rng) for _ in range(40_000))).assert_same()
