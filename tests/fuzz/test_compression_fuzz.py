"""Damaged streams, chunks and pointers: a refusal, never a crash or a read or write outside.

Run it with NUMBA_BOUNDSCHECK=1: a read outside of an array is an IndexError then.
"""

from __future__ import annotations

import lz4.block
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from walshadow_core.decode.deform import KIND_COMPRESSED, KIND_EXTERNAL, KIND_NULL, KIND_VALUE
from walshadow_core.decode.toasted import make_plain, raw_sizes
from walshadow_core.pgformat.lz4 import lz4_decompress
from walshadow_core.pgformat.pglz import pglz_decompress
from walshadow_core.pgformat.words import SLACK
from walshadow_core.toast.chunks import EXTENT_WORDS, take_chunks

CAMPAIGN = settings(max_examples=400, deadline=None)

PIECES = st.sampled_from(
    [b"\0abcdefgh", b"\xff", b"\x0f\x01\xff", b"\x01\x00", b"\0\1", b"\xf0", b"\x10a\x01\x00", b"\x1fa\x08\x00\xff\x00"]
)
STREAMS = st.lists(PIECES | st.binary(max_size=5), max_size=40).map(b"".join)


@CAMPAIGN
@given(
    STREAMS, st.integers(-2, 400), st.integers(-2, 40), st.integers(-2, 400), st.integers(-2, 600), st.integers(0, 600)
)
def test_streams(stream: bytes, size: int, at: int, start: int, raw: int, room: int) -> None:
    buf = np.frombuffer(stream, np.uint8).copy()
    for decompress in (pglz_decompress, lz4_decompress):
        out = np.full(room, 0xEE, np.uint8)
        decompress(buf, at, min(size, len(stream)), out, start, raw)
        if start >= 0 and raw >= 0:
            assert (out[:start] == 0xEE).all() and (out[start + raw + SLACK :] == 0xEE).all()


@CAMPAIGN
@given(st.binary(max_size=300).map(lambda b: b * 3), st.integers(0, 10**6), st.integers(0, 255), st.integers(0, 40))
def test_a_changed_byte(data: bytes, at: int, byte: int, slack: int) -> None:
    stream = bytearray(lz4.block.compress(data, store_size=False))
    stream[at % len(stream)] = byte
    out = np.full(len(data) + slack, 0xEE, np.uint8)
    lz4_decompress(np.frombuffer(stream, np.uint8), 0, len(stream), out, 0, len(data))


@st.composite
def values(draw: st.DrawFn) -> tuple[bytes, list[tuple[int, int, int, int]]]:
    """(bytes, (offset, length, kind, place) per value) that deform could have found there."""
    buf = bytearray()
    rows = []
    for kind in draw(st.lists(st.sampled_from([KIND_NULL, KIND_VALUE, KIND_COMPRESSED, KIND_EXTERNAL]), max_size=8)):
        at = len(buf)
        if kind == KIND_COMPRESSED:
            stream = draw(STREAMS)
            info = draw(st.integers(0, 2**32 - 1) | st.integers(0, 300) | st.integers(2**30, 2**30 + 300))
            buf += ((len(stream) + 8) << 2 | 2).to_bytes(4, "little") + info.to_bytes(4, "little") + stream
        elif kind == KIND_EXTERNAL:
            word = st.integers(0, 2**32 - 1) | st.integers(0, 300)
            buf += b"\1\x12" + b"".join(draw(word).to_bytes(4, "little") for _ in range(4))
        elif kind == KIND_VALUE:
            buf += draw(st.binary(max_size=40))
        rows.append((at, len(buf) - at, kind, draw(st.integers(-3, 400))))
    return bytes(buf), rows


@CAMPAIGN
@given(values(), STREAMS, st.integers(0, 3))
def test_columns_of_toasted_values(
    case: tuple[bytes, list[tuple[int, int, int, int]]], stored: bytes, less: int
) -> None:
    data, rows = case
    buf = np.frombuffer(data, np.uint8).copy()
    offset, length, kind, place = (np.array([r[k] for r in rows], np.int64) for k in range(4))
    columns = offset.astype(np.int32), length.astype(np.int32), kind.astype(np.uint8)
    sizes = np.empty(len(rows), np.int64)
    raw_sizes(buf, *columns, sizes)
    assert (sizes >= 0).all()
    out = np.empty(min(1 << 20, max(0, int(sizes.sum()) + SLACK - 20 * less)), np.uint8)
    plain = np.empty(len(rows), np.int32), np.empty(len(rows), np.int32), np.empty(len(rows), np.uint8)
    status, bad = make_plain(buf, np.frombuffer(stored, np.uint8).copy(), *columns, place, out, *plain)
    assert 0 <= bad <= len(rows) and (status == 0) == (bad == len(rows))
    ends = plain[0][:bad].astype(np.int64) + plain[1][:bad]
    assert (plain[0][:bad] >= 0).all() and (plain[1][:bad] >= 0).all() and (ends <= len(out)).all()
    assert (plain[2][:bad] <= KIND_VALUE).all()


@st.composite
def chunk(draw: st.DrawFn) -> bytes:
    """The data of a tuple that may be a chunk."""
    data = draw(st.binary(min_size=1, max_size=50))
    short = bytes((2 * len(data) + 3,)) + data
    plain = ((len(data) + 4) << 2).to_bytes(4, "little") + data
    head = draw(st.integers(0, 3)).to_bytes(4, "little") + draw(st.integers(0, 4)).to_bytes(4, "little")
    return head + draw(st.sampled_from([short, plain, plain[:5], b"\1", b"\2\0\0\0", b""]) | st.binary(max_size=9))


@CAMPAIGN
@given(st.lists(chunk(), max_size=9), st.data(), st.integers(0, 200), st.integers(0, 4))
def test_chunks(chunks: list[bytes], more: st.DataObject, room: int, extents: int) -> None:
    data = b"".join(chunks)
    ends = np.cumsum([len(c) for c in chunks], dtype=np.int64).astype(np.int32)
    starts = (ends - np.array([len(c) for c in chunks], np.int32)).astype(np.int32)
    n = len(chunks)
    for places in (starts, ends):
        if n and more.draw(st.booleans()):
            places[more.draw(st.integers(0, n - 1))] += more.draw(st.integers(-20, 20))
    natts = np.array([more.draw(st.sampled_from([3, 3, 3, 2])) for _ in chunks], np.int32)
    masks = np.array([more.draw(st.sampled_from([0, 0x100, 0x200, 0x300, 0x4000])) for _ in chunks], np.uint16)
    xmin = np.array([more.draw(st.sampled_from([0, 2, 700])) for _ in chunks], np.uint32)
    taken = np.empty((extents, EXTENT_WORDS), np.uint64)
    status, after, used, count = take_chunks(
        np.frombuffer(data, np.uint8).copy(), starts, ends, natts, np.zeros(n, np.uint8), xmin, masks, 0,
        np.empty(room, np.uint8), 0, 0, taken, 0,
    )  # fmt: skip
    assert 0 <= after <= n and (status == 0) == (after == n)
    assert used <= room and count <= extents
    sizes = taken[:count, 2] & np.uint64(2**32 - 1)
    assert int(sizes.sum()) == used
