"""Types of extensions, against servers that have them: citext, ltree, cube, pgvector's, PostGIS's.

Which server has which differs: the wheels bring some, a system's packages others. A test of one that is not there is
skipped and says so.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import pytest

from tests.integration.types.heap_column import Column, written_column
from walshadow_core.api import Form
from walshadow_core.testing.postgres import PostgresServer

DATABASE = "extension_types"
ROWS = 400

Make = Callable[[random.Random], str]


def number(rng: random.Random) -> str:
    return repr(rng.choice([0.0, -0.0, rng.uniform(-180, 180), rng.gauss(0, 1) * 10.0 ** rng.randrange(-9, 9)]))


def label(rng: random.Random) -> str:
    return "".join(rng.choices("abcXYZ_09", k=rng.randrange(1, 30)))


def cube(rng: random.Random) -> str:
    dimensions = rng.randrange(1, 6)
    first, second = (f"({','.join(number(rng) for _ in range(dimensions))})" for _ in range(2))
    return rng.choice([first, f"{first},{second}", f"{first},{first}"])


def dense(rng: random.Random) -> str:
    elements = (rng.gauss(0, 1) * 10.0 ** rng.randrange(-5, 4) for _ in range(rng.randrange(1, 40)))
    return f"[{','.join(repr(e) for e in elements)}]"


def sparse(rng: random.Random) -> str:
    places = sorted(rng.sample(range(1, 1000), rng.randrange(9)))
    return "{" + ",".join(f"{p}:{rng.uniform(-9, 9)}" for p in places) + "}/1000"


Z_AND_M = {"": 2, " Z": 3, " M": 3, " ZM": 4}


def geometry(rng: random.Random) -> str:
    """A geometry of any type in WKT; all in it have the same ordinates."""
    tag = rng.choice(list(Z_AND_M))
    ordinates = Z_AND_M[tag]

    def place() -> str:
        return " ".join(number(rng) for _ in range(ordinates))

    def line(least: int = 2) -> str:
        return "(" + ",".join(place() for _ in range(rng.randrange(least, least + 5))) + ")"

    def ring(least: int = 3, most: int = 7) -> str:
        first = place()
        return "(" + ",".join([first, *[place() for _ in range(rng.randrange(least, most) - 1)], first]) + ")"

    def some(part: Callable[[], str], least: int = 1) -> str:
        return "(" + ",".join(part() for _ in range(rng.randrange(least, 4))) + ")"

    def polygon() -> str:
        return some(ring)

    def tree(depth: int) -> str:
        kinds: dict[str, Callable[[], str]] = {
            "POINT": lambda: f"({place()})", "LINESTRING": line, "POLYGON": polygon,
            "MULTIPOINT": lambda: some(lambda: rng.choice(["EMPTY", f"({place()})"])),
            "MULTILINESTRING": lambda: some(line), "MULTIPOLYGON": lambda: some(polygon),
            "CIRCULARSTRING": lambda: f"({place()},{place()},{place()})",
            "CURVEPOLYGON": lambda: some(ring), "TRIANGLE": lambda: f"({ring(3, 4)})",
            "POLYHEDRALSURFACE": lambda: some(lambda: f"({ring(3, 4)})"), "TIN": lambda: some(lambda: f"({ring(3, 4)})"),
            "MULTICURVE": lambda: some(line), "MULTISURFACE": lambda: some(polygon),
        }  # fmt: skip
        if depth < 3:
            kinds["GEOMETRYCOLLECTION"] = lambda: some(lambda: tree(depth + 1))
        kind = rng.choice(list(kinds))
        return f"{kind}{tag} {'EMPTY' if rng.random() < 0.1 else kinds[kind]()}"

    return rng.choice(["", "", f"SRID={rng.randrange(1, 999_000)};"]) + tree(0)


def geography(rng: random.Random) -> str:
    places = [f"{rng.uniform(-180, 180)} {rng.uniform(-90, 90)}" for _ in range(rng.randrange(2, 9))]
    return rng.choice([f"POINT({places[0]})", f"LINESTRING({','.join(places)})", f"MULTIPOINT({','.join(places)})"])


TYPES: dict[str, tuple[str, Make, list[str]]] = {
    "citext": ("citext", lambda r: "".join(r.choices("aB ä€", k=r.randrange(20))), [""]),
    "ltree": ("ltree", lambda r: ".".join(label(r) for _ in range(r.randrange(9))), ["", "x" * 255, "a.b.c"]),
    "cube": ("cube", cube, ["()", "(1,2),(1,2)", "(0),(-0)", "(NaN)", "(NaN),(NaN)", "(Infinity,-1e300)"]),
    "vector": ("vector", dense, ["[0]", "[-3.4e38,1e-45]"]),
    "halfvec": ("vector", dense, ["[0]", "[65504,-5.96e-8,6.1e-5]"]),
    "sparsevec": ("vector", sparse, ["{}/5", "{1000000000:1}/1000000000"]),
    "geometry": ("postgis", geometry, [
        "POINT EMPTY", "SRID=4326;POINT EMPTY", "POINT ZM EMPTY", "GEOMETRYCOLLECTION EMPTY", "POINT(NaN NaN)",
        "GEOMETRYCOLLECTION(POINT EMPTY,LINESTRING EMPTY,POLYGON EMPTY)", "TRIANGLE EMPTY", "TIN EMPTY",
        "COMPOUNDCURVE(CIRCULARSTRING(0 0,1 1,1 0),(1 0,0 1))", "SRID=999999;POINT(1 2)",
        "CURVEPOLYGON(COMPOUNDCURVE(CIRCULARSTRING(0 0,2 0,2 1,2 3,4 3),(4 3,4 5,1 4,0 0)))",
        "MULTISURFACE(CURVEPOLYGON(CIRCULARSTRING(0 0,4 0,4 4,0 4,0 0)),((10 10,14 12,11 10,10 10)))",
        "MULTICURVE((0 0,5 5),CIRCULARSTRING(4 0,4 4,8 4))", "COMPOUNDCURVE EMPTY", "POLYHEDRALSURFACE EMPTY",
    ]),
    "geography": ("postgis", geography, ["POINT EMPTY", "POINT Z(1 2 3)", "SRID=4267;POINT(0 0)"]),
}  # fmt: skip


def column(server: PostgresServer, name: str, rows: int, form: Form, print_as: str = "v::text") -> Column:
    """Skips the test if the server does not have the type."""
    extension, make, extremes = TYPES[name]
    if not server.execute("select 1 from pg_available_extensions where name = %s", (extension,)):
        pytest.skip(f"Postgres {server.major} here has no extension {extension}")
    if not server.execute("select 1 from pg_database where datname = %s", (DATABASE,)):
        server.execute(f"create database {DATABASE}")
    server.execute(f"create extension if not exists {extension}", database=DATABASE)
    if not server.execute("select 1 from pg_type where typname = %s", (name,), DATABASE):
        pytest.skip(f"the extension {extension} of Postgres {server.major} here has no type {name}")
    rng = random.Random(f"{name} {server.major}")
    texts = [*extremes, *(make(rng) if rng.random() < 0.95 else None for _ in range(rows))]
    return written_column(server, name, texts, database=DATABASE, form=form, print_as=print_as)


@pytest.mark.parametrize("name", TYPES)
def test_as_printed(pg: PostgresServer, name: str) -> None:
    column(pg, name, ROWS, "text").assert_same()


@pytest.mark.parametrize("name", ["vector", "halfvec"])
def test_vectors_are_lists(pg: PostgresServer, name: str) -> None:
    got = column(pg, name, ROWS, "own", print_as="array_to_json(v::real[])::text")
    for mine, theirs in zip(got.values, got.printed, strict=True):
        assert (mine.as_py() is None) == (theirs is None)
        if theirs is not None:
            as_stored = [struct.unpack("<f", struct.pack("<f", float(x)))[0] for x in theirs.strip("[]").split(",")]
            assert mine.as_py() == as_stored


@pytest.mark.slow
@pytest.mark.parametrize("name", TYPES)
def test_many_values(pg: PostgresServer, name: str) -> None:
    column(pg, name, 20_000, "text").assert_same()
