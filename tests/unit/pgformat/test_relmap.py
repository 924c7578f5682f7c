"""pg_filenode.map against pg_relation_filenode of real servers, and damaged ones."""

from __future__ import annotations

import struct

import google_crc32c
import pytest

from walshadow_core.api import FormatError
from walshadow_core.pgformat.relmap import GLOBAL_RELMAP_PATH, RELMAP_MAGIC, RELMAP_NAME, parse_relmap
from walshadow_core.testing.postgres import PostgresServer


def made(
    mappings: list[tuple[int, int]], *, room: int = 64, magic: int = RELMAP_MAGIC, count: int | None = None
) -> bytes:
    body = struct.pack("<ii", magic, len(mappings) if count is None else count)
    body += b"".join(struct.pack("<II", *mapping) for mapping in mappings).ljust(8 * room, b"\0")
    body += struct.pack("<I", google_crc32c.value(body))
    return body.ljust(512, b"\0")


def test_the_maps_of_real_servers(pg: PostgresServer) -> None:
    """Every mapped relation is in one of the two maps, with the file that the server says; a rewrite changes it."""
    pg.execute("drop database if exists relmap with (force)")
    pg.execute("create database relmap")
    try:
        pg.execute("vacuum full pg_class", database="relmap")
        (oid,) = pg.execute("select oid::int8 from pg_database where datname = 'relmap'")[0]
        shown = pg.execute(
            """select oid::int8, pg_relation_filenode(oid)::int8, relisshared from pg_class
               where relfilenode = 0 and relkind in ('r', 'i', 't')""",
            database="relmap",
        )
        paths = {False: f"base/{oid}/{RELMAP_NAME}", True: GLOBAL_RELMAP_PATH}
        for shared, path in paths.items():
            expected = {relation: number for relation, number, is_shared in shown if is_shared == shared}
            assert dict(parse_relmap((pg.data / path).read_bytes(), path)) == expected
        assert 1262 in expected, "shared relations are mapped"
        assert parse_relmap((pg.data / paths[False]).read_bytes())[1259] >= 16384
    finally:
        pg.execute("drop database relmap with (force)")


def test_both_sizes() -> None:
    for room in (62, 64):
        mappings = [(1259, 1259), (1249, 20000)]
        assert dict(parse_relmap(made(mappings, room=room))) == dict(mappings)
        full = [(i + 1, i + 2) for i in range(room)]
        assert dict(parse_relmap(made(full, room=room))) == dict(full)
    assert dict(parse_relmap(made([]))) == {}


def test_what_is_wrong_is_named() -> None:
    good = made([(1259, 1259)])
    for size in (0, 1, 511, 513, 523, 525, 8192):
        with pytest.raises(FormatError, match=f"base/5/pg_filenode.map has {size} bytes"):
            parse_relmap(good.ljust(size, b"\0")[:size], "base/5/pg_filenode.map")
    with pytest.raises(FormatError, match=r"global/pg_filenode.map begins with 0x592718"):
        parse_relmap(made([], magic=0x592718), GLOBAL_RELMAP_PATH)
    for count in (-1, 65, 2**31 - 1):
        with pytest.raises(FormatError, match=f"has {count} mappings"):
            parse_relmap(made([(1, 1)], count=count))
    for mappings in ([(5, 6), (5, 7)], [(0, 6)], [(5, 0)]):
        with pytest.raises(FormatError, match="twice, or to nothing"):
            parse_relmap(made(mappings))
    with pytest.raises(FormatError, match="twice, or to nothing"):
        parse_relmap(made([(5, 6)], count=2))


def test_every_changed_bit_is_found() -> None:
    good = made([(1259, 1259), (1249, 20000)])
    for at in range(len(good)):
        bad = bytearray(good)
        bad[at] ^= 1 << (at % 8)
        with pytest.raises(FormatError):
            parse_relmap(bytes(bad))
