"""Types of Postgres that a kernel each prints, against the server: networks, bits, money, geometry, ids, xml.

Values are random, with the known extremes first. What is printed is the output function's text; a column that is asked
for as text is what a cast to text prints, which is not the same for inet and xml.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from decimal import Decimal

import pytest

from tests.integration.types.heap_column import written_column
from walshadow_core.testing.postgres import PostgresServer

OUTPUT = "case when v is not null then concat(v) end"
"""What the output function prints."""
ROWS = 600

Make = Callable[[random.Random], str]


def number(rng: random.Random) -> str:
    """A float8 of any size, or a short one."""
    if rng.random() < 0.3:
        return str(rng.randrange(-1000, 1000) / 8)
    return str(struct.unpack("<d", rng.randbytes(8))[0])


def points(rng: random.Random, least: int, most: int) -> str:
    return ",".join(f"({number(rng)},{number(rng)})" for _ in range(rng.randrange(least, most + 1)))


def address4(rng: random.Random) -> str:
    return ".".join(str(rng.choice([0, 1, 255, rng.randrange(256)])) for _ in range(4))


def address6(rng: random.Random) -> str:
    words = [rng.choice([0, 0, 0, 1, 0xFFFF, rng.randrange(65536)]) for _ in range(8)]
    if rng.random() < 0.3:
        words[: rng.choice([5, 6, 7])] = [0] * rng.choice([5, 6, 7])
        words = [*words, *[0] * 8][:8]
    return ":".join(f"{w:x}" for w in words)


def inet(rng: random.Random) -> str:
    if rng.random() < 0.5:
        return f"{address4(rng)}/{rng.choice([0, 8, 24, 31, 32, 32, 32])}"
    return f"{address6(rng)}/{rng.choice([0, 64, 127, 128, 128, 128])}"


def cidr(rng: random.Random) -> str:
    bits = rng.randrange(33)
    net = rng.getrandbits(32) >> (32 - bits) << (32 - bits) if bits else 0
    return f"{'.'.join(str(b) for b in net.to_bytes(4, 'big'))}/{bits}"


def xml(rng: random.Random) -> str:
    """Content behind a declaration, or none; spaces wherever they may be."""
    q = rng.choice("'\"")

    def spaces(least: int = 0) -> str:
        return "".join(rng.choices(" \t\n\r", k=rng.randrange(least, 3)))

    def attribute(name: str, value: str) -> str:
        return f"{spaces(1)}{name}{spaces()}={spaces()}{q}{value}{q}"

    text = ""
    if rng.random() < 0.8:
        text = "<?xml" + attribute("version", rng.choice(["1.0", "1.0", "1.1"]))
        text += attribute("encoding", "UTF-8") if rng.random() < 0.5 else ""
        text += attribute("standalone", rng.choice(["yes", "no"])) if rng.random() < 0.5 else ""
        text += f"{spaces()}?>"
    text += rng.choice(["", "\n", "\n\n", " "])
    return text + rng.choice(["<a/>", "<ä b='1'>ß</ä>", "<a/><b/>", "text", "<?pi x?><a/>"])


TYPES: dict[str, tuple[Make, list[str]]] = {
    "inet": (inet, ["0.0.0.0/0", "255.255.255.255", "::", "::1", "1::", "::ffff:1.2.3.4", "::1.2.3.4/96", "0:0:1::/127"]),
    "cidr": (cidr, ["::/0", "::1/128", "10.0.0.0/8", "2001:db8::/32", "1.2.3.4/32", "::ffff:1.2.3.0/120"]),
    "macaddr": (lambda r: r.randbytes(6).hex(), ["000000000000", "ffffffffffff"]),
    "macaddr8": (lambda r: r.randbytes(8).hex(), ["00" * 8, "ff" * 8]),
    "bit(70)": (lambda r: f"{r.getrandbits(70):070b}", ["0" * 70, "1" * 70]),
    "varbit": (lambda r: "".join(r.choices("01", k=r.randrange(40))), ["", "0", "1", "10101010", "1" * 3000]),
    "point": (lambda r: points(r, 1, 1), ["(0,-0)", "(NaN,Infinity)", "(1e-320,-Infinity)"]),
    "lseg": (lambda r: f"[{points(r, 2, 2)}]", ["[(0,0),(0,0)]"]),
    "box": (lambda r: points(r, 2, 2), ["(0,0),(0,0)", "(1,NaN),(2,0)"]),
    "line": (lambda r: f"{{1,{number(r)},{number(r)}}}", ["{0,1,-0}", "{1,NaN,2}"]),
    "circle": (lambda r: f"<{points(r, 1, 1)},{abs(r.random() * 1e9)}>", ["<(0,0),0>", "<(1,2),Infinity>", "<(0,0),NaN>"]),
    "path": (lambda r: r.choice(["({})", "[{}]"]).format(points(r, 1, 9)), ["((0,0))", "[(0,0)]"]),
    "polygon": (lambda r: f"({points(r, 1, 9)})", ["((0,0))"]),
    "pg_lsn": (lambda r: f"{r.getrandbits(32):X}/{r.getrandbits(32):X}", ["0/0", "FFFFFFFF/FFFFFFFF", "10/0"]),
    "tid": (lambda r: f"({r.getrandbits(32)},{r.getrandbits(16)})", ["(0,0)", "(4294967295,65535)", "(65536,1)"]),
    "refcursor": (lambda r: "".join(r.choices("ab ä\t", k=r.randrange(9))), [""]),
    "xml": (xml, ["<a/>", "\n<a/>", "\n\n<a/>", "", '<?xml version="1.0"?>', "<?xml-stylesheet x?>\n<a/>"]),
}  # fmt: skip
AS_NUMBERS: dict[str, tuple[str, Callable[[str], object], list[str]]] = {
    "money": (
        "v::numeric",
        Decimal,
        ["0", "-0.01", "0.99", "1.00", "999.99", "-1000", "92233720368547758.07", "-92233720368547758.08"],
    ),
    "xid": ("v", int, ["0", "4294967295"]),
    "cid": ("v", int, ["0", "4294967295"]),
    "xid8": ("v", int, ["0", "18446744073709551615"]),
    "regclass": ("v::oid", int, ["pg_class", "-", "4294967295"]),
    "regproc": ("v::oid", int, ["byteain", "-"]),
    "regprocedure": ("v::oid", int, ["byteain(cstring)"]),
    "regoper": ("v::oid", int, ["||/", "0"]),
    "regoperator": ("v::oid", int, ["+(int4,int4)"]),
    "regtype": ("v::oid", int, ["int4", "text[]"]),
    "regrole": ("v::oid", int, ["postgres"]),
    "regnamespace": ("v::oid", int, ["pg_catalog"]),
    "regconfig": ("v::oid", int, ["simple"]),
    "regdictionary": ("v::oid", int, ["simple"]),
    "regcollation": ("v::oid", int, ['"C"']),
}


def values(name: str, rows: int, seed: int) -> Iterator[str | None]:
    make, extremes = TYPES[name]
    rng = random.Random(f"{name} {seed}")
    yield from extremes
    for _ in range(rows):
        yield make(rng) if rng.random() < 0.95 else None


def need_xml(server: PostgresServer) -> None:
    if server.execute("select setting from pg_config where name = 'CONFIGURE' and setting like '%libxml%'") == []:
        pytest.skip(f"this build of Postgres {server.major} has no libxml")


@pytest.mark.parametrize("name", TYPES)
def test_as_the_output_function_prints(pg: PostgresServer, name: str) -> None:
    if name == "xml":
        need_xml(pg)
    written_column(pg, name, values(name, ROWS, pg.major), print_as=OUTPUT).assert_same()


@pytest.mark.parametrize("name", ["inet", "cidr", "xml", "path"])
def test_as_a_cast_prints(pg: PostgresServer, name: str) -> None:
    if name == "xml":
        need_xml(pg)
    written_column(pg, name, values(name, 50, pg.major), form="text").assert_same()


@pytest.mark.parametrize("name", AS_NUMBERS)
def test_numbers(pg: PostgresServer, name: str) -> None:
    print_as, read, extremes = AS_NUMBERS[name]
    rng = random.Random(pg.major)
    texts: list[str | None] = [*extremes, None]
    if name == "money":
        texts += [f"{rng.randrange(-(2**63), 2**63) >> rng.randrange(64)}" for _ in range(ROWS)]
        texts[len(extremes) + 1 :] = [str(Decimal(t or 0).scaleb(-2)) for t in texts[len(extremes) + 1 :]]
    own = written_column(pg, name, texts, print_as=f"({print_as})::text")
    assert own.values.to_pylist() == [None if t is None else read(t) for t in own.printed]
    # A reg* type as text stays the number.
    shown = "v::text" if print_as != "v::oid" else "v::oid::text"
    written_column(pg, name, texts, form="text", print_as=shown).assert_same()


@pytest.mark.slow
@pytest.mark.parametrize("name", TYPES)
def test_many_values(pg: PostgresServer, name: str) -> None:
    if name == "xml":
        need_xml(pg)
    written_column(pg, name, values(name, 30_000, 100 + pg.major), print_as=OUTPUT).assert_same()
