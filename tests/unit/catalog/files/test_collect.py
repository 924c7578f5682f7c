"""What is kept of a backup's files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from walshadow_core.api import FormatError, RelFileLocator, SourceError
from walshadow_core.catalog.files import collect
from walshadow_core.catalog.files.collect import CatalogFiles

PAGE = 8192
SEGMENT_BLOCKS = 4


@dataclass
class File:
    path: str
    content: bytes
    taken: bool = False

    @property
    def size(self) -> int:
        return len(self.content)

    def chunks(self) -> Iterator[memoryview]:
        self.taken = True
        for at in range(0, len(self.content), 1000):
            yield memoryview(self.content)[at : at + 1000]


def pages(count: int, fill: int = 1) -> bytes:
    return bytes([fill]) * (PAGE * count)


def offered(files: CatalogFiles, path: str, content: bytes) -> bool:
    """Whether its content was taken."""
    file = File(path, content)
    files.offer(file)
    return file.taken


def read(files: CatalogFiles, locator: RelFileLocator) -> list[tuple[str, int, int]]:
    return [(path, block, len(part)) for path, block, part in files.pages(locator, SEGMENT_BLOCKS)]


def test_main_forks_under_the_first_numbers_are_kept() -> None:
    files = CatalogFiles()
    assert offered(files, "base/5/1259", pages(1)) and offered(files, "base/7/1249", pages(1))
    assert offered(files, "global/1262", pages(1)) and offered(files, "pg_tblspc/99/PG_17_202406281/8/1247", pages(1))
    for path in ("base/5/1259_vm", "base/5/1255", "base/5/2619", "pg_wal/000000010000000000000001", "PG_VERSION",
                 "base/5/PG_VERSION", "base/pgsql_tmp/1", "base/5/t3_1259"):  # fmt: skip
        assert not offered(files, path, pages(1)), path
    assert files.size(RelFileLocator(1663, 5, 2619)) == PAGE, "the size of any main fork is known"
    assert not files.has(RelFileLocator(1663, 5, 2619)) and files.saw(RelFileLocator(1663, 5, 2619))
    assert files.size(RelFileLocator(1663, 5, 4)) == 0 and not files.saw(RelFileLocator(1663, 5, 4))
    files.close()


def test_other_numbers_as_far_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "GUESS_FILE_BYTES", 2 * PAGE)
    monkeypatch.setattr(collect, "GUESS_BYTES", 4 * PAGE)
    files = CatalogFiles()
    assert offered(files, "base/5/20000", pages(2)) and not offered(files, "base/5/20001", pages(3))
    assert offered(files, "base/5/20002", pages(1)) and not offered(files, "base/5/20003", pages(2))
    assert offered(files, "base/5/20004", pages(1)) and not offered(files, "base/5/20005", pages(1))
    assert offered(files, "base/5/1259", pages(9)), "what initdb numbered is always kept"
    files.close()


def test_the_database_and_known_relations() -> None:
    known = RelFileLocator(1663, 5, 30000)
    files = CatalogFiles(database=5, known=frozenset({known}))
    assert not offered(files, "base/6/1259", pages(1)) and not files.saw(RelFileLocator(1663, 6, 1259))
    assert offered(files, "base/5/30000", pages(1)) and offered(files, "global/1262", pages(1))
    assert files.has(known)
    files.close()


def test_segments_come_out_in_order() -> None:
    at = RelFileLocator(1663, 5, 1259)
    files = CatalogFiles()
    for number, count in ((2, 1), (0, SEGMENT_BLOCKS), (1, SEGMENT_BLOCKS)):
        assert offered(files, "base/5/1259" + (f".{number}" if number else ""), pages(count, number + 1))
    assert files.size(at) == 9 * PAGE and files.has(at)
    assert read(files, at) == [
        ("base/5/1259", 0, 4 * PAGE), ("base/5/1259.1", 4, 4 * PAGE), ("base/5/1259.2", 8, PAGE),
    ]  # fmt: skip
    filled = [np.unique(part).tolist() for _, _, part in files.pages(at, SEGMENT_BLOCKS)]
    assert filled == [[1], [2], [3]]
    assert files.path(at) == "base/5/1259"
    files.close()


def test_files_that_can_not_be() -> None:
    at = RelFileLocator(1663, 5, 1259)
    for parts, reason in (
        ({"": pages(1)[:-1]}, "base/5/1259 has 8191 bytes, not a whole number"),
        ({"": pages(5)}, "base/5/1259 has 40960 bytes, not a whole number of pages of a segment"),
        ({"": pages(3), ".1": pages(1)}, "base/5/1259 has 24576 bytes, and there is a segment after it"),
        ({".1": pages(1)}, r"base/5/1259\.1 is in the backup, and segment 0 is not"),
    ):
        files = CatalogFiles()
        for suffix, content in parts.items():
            offered(files, f"base/5/1259{suffix}", content)
        with pytest.raises(FormatError, match=reason):
            read(files, at)
        files.close()
    files = CatalogFiles()
    offered(files, "base/5/1259", pages(1))
    with pytest.raises(FormatError, match="base/5/1259 is in the backup twice"):
        offered(files, "base/5/1259", pages(1))
    with pytest.raises(FormatError, match=r"base/5/pg_filenode\.map has 7 bytes"):
        offered(files, "base/5/pg_filenode.map", bytes(7))
    with pytest.raises(SourceError, match=r"no pg_filenode\.map of database 5"):
        files.map_of(1663, 5)
    with pytest.raises(SourceError, match=r"no pg_filenode\.map of the shared catalogs"):
        files.map_of(1664, 0)
    files.close()
