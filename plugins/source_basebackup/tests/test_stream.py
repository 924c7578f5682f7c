"""The COPY stream as a whole, with a connection that says what the test wants: what a server would never send."""

from __future__ import annotations

import tarfile
from collections.abc import Sequence

import pytest
from walshadow_source_basebackup.source import BaseBackup

from walshadow_core.api import BackupStart, FormatError, Lsn, SourceError

END = b"d" + bytes(1024)


class Said:
    """Stands for a replication connection in the middle of a BASE_BACKUP."""

    def __init__(self, messages: Sequence[bytes], end: list[tuple[str | None, ...]]) -> None:
        self._messages = iter(messages)
        self._end = end

    def copy_data(self) -> memoryview | None:
        message = next(self._messages, None)
        return None if message is None else memoryview(message)

    def rows(self) -> list[tuple[str | None, ...]]:
        return self._end

    def finish_command(self) -> None: ...


def backup(*messages: bytes, end: list[tuple[str | None, ...]] | None = None) -> BaseBackup:
    start = BackupStart(b_redo=Lsn(1), timeline=1, system_identifier=1, server_version=180000)
    said = Said(messages, [("0/2", "1")] if end is None else end)
    return BaseBackup(said, start)  # type: ignore[arg-type]


def header(path: str, size: int) -> bytes:
    info = tarfile.TarInfo(path)
    info.size = size
    return b"d" + info.tobuf(tarfile.USTAR_FORMAT)


def read(taken: BaseBackup) -> list[tuple[str, bytes]]:
    return [(file.path, b"".join(map(bytes, file.chunks()))) for file in taken.parts()[0].files()]


def test_archives_and_signs_of_life() -> None:
    alive = b"p" + bytes(8)
    taken = backup(
        b"n16400.tar\0/far\0", header("PG_18_1/5/7", 4), alive, b"dab", alive, alive, b"dcd" + bytes(508), END,
        b"nbase.tar\0\0", alive, header("base/5/7", 512), b"d" + b"e" * 512, END, alive,
    )  # fmt: skip
    assert read(taken) == [("pg_tblspc/16400/PG_18_1/5/7", b"abcd"), ("base/5/7", b"e" * 512)]
    assert taken.parts()[0].bytes_read == 2 * 512 + 2 * 1024 + 1024
    assert (taken.end().b_end, taken.end().timeline) == (2, 1)


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([b"dx"], "content before an archive"),
        ([b"nbase.tar\0\0", b"?"], "unknown kind '\\?'"),
        ([b"nbase.tar\0\0", b"m"], "unknown kind 'm'"),
        ([b"nbase.tar\0\0", header("f", 9), b"nmore.tar\0\0"], "ends too early inside f"),
        ([b"nbase.tar\0\0", header("f", 9), b"d123"], "ends too early inside f"),
        ([b"nbase.tar\0\0"], "ends too early"),
    ],
)
def test_streams_that_make_no_sense(messages: list[bytes], says: str) -> None:
    taken = backup(*messages)
    with pytest.raises(FormatError, match=says):
        read(taken)


@pytest.mark.parametrize("end", [[], [("0/2", "1"), ("0/2", "1")], [("nowhere", "1")]])
def test_an_end_that_makes_no_sense(end: list[tuple[str | None, ...]]) -> None:
    taken = backup(b"nbase.tar\0\0", END, end=end)
    with pytest.raises(FormatError):
        read(taken)
    with pytest.raises(SourceError, match="not read to its end"):
        taken.end()
