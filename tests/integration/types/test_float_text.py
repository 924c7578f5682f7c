"""The text of floats against the server's: the bits go in by a binary COPY, the text comes out by COPY."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.unit.decode.built import codec, use
from walshadow_core.decode import type_oids as oid
from walshadow_core.testing.postgres import PostgresServer

FORMATS = {"float8": (oid.FLOAT8, 8, 52, 2047), "float4": (oid.FLOAT4, 4, 23, 255)}


def decoded(name: str, bits: NDArray[np.uint64]) -> list[str]:
    type_oid, width, _, _ = FORMATS[name]
    builder = codec(use(type_oid, name, length=width), "text").builder()
    n = len(bits)
    buf = bits.astype(f"<u{width}").view(np.uint8)
    builder.append(buf, np.arange(n, dtype=np.int32) * width, np.full(n, width, np.int32), np.ones(n, np.uint8))
    texts: list[str] = builder.finish().to_pylist()
    return texts


def printed(server: PostgresServer, name: str, bits: NDArray[np.uint64]) -> list[str]:
    width = FORMATS[name][1]
    records = np.zeros(len(bits), np.dtype([("fields", ">i2"), ("length", ">i4"), ("value", f">u{width}")]))
    records["fields"], records["length"], records["value"] = 1, width, bits
    with server.connect() as connection:
        connection.execute(f"create temp table floats (v {name})")
        with connection.cursor().copy("copy floats from stdin (format binary)") as copy:
            copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8) + records.tobytes() + b"\xff\xff")
        with connection.cursor().copy("copy floats to stdout") as chunks:
            return b"".join(chunks).decode().split("\n")[:-1]


def known_extremes(name: str) -> NDArray[np.uint64]:
    """Powers of two and of ten with both neighbours, the ends of every binade, and multiples of powers of five."""
    _, _, fraction_bits, top = FORMATS[name]
    last = (1 << fraction_bits) - 1
    bits = [e << fraction_bits | f for e in range(top + 1) for f in (0, 1, last, last // 2 + 1)]
    with np.errstate(over="ignore", under="ignore"):
        tens: Any = np.array([float(f"{k}e{e}") for k in range(1, 10) for e in range(-330, 308)])
        tens = tens.view(np.uint64) if name == "float8" else tens.astype(np.float32).view(np.uint32)
    bits += [int(b) + d for b in tens for d in (-1, 0, 1) if b > 0]
    power = 5
    while power <= last:
        for k in (1, 3, 7):
            m = power * k
            if m <= last:
                m <<= fraction_bits + 1 - m.bit_length()
                bits += [m & last | e << fraction_bits for e in range(1, top, 1 if name == "float4" else 7)]
        power *= 5
    return np.array(bits, np.uint64)


def random_bits(name: str, rows: int, seed: int) -> NDArray[np.uint64]:
    """Any bits; near-integers whose last bits are zero, which end in ties; and short decimals."""
    width, fraction_bits, top = FORMATS[name][1:]
    rng = np.random.default_rng(seed)
    anything = rng.integers(0, 1 << 8 * width, rows, dtype=np.uint64)
    zeros = rng.integers(0, fraction_bits, rows).astype(np.uint64)
    fraction = rng.integers(0, 1 << fraction_bits, rows, dtype=np.uint64) >> zeros << zeros
    exponent = rng.integers(top // 2 - 60, top // 2 + 90, rows).astype(np.uint64)
    decimals: Any = np.round(rng.normal(size=rows) * 10.0 ** rng.integers(-3, 12, rows), 4)
    decimals = decimals.view(np.uint64) if name == "float8" else decimals.astype(np.float32).view(np.uint32)
    return np.concatenate([anything, fraction | exponent << np.uint64(fraction_bits), decimals.astype(np.uint64)])


def assert_same(server: PostgresServer, name: str, bits: NDArray[np.uint64]) -> None:
    for one, mine, theirs in zip(bits, decoded(name, bits), printed(server, name, bits), strict=True):
        assert mine == theirs, f"{name} {one:#x}"


@pytest.mark.parametrize("name", FORMATS)
def test_known_extremes_and_random_bits(pg: PostgresServer, name: str) -> None:
    assert_same(pg, name, np.concatenate([known_extremes(name), random_bits(name, 10_000, pg.major)]))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", FORMATS)
def test_millions(pg_newest: PostgresServer, name: str, seed: int) -> None:
    assert_same(pg_newest, name, random_bits(name, 500_000, seed))
