"""WAL in pieces to records: what crosses pages, what was half written, and where it ends."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.stream.walmaker import SYSTEM, WalMaker, main_data
from walshadow_core.api import FormatError, Lsn
from walshadow_core.pgformat import walpage
from walshadow_core.pgformat.heap import PAGE_SIZE
from walshadow_core.pgformat.walrecord import WalRecords
from walshadow_core.stream.reader import PIECE, WalReader

START = 1 << 24


def read(
    data: bytes, piece: int = 1 << 20, first: int = START, segment: int = 1 << 20, system: int = SYSTEM
) -> tuple[WalReader, list[tuple[int, bytes]]]:
    """The reader after ``data``, and (LSN, main data) per record."""
    reader = WalReader(Lsn(first), 18, segment, system)
    found = []
    for at in range(0, len(data), piece):
        for batch in reader.feed(data[at : at + piece]):
            found += contents(batch)
    return reader, found


def contents(batch: WalRecords) -> list[tuple[int, bytes]]:
    """(LSN, main data) per record of a batch."""
    places = zip(batch.start.tolist(), batch.data_offset.tolist(), batch.data_length.tolist(), strict=True)
    return [(lsn, batch.buf[at : at + size].tobytes()) for lsn, at, size in places]


@given(
    sizes=st.lists(st.integers(0, 300) | st.integers(0, 60_000), max_size=40),
    piece=st.sampled_from([1, 7, 24, 4096, 8192, 100_000, 1 << 20]),
    segment=st.sampled_from([1 << 20, 1 << 24]),
    buffer=st.sampled_from([1, 100, 9001, PIECE]),
)
def test_records_come_out_as_they_went_in(sizes: list[int], piece: int, segment: int, buffer: int) -> None:
    """Over pages, over segments, in pieces of any size, over buffers that end anywhere."""
    maker = WalMaker(segment=segment)
    bodies = [bytes([k % 251]) * size for k, size in enumerate(sizes)]
    for k, body in enumerate(bodies):
        maker.add(main_data(body), xid=k)
    if min(piece, buffer) < 4096 and len(maker.out) > 50_000:
        piece, buffer = max(piece, 4096), max(buffer, 9001)
    with patch("walshadow_core.stream.reader.PIECE", buffer):
        reader, found = read(bytes(maker.out), piece, segment=segment)
    assert reader.end is None
    assert found == list(zip(maker.starts, bodies, strict=True))
    if bodies:
        assert reader.position == (maker.lsn + 7) & ~7


@pytest.mark.parametrize("piece", [100, 5000, 1 << 20])
def test_batches_stay_as_they_were_given(piece: int) -> None:
    """What comes after them does not move them, though it may lie in the same buffer."""
    maker = WalMaker()
    bodies = [bytes([k % 251]) * (k * 37 % 9000) for k in range(400)]
    for body in bodies:
        maker.add(main_data(body))
    reader = WalReader(Lsn(START), 18, 1 << 20, SYSTEM)
    data = bytes(maker.out)
    batches = [batch for at in range(0, len(data), piece) for batch in reader.feed(data[at : at + piece])]
    assert [found for batch in batches for found in contents(batch)] == list(zip(maker.starts, bodies, strict=True))


def test_what_begins_and_ends_within_a_stretch() -> None:
    """A record that begins right at the first LSN is in it, one that ends right at the last is too."""
    maker = WalMaker()
    sizes = [10, 9000, 1, 300, 20_000, 5]
    starts = [maker.add(main_data(bytes([k]) * size)) for k, size in enumerate(sizes)]
    reader = WalReader(Lsn(START), 18, 1 << 20, SYSTEM)
    [batch] = reader.feed(bytes(maker.out))
    ends = batch.end.tolist()
    for first in range(len(sizes)):
        for last in range(first, len(sizes)):
            for early, late in ((0, 0), (8, 0), (0, 8), (8, 8)):
                kept = contents(batch.between(starts[first] - early, ends[last] + late))
                assert [lsn for lsn, _ in kept] == starts[first : last + 1]
            kept = contents(batch.between(starts[first] + 8, ends[last] - 8))
            assert [lsn for lsn, _ in kept] == starts[first + 1 : last]
    assert len(batch.between(ends[-1], ends[-1] + 8)) == 0


def test_a_record_longer_than_any_buffer() -> None:
    """It is put together, and those around it too."""
    maker = WalMaker()
    bodies = [b"before", b"x" * (9 << 20), b"after"]
    for body in bodies:
        maker.add(main_data(body))
    assert [body for _, body in read(bytes(maker.out))[1]] == bodies
    assert [body for _, body in read(bytes(maker.out), 123_457)[1]] == bodies


def test_a_stretch_may_begin_within_a_record() -> None:
    """What began before is passed over, however many pages it takes."""
    maker = WalMaker()
    maker.add(main_data(b"a" * 30_000))
    second = maker.add(main_data(b"b"))
    for page in (1, 2, 3):
        first = START + page * PAGE_SIZE
        assert read(bytes(maker.out[page * PAGE_SIZE :]), first=first)[1] == [(second, b"b")]


def test_a_switch_leads_to_the_next_segment() -> None:
    """Whatever stands between."""
    maker = WalMaker()
    maker.add(main_data(b"one"))
    at = maker.switch()
    follows = maker.lsn
    maker.add(main_data(b"two"))
    data = bytearray(maker.out)
    data[PAGE_SIZE : 1 << 20] = b"\xff" * ((1 << 20) - PAGE_SIZE)
    reader, found = read(bytes(data))
    assert [lsn for lsn, _ in found] == maker.starts
    assert found[-1] == (follows + walpage.LONG_HEADER, b"two")
    assert reader.end is None
    reader, _ = read(bytes(data[: at - START + 100]))
    assert reader.position == follows


def test_a_half_written_record_is_dropped() -> None:
    """A page says that what was half there before a crash will not come (FIRST_IS_OVERWRITE_CONTRECORD)."""
    maker = WalMaker()
    maker.add(main_data(b"whole"))
    previous = maker.previous
    maker.add(main_data(b"h" * 20_000))
    del maker.out[2 * PAGE_SIZE :]
    maker.starts.pop()
    maker.previous = previous
    maker.header(flags=walpage.FIRST_IS_OVERWRITE_CONTRECORD)
    maker.add(main_data(b"lost: it"), info=0xD0, rmgr=0)
    maker.add(main_data(b"goes on"))
    for piece in (1 << 20, 1000):
        reader, found = read(bytes(maker.out), piece)
        assert [body for _, body in found] == [b"whole", b"lost: it", b"goes on"]
        assert reader.overwritten == 1


def test_where_the_wal_ends() -> None:
    """Zeros, an old page of a recycled segment, and a record that was there before."""
    maker = WalMaker()
    for k in range(3):
        maker.add(main_data(bytes([k]) * 5000))
    whole = bytes(maker.out)
    end = Lsn((maker.lsn + 7) & ~7)

    reader, found = read(whole + bytes(2 * PAGE_SIZE))
    assert (len(found), reader.end.lsn if reader.end else None) == (3, end)
    with pytest.raises(FormatError, match=f"at {end}: there is no record"):
        reader.require_no_end()

    old = WalMaker(start=START - (8 << 20))
    while len(old.out) < len(whole) + PAGE_SIZE:
        old.add(main_data(b"old" * 50))
    reader, found = read(whole + bytes(old.out[len(whole) : 4 * PAGE_SIZE]))
    assert len(found) == 3
    assert reader.end is not None


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (0, 0x13, "magic number"),
        (2, 0xFF, "impossible flags"),
        (8, 0x01, "of another place"),
        (24, 0x01, "of another cluster"),
        (32, 0x01, "of another cluster"),
        (40, 0x03, "impossible length"),
        (48, 0x01, "does not follow"),
        (60, 0x01, "checksum"),
        (70, 0x01, "checksum"),
    ],
)
def test_damage_ends_the_wal_where_it_is(at: int, value: int, reason: str) -> None:
    """And says what it is."""
    maker = WalMaker()
    maker.add(main_data(b"a" * 100))
    data = bytearray(maker.out)
    data[at] ^= value if at not in (2, 40) else data[at] ^ value
    if at == 48:
        data[48:56] = (START + 10_000_000).to_bytes(8, "little")
    reader, found = read(bytes(data))
    assert found == []
    assert reader.end is not None
    assert reason in reader.end.reason


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\x05abc", b"\x21" * 10, b"\x00\x80\0\0" + bytes(4), b"\x00\x04\0\0" + bytes(16), b"\xfe\xff\xff\xff\xff",
        b"\x00\x10\0\0\x10\x27\0\0\0" + bytes(16), b"\x01\0\0\0" + bytes(16) + b"\x00\0\0\0" + bytes(16), b"\xfd",
        b"\x00\x20\0\0" + bytes(16), b"abc",
    ],
)  # fmt: skip
def test_a_malformed_record_is_named(body: bytes) -> None:
    """Its checksum holds, and its parts don't fit together: an error, not the end of the WAL."""
    maker = WalMaker()
    maker.add(main_data(b"good"))
    at = maker.add(body)
    with pytest.raises(FormatError, match=f"the WAL record at {Lsn(at)} is malformed"):
        read(bytes(maker.out))


def test_block_references() -> None:
    """Images with and without holes, data, the same relation again, origin and top-level xid, main data."""
    image = bytes(range(256)) * 31
    first = b"\x00\x30\x03\x00" + len(image).to_bytes(2, "little") + (100).to_bytes(2, "little") + b"\x03"
    first += b"".join(n.to_bytes(4, "little") for n in (1663, 5, 16384, 7))
    second = b"\x03\x82\x00\x00" + (9).to_bytes(4, "little")
    origin, xid, main = b"\xfd\x07\x00", b"\xfc\x2a\x00\x00\x00", b"\xff\x02"
    maker = WalMaker()
    maker.add(first + second + origin + xid + main + image + b"abc" + b"MD", rmgr=10)
    reader = WalReader(Lsn(START), 18, 1 << 20)
    [batch] = reader.feed(bytes(maker.out))
    b = batch.blocks
    assert b.block_id.tolist() == [0, 3]
    assert b.fork.tolist() == [0, 2]
    assert b.relation.tolist() == [16384, 16384]
    assert b.block.tolist() == [7, 9]
    assert b.hole_offset.tolist() == [100, 0]
    assert b.hole_length.tolist() == [PAGE_SIZE - len(image), 0]
    at, size = int(b.image_offset[0]), int(b.image_length[0])
    assert batch.buf[at : at + size].tobytes() == image
    at, size = int(b.data_offset[0]), int(b.data_length[0])
    assert batch.buf[at : at + size].tobytes() == b"abc"
    assert b.data_offset.tolist()[1] == b.image_offset.tolist()[1] == -1
    assert (batch.origin.tolist(), batch.toplevel_xid.tolist()) == ([7], [42])
    assert contents(batch)[0][1] == b"MD"
    assert batch.image_bytes.tolist() == [len(image)]
    assert np.array_equal(batch.first_block, [0, 2])
