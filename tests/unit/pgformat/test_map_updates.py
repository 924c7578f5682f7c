"""Relation maps in the WAL."""

from __future__ import annotations

import struct

import pytest

from tests.unit.pgformat.test_relmap import made
from tests.unit.stream.walmaker import SYSTEM, WalMaker, main_data
from walshadow_core.api import FormatError, Lsn
from walshadow_core.pgformat.walbodies import map_updates
from walshadow_core.pgformat.walnames import RELMAP
from walshadow_core.pgformat.walrecord import WalRecords
from walshadow_core.stream.reader import WalReader


def update(maker: WalMaker, database: int, tablespace: int, content: bytes, length: int | None = None) -> int:
    """xl_relmap_update."""
    head = struct.pack("<IIi", database, tablespace, len(content) if length is None else length)
    return maker.add(main_data(head + content), rmgr=RELMAP)


def read(maker: WalMaker) -> WalRecords:
    (records,) = WalReader(Lsn(maker.start), 18, maker.segment, SYSTEM).feed(bytes(maker.out))
    return records


def test_the_last_map_of_each_database_counts() -> None:
    maker = WalMaker()
    update(maker, 5, 1663, made([(1259, 1259), (1249, 1249)]))
    update(maker, 0, 1664, made([(1262, 20000)]))
    update(maker, 5, 1663, made([(1259, 16500), (1249, 1249)]))
    assert map_updates(read(maker)) == {(1663, 5): {1259: 16500, 1249: 1249}, (1664, 0): {1262: 20000}}


@pytest.mark.parametrize(
    ("content", "length", "said"),
    [
        (made([(1259, 1259)]), 100, "is shorter than it says"),
        (b"", -1, "is shorter than it says"),
        (made([(1259, 1259)])[:-20], None, "bytes, which no such file"),
        (made([(1259, 1259)]).replace(b"\xeb\x04", b"\xea\x04"), None, "its CRC does not match"),
    ],
)
def test_a_damaged_one_is_named(content: bytes, length: int | None, said: str) -> None:
    maker = WalMaker()
    lsn = update(maker, 5, 1663, content, length)
    with pytest.raises(FormatError, match=rf"the WAL record at {Lsn(lsn)}.*{said}"):
        map_updates(read(maker))


def test_a_record_without_a_head() -> None:
    maker = WalMaker()
    maker.add(main_data(b"abc"), rmgr=RELMAP)
    with pytest.raises(FormatError, match="is shorter than it says"):
        map_updates(read(maker))
