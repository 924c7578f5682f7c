"""Varlena headers as a server writes them."""

from __future__ import annotations

import numpy as np

from walshadow_core.pgformat import varlena
from walshadow_core.pgformat.heap import PageWalker
from walshadow_core.testing.postgres import PostgresServer

TABLE = "varlena_headers"


def test_each_sort_of_header_is_as_the_constants_say(pg: PostgresServer) -> None:
    """One tuple per storage form of a text, its bytes read with the constants alone."""
    with pg.connect() as conn:
        conn.execute(f"drop table if exists {TABLE}")
        conn.execute(f"create table {TABLE} (t text)")
        conn.execute(f"insert into {TABLE} values (repeat('a', 126)), (repeat('b', 127)), (repeat('c', 3000))")
        conn.execute(f"alter table {TABLE} alter t set storage external")
        conn.execute(f"insert into {TABLE} values (repeat('d', 5000))")
        conn.execute(f"alter table {TABLE} alter t set storage extended")
        long = "select string_agg(md5(i::text), '') || repeat('e', 9000) from generate_series(1, 400) i"
        conn.execute(f"insert into {TABLE} {long}".encode())
        conn.execute("checkpoint")
        row = conn.execute(
            f"""select pg_relation_filepath(oid), reltoastrelid, reltoastrelid::regclass::text
                               from pg_class where relname = '{TABLE}'""".encode()
        ).fetchone()
        assert row is not None
        path, toast, toast_name = row
        chunks = conn.execute(
            f"select chunk_id, sum(length(chunk_data)) from {toast_name} group by 1".encode()
        ).fetchall()
    pages = np.frombuffer(bytearray((pg.data / path).read_bytes()), np.uint8)
    walk = PageWalker(len(pages) // 8192).walk(pages, 0)
    short, plain, compressed, external, both = (
        pages[a:b].tobytes() for a, b in zip(walk.data.data_start, walk.data.end, strict=True)
    )

    assert short[0] & varlena.SHORT_BIT
    assert short[0] != varlena.EXTERNAL_MARKER
    assert short[0] >> 1 == 126 + varlena.SHORT_HEADER_SIZE == len(short)

    word = int.from_bytes(plain[:4], "little")
    assert word & 3 == 0
    assert word >> 2 == 127 + varlena.HEADER_SIZE == len(plain)

    word = int.from_bytes(compressed[:4], "little")
    assert word & 3 == varlena.COMPRESSED_BIT
    assert word >> 2 == len(compressed)
    info = int.from_bytes(compressed[4 : varlena.COMPRESSED_HEADER_SIZE], "little")
    assert info & varlena.EXTSIZE_MASK == 3000
    assert info >> varlena.EXTSIZE_BITS == varlena.METHOD_PGLZ

    sizes = dict(chunks)
    for datum, raw, is_compressed in ((external, 5000, False), (both, 400 * 32 + 9000, True)):
        assert (datum[0], datum[1], len(datum)) == (
            varlena.EXTERNAL_MARKER, varlena.TAG_ONDISK, varlena.EXTERNAL_SIZE
        )  # fmt: skip
        pointer = np.frombuffer(datum[varlena.EXTERNAL_HEADER_SIZE :], varlena.VARATT_EXTERNAL)[0]
        stored = int(pointer["extinfo"]) & varlena.EXTSIZE_MASK
        assert pointer["toastrelid"] == toast
        assert pointer["rawsize"] == raw + varlena.HEADER_SIZE
        assert sizes[int(pointer["valueid"])] == stored
        assert (stored < raw) is is_compressed
