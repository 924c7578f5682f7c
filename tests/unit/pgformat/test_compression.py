"""pglz and LZ4: streams of our own making, of the LZ4 library, and broken ones."""

from __future__ import annotations

from collections.abc import Callable

import lz4.block
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from walshadow_core.pgformat.lz4 import lz4_decompress
from walshadow_core.pgformat.pglz import pglz_decompress
from walshadow_core.pgformat.words import SLACK

Decompress = Callable[..., bool]
CAMPAIGN = settings(max_examples=20 if numba.config.DISABLE_JIT else 200)


def decompressed(
    decompress: Decompress, stream: bytes, raw: int, *, before: int = 5, after: int = SLACK
) -> bytes | None:
    """The value, or None if the stream is not one of that size; nothing around it may be touched."""
    buf = np.frombuffer(b"\xaa" * before + stream + b"\xaa" * 3, np.uint8).copy()
    out = np.full(before + raw + after + SLACK, 0xEE, np.uint8)
    room = out[: before + raw + after]
    good = decompress(buf, before, len(stream), room, before, raw)
    assert (out[:before] == 0xEE).all() and (out[before + raw + min(after, SLACK) :] == 0xEE).all()
    return out[before : before + raw].tobytes() if good else None


def pglz(data: bytes, near: int = 4095) -> bytes:
    """A pglz stream, with the longest match among the last places that begin alike."""
    out = bytearray()
    seen: dict[bytes, int] = {}
    at = 0
    while at < len(data):
        control_at, control = len(out), 0
        out.append(0)
        for bit in range(8):
            if at >= len(data):
                break
            found = seen.get(data[at : at + 3], -1)
            distance = at - found
            length = 0
            if found >= 0 and distance <= near:
                while length < 273 and at + length < len(data) and data[found + length] == data[at + length]:
                    length += 1
            if length >= 3:
                control |= 1 << bit
                high = distance >> 4 & 0xF0
                out += bytes((high | min(length - 3, 15), distance & 255))
                if length >= 18:
                    out.append(length - 18)
            else:
                length = 1
                out.append(data[at])
            for k in range(length):
                seen[data[at + k : at + k + 3]] = at + k
            at += length
        out[control_at] = control
    return bytes(out)


REPETITIVE = st.lists(
    st.tuples(st.binary(min_size=1, max_size=20), st.integers(1, 40)), max_size=12
).map(lambda parts: b"".join(part * times for part, times in parts))  # fmt: skip
AFTER = st.sampled_from([0, 1, 7, 8, 15, 16, SLACK])


@CAMPAIGN
@given(REPETITIVE | st.binary(max_size=200), st.sampled_from([1, 3, 7, 8, 15, 16, 17, 200, 4095]), AFTER)
def test_pglz_gives_back_what_was_compressed(data: bytes, near: int, after: int) -> None:
    stream = pglz(data, near)
    assert decompressed(pglz_decompress, stream, len(data), after=after) == data
    assert decompressed(pglz_decompress, stream, len(data) + 1, after=after) is None
    assert decompressed(pglz_decompress, stream + b"\0", len(data), after=after) is None
    if data:
        assert decompressed(pglz_decompress, stream[:-1], len(data), after=after) is None
        assert decompressed(pglz_decompress, stream, len(data) - 1, after=after) in (None, data[:-1])


@CAMPAIGN
@given(REPETITIVE | st.binary(max_size=400), AFTER)
def test_lz4_gives_back_what_the_library_compressed(data: bytes, after: int) -> None:
    stream = lz4.block.compress(data, store_size=False)
    assert decompressed(lz4_decompress, stream, len(data), after=after) == data
    assert decompressed(lz4_decompress, stream, len(data) + 1, after=after) is None
    assert decompressed(lz4_decompress, stream[:-1], len(data), after=after) is None
    if data:
        assert decompressed(lz4_decompress, stream, len(data) - 1, after=after) is None


@CAMPAIGN
@given(REPETITIVE, st.data())
def test_what_lz4_takes_the_library_takes(data: bytes, more: st.DataObject) -> None:
    """But for its rules on how a block ends, which only compressors need to keep: then it is an error there."""
    stream = bytearray(lz4.block.compress(data, store_size=False))
    at = more.draw(st.integers(0, len(stream) - 1))
    stream[at] = more.draw(st.integers(0, 255))
    try:
        known = lz4.block.decompress(bytes(stream), uncompressed_size=len(data))
    except lz4.block.LZ4BlockError:
        return
    if len(known) == len(data):
        assert decompressed(lz4_decompress, bytes(stream), len(data)) == known


@pytest.mark.parametrize(
    ("stream", "raw", "value"),
    [
        (b"", 0, b""),
        (b"\x00abc", 3, b"abc"),
        (b"\x02a\x0f\x01\x00", 19, b"a" * 19),
        (b"\x02a\x0f\x01\xff", 274, b"a" * 274),
        (b"\x04ab\x01\x02", 6, b"ababab"),
        (b"\x02a\x00\x00", 4, None),
        (b"\x02a\x00\x02", 4, None),
        (b"\x01\x00\x01", 3, None),
        (b"\x02a\x0f\x01", 19, None),
        (b"\x02a\x00", 4, None),
        (b"", 1, None),
        (b"\x00", 0, None),
    ],
)
def test_pglz_streams_by_hand(stream: bytes, raw: int, value: bytes | None) -> None:
    """A match of 18 and more, one that overlaps itself, distance 0, one before the start, and what is cut off."""
    assert decompressed(pglz_decompress, stream, raw) == value


@pytest.mark.parametrize(
    ("stream", "raw", "value"),
    [
        (b"\x00", 0, b""),
        (b"\x30abc", 3, b"abc"),
        (b"\x11a\x01\x00\x10b", 7, b"aaaaaab"),
        (b"\x1fa\x01\x00\xff\x00\x10b", 276, b"a" * 275 + b"b"),
        (b"\x11a\x00\x00\x10b", 7, None),
        (b"\x11a\x02\x00\x10b", 7, None),
        (b"\x11a\x01\x00", 6, None),
        (b"\x1fa\x01\x00\xff", 276, None),
        (b"\xf0", 20, None),
        (b"\x11a\x01", 6, None),
        (b"", 0, None),
    ],
)
def test_lz4_blocks_by_hand(stream: bytes, raw: int, value: bytes | None) -> None:
    """As above."""
    assert decompressed(lz4_decompress, stream, raw) == value


@pytest.mark.parametrize("decompress", [pglz_decompress, lz4_decompress])
@pytest.mark.parametrize(
    ("at", "size", "start", "raw"),
    [(-1, 1, 0, 1), (0, 9, 0, 1), (0, 1, -1, 1), (0, 1, 0, 9), (0, -1, 0, 1), (9, 0, 0, 0)],
)
def test_places_outside_are_no_streams(decompress: Decompress, at: int, size: int, start: int, raw: int) -> None:
    assert not decompress(np.zeros(8, np.uint8), at, size, np.zeros(8, np.uint8), start, raw)
