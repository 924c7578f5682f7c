"""Damaged values of networks, bits, money, geometry, xml, vectors, PostGIS: a bad value, or some value, never a read outside.

Run it with NUMBA_BOUNDSCHECK=1: a read outside of an array is an IndexError then.
"""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.test_tree_types_fuzz import CAMPAIGN, check
from tests.stored_values import build
from tests.unit.decode.built import codec, use
from walshadow_core.api import Form
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.columns import DONE, NO_ROOM, SLACK, Codec, TypeUse, VarColumn


def extension(name: str) -> TypeUse:
    return use(16_400, name, schema="public")


def node(type_: int, count: int, *values: float) -> bytes:
    return struct.pack(f"<II{len(values)}d", type_, count, *values)


TREE = (
    node(7, 3) + node(1, 1, 1, 2) + node(7, 1) + node(1, 0)
    + node(3, 2) + struct.pack("<II", 1, 2) + struct.pack("<6d", 1, 2, 3, 4, 5, 6)
)  # fmt: skip
VALUES: dict[str, tuple[TypeUse, Form, list[bytes]]] = {
    "inet": (use(oid.INET), "own", [b"\2\x18\1\2\3\4", b"\3\x80" + bytes(15) + b"\1", b"\3\0" + b"\xff" * 16]),
    "cidr": (use(oid.CIDR), "own", [b"\2\x20\xff\xff\xff\xff"]),
    "macaddr": (use(oid.MACADDR, length=6), "own", [bytes(6)]),
    "varbit": (use(oid.VARBIT), "own", [b"\x0b\0\0\0\xff\xff", bytes(4)]),
    "money": (use(oid.MONEY, length=8), "own", [b"\xff" * 8]),
    "money as text": (use(oid.MONEY, length=8), "text", [bytes(7) + b"\x80", b"\xff" * 7 + b"\x7f"]),
    "float8": (use(oid.FLOAT8, length=8), "text", [struct.pack("<d", -2.2250738585072014e-308)]),
    "circle": (use(oid.CIRCLE, length=24), "own", [struct.pack("<3d", 1, 2, 3)]),
    "path": (use(oid.PATH), "own", [struct.pack("<iii4d", 2, 1, 0, 1, 2, 3, 4)]),
    "polygon": (use(oid.POLYGON), "own", [struct.pack("<i6d", 1, 0, 0, 0, 0, 1, 2)]),
    "pg_lsn": (use(oid.PG_LSN, length=8), "own", [b"\xff" * 8]),
    "tid": (use(oid.TID, length=6), "own", [b"\xff" * 6]),
    "xml": (use(oid.XML), "own", [
        b"<?xml version='1.1' encoding='x' standalone='yes' ?>\n<a/>", b"\n<a/>", b"<?xml  version=\"1.0\"?>",
    ]),
    "ltree": (extension("ltree"), "own", [b"\2\0\0\0\1\0a\0\0\0\0\0\2\0bc\0\0\0\0"]),
    "cube": (extension("cube"), "own", [struct.pack("<I4d", 2, 1, 2, 3, 4), struct.pack("<I2d", 1, 1, 1)]),
    "vector": (extension("vector"), "own", [struct.pack("<HH2f", 2, 0, 1, 2)]),
    "vector as text": (extension("vector"), "text", [struct.pack("<HH2f", 2, 0, -1.17549435e-38, 2)]),
    "halfvec": (extension("halfvec"), "own", [struct.pack("<HH2e", 2, 0, 1, 2)]),
    "halfvec as text": (extension("halfvec"), "text", [struct.pack("<HH2e", 2, 0, 1, 2)]),
    "sparsevec": (extension("sparsevec"), "own", [struct.pack("<iiiiiff", 5, 2, 0, 0, 3, 1, 2)]),
    "geometry": (extension("geometry"), "own", [
        b"\0\x10\xe6\x40" + TREE, b"\0\0\0\x45" + bytes(24) + node(15, 1) + node(14, 1, 1, 2, 3),
        b"\0\0\0\x50" + bytes(8) + node(2, 2, 1, 2, 3, 4),
    ]),
}  # fmt: skip
CODECS: dict[str, Codec] = {name: codec(of, form) for name, (of, form, _) in VALUES.items()}


def mutated(rng: random.Random, name: str) -> bytes:
    of, _, good = VALUES[name]
    value = bytearray(rng.choice(good))
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(value))
        if rng.random() < 0.5:
            value[at] = rng.choice([0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        else:
            at &= ~3
            value[at : at + 4] = struct.pack("<I", rng.choice([0, 1, 2**31 - 1, 2**31, 2**32 - 1, rng.randrange(99)]))
    if of.type.length > 0:
        return bytes(value[: of.type.length])
    return bytes(value[: rng.randrange(len(value) + 1)] if rng.random() < 0.3 else value)


def mutations(name: str, many: int) -> None:
    """Good values with some of their bytes replaced, each in a buffer that ends soon after it."""
    rng = random.Random(many)
    for _ in range(many):
        check(CODECS[name], [mutated(rng, name)], rng.choice([0, 0, 9]))


@pytest.mark.parametrize("name", [name for name in VALUES if VALUES[name][0].type.length < 0])
def test_any_bytes(name: str) -> None:
    @CAMPAIGN
    @given(st.lists(st.binary(max_size=60), max_size=5), st.sampled_from([0, 1, 40]))
    def run(payloads: list[bytes], behind: int) -> None:
        check(CODECS[name], payloads, behind)

    run()


@pytest.mark.parametrize("name", VALUES)
def test_mutations(name: str) -> None:
    mutations(name, 1_500)


@pytest.mark.parametrize("name", [name for name in VALUES if name != "money"])
def test_every_room(name: str) -> None:
    """A fill with little room says so, and writes nowhere else; with enough of it, it gives the same bytes."""
    builder = CODECS[name].builder()
    assert isinstance(builder, VarColumn)
    for payload in VALUES[name][2]:
        build(CODECS[name], [payload])
        buf = np.frombuffer(bytearray(payload), np.uint8)
        place, size, kind = np.zeros(1, np.int32), np.array([len(payload)], np.int32), np.ones(1, np.uint8)
        offsets = np.zeros(2, np.int32)
        values = set()
        for room in range(SLACK, 700):
            data = np.full(room, 0xEE, np.uint8)
            status, _, used = builder._fill(buf, place, size, kind, 0, offsets, data, 0, 0)
            assert status in (DONE, NO_ROOM)
            if status == DONE:
                values.add(data[:used].tobytes())
        assert len(values) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", VALUES)
def test_many_mutations(name: str) -> None:
    mutations(name, 100_000)
