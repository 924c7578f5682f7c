"""``walshadow inspect wal``: files that are missing, cut, recycled, empty or damaged, and its table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.stream.walmaker import WalMaker, main_data
from walshadow_core.stream.files import segment_name

SEGMENT = 1 << 20
Program = Callable[..., Any]


@pytest.fixture
def segments(tmp_path: Path) -> list[Path]:
    """Four segments: records run over from each into the next, and end inside the last."""
    wal = WalMaker()
    while wal.lsn < wal.start + 3 * SEGMENT + SEGMENT // 2:
        wal.add(main_data(b"x" * 50_000), rmgr=10, info=0x20)
    wal.out += bytes(-len(wal.out) % SEGMENT)
    files = []
    for number in range(4):
        file = tmp_path / segment_name(1, wal.start + number * SEGMENT, SEGMENT)
        file.write_bytes(wal.out[number * SEGMENT : (number + 1) * SEGMENT])
        files.append(file)
    return files


def run(walshadow: Program, *files: Path) -> tuple[int, list[str]]:
    """The exit code, and stderr's lines."""
    done = walshadow("inspect", "wal", "--stats", *map(str, files))
    return done.code, done.err.splitlines()


def test_segments_are_whole(walshadow: Program, segments: list[Path]) -> None:
    code, said = run(walshadow, *segments)
    assert code == 0
    assert len(said) == 1 and said[0].endswith("there is no record")
    assert run(walshadow, *segments[:2]) == (0, []), "its last record goes on in a file that was not asked for"


def test_a_missing_segment_is_named(walshadow: Program, segments: list[Path]) -> None:
    code, said = run(walshadow, segments[0], *segments[2:])
    assert code == 1
    assert said[0] == f"segment {segments[1].name} is missing between {segments[0]} and {segments[2]}"
    code, said = run(walshadow, segments[3], segments[0])
    assert code == 1
    assert said[0].startswith(f"segments {segments[1].name} to {segments[2].name} are missing between ")


def test_a_cut_file(walshadow: Program, segments: list[Path]) -> None:
    whole = segments[1].read_bytes()
    segments[1].write_bytes(whole[:500_000])
    code, said = run(walshadow, *segments[:2])
    assert code == 1
    assert len(said) == 1 and said[0].startswith("the WAL ends at 0/11")
    assert said[0].endswith(f"{segments[1]} is cut: it has 500,000 bytes, its segment 1,048,576")
    partial = segments[1].rename(segments[1].with_name(segments[1].name + ".partial"))
    assert run(walshadow, segments[0], partial) == (0, [])
    segments[3].write_bytes(segments[3].read_bytes()[:-8192])
    code, said = run(walshadow, segments[3])
    assert code == 1
    assert "there is no record" in said[0] and "is cut" in said[1]


def test_a_recycled_file_is_left_out(walshadow: Program, segments: list[Path], tmp_path: Path) -> None:
    other = tmp_path / segment_name(1, 9 << 24, SEGMENT)
    other.write_bytes(segments[0].read_bytes())
    reason = f"{other} is left out: its first page is of segment {segments[0].name}, so it is recycled or misnamed"
    code, said = run(walshadow, segments[3], other)
    assert code == 0 and said[0] == reason
    assert run(walshadow, other) == (1, [reason])


def test_a_file_made_ahead_is_left_out(walshadow: Program, segments: list[Path], tmp_path: Path) -> None:
    ahead = tmp_path / segment_name(1, 9 << 24, SEGMENT)
    ahead.write_bytes(bytes(SEGMENT))
    reason = f"{ahead} begins with zeros: no WAL was written to it yet"
    code, said = run(walshadow, *segments, ahead)
    assert code == 0 and said[0] == reason
    assert run(walshadow, ahead) == (1, [reason])


def test_a_failed_checksum_is_said(walshadow: Program, segments: list[Path]) -> None:
    content = bytearray(segments[3].read_bytes())
    content[200_000] ^= 1
    segments[3].write_bytes(content)
    code, said = run(walshadow, segments[3])
    assert code == 0 and len(said) == 1
    assert "the record fails its checksum: it is damaged, or was not written to its end yet" in said[0]
    content[8192 + 2] |= 0x80
    segments[3].write_bytes(content)
    code, said = run(walshadow, segments[3])
    assert code == 1 and said[0].endswith("the page has impossible flags"), "no live end looks like that"


@pytest.mark.parametrize("command", ["wal", "file", "page"])
def test_a_folder_and_a_missing_file(walshadow: Program, tmp_path: Path, command: str) -> None:
    more = ("--block", "0") if command == "page" else ()
    for path, why in ((tmp_path, "Is a directory"), (tmp_path / "nothing", "No such file or directory")):
        done = walshadow("inspect", command, str(path), *more)
        assert (done.code, done.err) == (1, f"error: {path} can't be read: {why}\n")


def test_an_empty_file(walshadow: Program, tmp_path: Path) -> None:
    empty = tmp_path / "000000010000000000000001"
    empty.touch()
    assert run(walshadow, empty) == (1, [f"error: {empty} is empty; fetch it again"])


def test_the_table_is_whole_in_a_pipe(
    walshadow: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, segments: list[Path]
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    done = walshadow("inspect", "wal", "--stats", *map(str, segments))
    assert "…" not in done.out
    titles, row = done.out.splitlines()[:2]
    assert titles.split() == ["rmgr", "type", "records", "bytes", "image", "bytes", "%", "of", "all"]
    assert row.split()[:2] == ["Heap", "UPDATE"]
