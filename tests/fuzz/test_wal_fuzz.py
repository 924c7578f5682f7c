"""Truncated, zeroed, flipped and hostile WAL: an end or an error that names an LSN, never a read outside, a crash or a
hang. Run it with NUMBA_BOUNDSCHECK=1."""

from __future__ import annotations

import re
from unittest.mock import patch

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.stream.test_reader import START
from tests.unit.stream.walmaker import WalMaker, main_data
from walshadow_core.api import FormatError, Lsn
from walshadow_core.stream.reader import WalReader

CAMPAIGN = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])

block = st.builds(
    lambda n, flags, size, image, info, rest: bytes([n, flags, size & 255, size >> 8])
    + (image.to_bytes(2, "little") + b"\x10\x00" + bytes([info]) if flags & 16 else b"")
    + rest,
    st.integers(0, 40), st.sampled_from([0, 16, 32, 48, 64, 128, 144, 5]), st.integers(0, 30), st.integers(0, 9000),
    st.sampled_from([0, 1, 3, 5, 9, 17]), st.binary(min_size=4, max_size=30),
)  # fmt: skip
hostile = st.lists(block | st.binary(max_size=40) | st.binary(max_size=200).map(main_data), max_size=5).map(b"".join)
bodies = st.lists(hostile | st.integers(0, 20_000).map(lambda n: main_data(b"d" * n)), max_size=12)


def read_all(data: bytes, piece: int) -> None:
    """Read to the end, in buffers of that size; what goes wrong must be a FormatError that names an LSN."""
    with patch("walshadow_core.stream.reader.PIECE", piece):
        _read_all(data, piece)


def _read_all(data: bytes, piece: int) -> None:
    reader = WalReader(Lsn(START), 18, 1 << 20)
    try:
        for at in range(0, len(data), piece):
            for batch in reader.feed(data[at : at + piece]):
                assert (batch.offset + batch.length <= len(batch.buf)).all()
                assert (batch.data_offset + batch.data_length <= len(batch.buf)).all()
                assert (batch.blocks.image_offset + batch.blocks.image_length <= len(batch.buf)).all()
                assert (batch.blocks.data_offset + batch.blocks.data_length <= len(batch.buf)).all()
        reader.require_no_end()
    except FormatError as error:
        assert re.search(r"at [0-9A-F]+/[0-9A-F]+", str(error))


@CAMPAIGN
@given(bodies, st.sampled_from([997, 8192, 1 << 20]))
def test_records_of_hostile_content(contents: list[bytes], piece: int) -> None:
    """Checksums hold, contents are anything."""
    maker = WalMaker()
    for body in contents:
        maker.add(body)
    read_all(bytes(maker.out), piece)


@CAMPAIGN
@given(
    bodies,
    st.sampled_from([997, 8192, 1 << 20]),
    st.lists(st.tuples(st.integers(0, 1 << 16), st.binary(min_size=1, max_size=24)), max_size=4),
    st.integers(0, 1 << 16),
    st.booleans(),
)
def test_damaged_wal(
    contents: list[bytes], piece: int, damage: list[tuple[int, bytes]], cut: int, zeroed: bool
) -> None:
    """Bytes overwritten anywhere, the end cut off or zeroed."""
    maker = WalMaker()
    for body in [*contents, main_data(b"last")]:
        maker.add(body)
    data = maker.out
    for at, value in damage:
        at %= len(data)
        data[at : at + len(value)] = value
    if zeroed:
        data[cut % len(data) :] = bytes(len(data) - cut % len(data))
    else:
        del data[len(data) - cut % 9000 :]
    read_all(bytes(data), piece)


@CAMPAIGN
@given(st.binary(max_size=3 * 8192), st.sampled_from([61, 1 << 20]))
def test_noise(data: bytes, piece: int) -> None:
    """Anything at all."""
    read_all(data, piece)
