"""WAL segments in files: which LSN, version and segment size a file is of, and its records."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from walshadow_core.api import FormatError, Lsn
from walshadow_core.pgformat.heap import PAGE_SIZE
from walshadow_core.pgformat.walpage import LONG_HEADER, MAX_SEGMENT, MIN_SEGMENT, PAGE_HEADER, PAGE_MAGIC
from walshadow_core.pgformat.walrecord import WalRecords
from walshadow_core.stream.reader import WalEnd, WalReader

_PIECE = 1 << 20
_NAME = re.compile(r"[0-9A-F]{8}([0-9A-F]{8})([0-9A-F]{8})(\.partial)?")
_MAJORS = {magic: major for major, magic in PAGE_MAGIC.items()}


@dataclass(frozen=True)
class SegmentFile:
    """A WAL segment in a file, as the header of its first page says. ``recycled``: by its name it is another one, so
    it is an old file that waits to be written anew."""

    path: Path
    major: int
    timeline: int
    start: Lsn
    segment_size: int
    system_identifier: int
    recycled: bool


def segment_file(path: Path) -> SegmentFile:
    """Read the first page's header. Raises FormatError if it is not that of a segment's first page, OSError."""
    with path.open("rb") as file:
        header = np.frombuffer(file.read(LONG_HEADER).ljust(LONG_HEADER, b"\0"), PAGE_HEADER)[0]
    major = _MAJORS.get(int(header["magic"]))
    if major is None:
        raise FormatError(
            f"{path} is not a WAL segment of Postgres {min(PAGE_MAGIC)} to {max(PAGE_MAGIC)}: its first page begins "
            f"with {int(header['magic']):04X}",
            "name files of pg_wal, or of an archive once decompressed",
        )
    size, start = int(header["segment_size"]), int(header["address"])
    sound = MIN_SEGMENT <= size <= MAX_SEGMENT and size & (size - 1) == 0 and int(header["page_size"]) == PAGE_SIZE
    if not sound or start % size or start >> 63:
        raise FormatError(f"{path}: the first page is not that of a WAL segment", "the file is cut or damaged")
    name = _NAME.fullmatch(path.name)
    recycled = name is not None and (int(name[1], 16) << 32) + int(name[2], 16) * size != start
    timeline, system = int(header["timeline"]), int(header["system_identifier"])
    return SegmentFile(path, major, timeline, Lsn(start), size, system, recycled)


@dataclass(frozen=True)
class Stretch:
    """Segments that follow one another without a gap, of one cluster."""

    segments: tuple[SegmentFile, ...]

    @property
    def major(self) -> int:
        """The Postgres version."""
        return self.segments[0].major


def stretches(paths: Sequence[Path]) -> list[Stretch]:
    """The files in the order of the WAL, a new stretch wherever one is missing; recycled ones are left out. Where a
    segment is there for two timelines, the newer one counts: it has the older one's records up to the switch. Raises
    as segment_file."""
    found: dict[tuple[int, int], SegmentFile] = {}
    for segment in map(segment_file, paths):
        key = segment.system_identifier, int(segment.start)
        if segment.recycled:
            continue
        if key not in found or found[key].timeline < segment.timeline:
            found[key] = segment
    out: list[list[SegmentFile]] = []
    for _, segment in sorted(found.items()):
        last = out[-1][-1] if out else None
        follows = (
            last is not None
            and last.system_identifier == segment.system_identifier
            and last.segment_size == segment.segment_size
            and last.start + last.segment_size == segment.start
        )
        if follows:
            out[-1].append(segment)
        else:
            out.append([segment])
    return [Stretch(tuple(segments)) for segments in out]


class StretchReader:
    """Reads the records of a stretch; ``end`` is set if the WAL ends inside of it, ``path`` is the file at hand."""

    def __init__(self, stretch: Stretch) -> None:
        first = stretch.segments[0]
        self._stretch = stretch
        self._reader = WalReader(first.start, first.major, first.segment_size, first.system_identifier)
        self.path = first.path

    @property
    def end(self) -> WalEnd | None:
        """Where, and why, if the WAL ended before the files did."""
        return self._reader.end

    @property
    def in_last_file(self) -> bool:
        """Whether the file at hand is the last one: a live WAL ends there."""
        return self.path == self._stretch.segments[-1].path

    def records(self) -> Iterator[WalRecords]:
        """All of them, in batches. Raises FormatError, OSError."""
        piece = memoryview(bytearray(_PIECE))
        for segment in self._stretch.segments:
            self.path = segment.path
            with segment.path.open("rb", buffering=0) as file:
                read = 0
                while got := file.readinto(piece):
                    read += got
                    yield from self._reader.feed(piece[:got])
                    if self.end is not None:
                        return
            if read != segment.segment_size and not self.in_last_file:
                raise FormatError(
                    f"{segment.path} has {read} bytes, its segment {segment.segment_size}", "fetch it again"
                )
