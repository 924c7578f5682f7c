"""Maps of any bytes: a map that could be, or a FormatError."""

from __future__ import annotations

import struct

import google_crc32c
from hypothesis import given
from hypothesis import strategies as st

from walshadow_core.api import FormatError
from walshadow_core.pgformat.relmap import RELMAP_MAGIC, parse_relmap

_MAPPINGS = st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)), max_size=62)


def look(data: bytes) -> None:
    try:
        found = parse_relmap(data, "base/1/pg_filenode.map")
    except FormatError as error:
        assert "base/1/pg_filenode.map" in str(error)
    else:
        assert len(found) <= 64
        assert 0 not in found and 0 not in found.values()


@given(st.binary(max_size=600))
def test_any_bytes(data: bytes) -> None:
    look(data)
    look(data.ljust(512, b"\0"))
    look(data.ljust(524, b"\0"))


@given(st.sampled_from([62, 64]), _MAPPINGS, st.integers(-(2**31), 2**31 - 1) | st.integers(0, 70))
def test_any_content_under_a_right_crc(room: int, mappings: list[tuple[int, int]], count: int) -> None:
    body = struct.pack("<ii", RELMAP_MAGIC, count)
    body += b"".join(struct.pack("<II", *mapping) for mapping in mappings).ljust(8 * room, b"\0")
    look((body + struct.pack("<I", google_crc32c.value(body))).ljust(512, b"\0"))
