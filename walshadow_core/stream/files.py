"""WAL segments in files: which LSN, version and segment size a file is of, and its records."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from walshadow_core.api import FormatError, Lsn, SourceError
from walshadow_core.pgformat.heap import PAGE_SIZE
from walshadow_core.pgformat.walpage import LONG_HEADER, MAX_SEGMENT, MIN_SEGMENT, PAGE_HEADER, PAGE_MAGIC
from walshadow_core.pgformat.walrecord import WalRecords
from walshadow_core.stream.reader import PIECE, WalEnd, WalReader

_NAME = re.compile(r"[0-9A-F]{8}([0-9A-F]{8})([0-9A-F]{8})(\.partial)?")
_MAJORS = {magic: major for major, magic in PAGE_MAGIC.items()}


@dataclass(frozen=True)
class SegmentFile:
    """A WAL segment in a file, as the header of its first page says. ``size``: bytes that the file has.
    ``recycled``: by its name it is another one, so it is an old file that waits to be written anew."""

    path: Path
    major: int
    timeline: int
    start: Lsn
    segment_size: int
    system_identifier: int
    size: int
    recycled: bool

    @property
    def end(self) -> Lsn:
        """Where the segment after it begins."""
        return Lsn(self.start + self.segment_size)

    @property
    def cut(self) -> str | None:
        """What to say of a file that has not its segment's size."""
        if self.size == self.segment_size:
            return None
        wrong = "cut" if self.size < self.segment_size else "too long"
        return f"{self.path} is {wrong}: it has {self.size:,} bytes, its segment {self.segment_size:,}"


class UnwrittenSegment(FormatError):
    """A file that Postgres made ahead, of zeros: there is no WAL in it yet."""


def segment_file(path: Path) -> SegmentFile:
    """Read the first page's header. Raises FormatError if it is not that of a segment's first page (UnwrittenSegment
    if there is none yet), SourceError."""
    try:
        with path.open("rb") as file:
            content, length = file.read(LONG_HEADER), os.fstat(file.fileno()).st_size
    except OSError as error:
        raise _unreadable(path, error) from error
    if not content:
        raise FormatError(f"{path} is empty", "fetch it again")
    if content == bytes(LONG_HEADER):
        raise UnwrittenSegment(f"{path} begins with zeros: no WAL was written to it yet")
    header = np.frombuffer(content.ljust(LONG_HEADER, b"\0"), PAGE_HEADER)[0]
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
    return SegmentFile(path, major, timeline, Lsn(start), size, system, length, recycled)


def _unreadable(path: Path, error: OSError) -> SourceError:
    return SourceError(f"{path} can't be read: {error.strerror}")


def segment_name(timeline: int, start: int, segment_size: int) -> str:
    """How Postgres names the segment's file (XLogFileName, ``access/xlog_internal.h``)."""
    return f"{timeline:08X}{start >> 32:08X}{(start & 0xFFFFFFFF) // segment_size:08X}"


@dataclass(frozen=True)
class Stretch:
    """Segments that follow one another without a gap, of one cluster."""

    segments: tuple[SegmentFile, ...]

    @property
    def major(self) -> int:
        """The Postgres version."""
        return self.segments[0].major

    def missing_before(self, after: Stretch) -> str | None:
        """What to say of the segments between this stretch and the next one; None if there are none."""
        last, first = self.segments[-1], after.segments[0]
        if last.system_identifier != first.system_identifier or last.end >= first.start:
            return None
        names = [
            segment_name(last.timeline, at, last.segment_size)
            for at in (last.end, max(last.end, first.start - last.segment_size))
        ]
        which = f"segment {names[0]} is" if names[0] == names[1] else f"segments {names[0]} to {names[1]} are"
        return f"{which} missing between {last.path} and {first.path}"


def stretches(paths: Sequence[Path], left_out: Callable[[str], None] | None = None) -> list[Stretch]:
    """The files in the order of the WAL, a new stretch wherever one is missing. Recycled ones and those that were
    not written yet are left out; ``left_out`` is told why. Where a segment is there for two timelines, the newer one
    counts: it has the older one's records up to the switch. Raises as segment_file."""
    tell = left_out or (lambda _: None)
    found: dict[tuple[int, int], SegmentFile] = {}
    for path in paths:
        try:
            segment = segment_file(path)
        except UnwrittenSegment as unwritten:
            tell(str(unwritten))
            continue
        key = segment.system_identifier, int(segment.start)
        if segment.recycled:
            real = segment_name(segment.timeline, segment.start, segment.segment_size)
            tell(f"{path} is left out: its first page is of segment {real}, so it is recycled or misnamed")
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
            and last.end == segment.start
        )
        if follows:
            out[-1].append(segment)
        else:
            out.append([segment])
    return [Stretch(tuple(segments)) for segments in out]


class StretchReader:
    """Reads the records of a stretch; ``end`` is set if the WAL ends inside of it."""

    def __init__(self, stretch: Stretch) -> None:
        first = stretch.segments[0]
        self._stretch = stretch
        self._reader = WalReader(first.start, first.major, first.segment_size, first.system_identifier)
        self._segment = first

    @property
    def segment(self) -> SegmentFile:
        """The file at hand."""
        return self._segment

    @property
    def position(self) -> Lsn:
        """The LSN after the last whole record."""
        return self._reader.position

    @property
    def end(self) -> WalEnd | None:
        """Where, and why, if the WAL ended before the files did."""
        return self._reader.end

    @property
    def in_last_file(self) -> bool:
        """Whether the file at hand is the last one: a live WAL ends there."""
        return self._segment is self._stretch.segments[-1]

    def records(self) -> Iterator[WalRecords]:
        """All of them, in batches. Raises FormatError for a file but the last that is cut, SourceError."""
        for segment in self._stretch.segments:
            self._segment = segment
            try:
                with segment.path.open("rb", buffering=0) as file:
                    while got := file.readinto(self._reader.room(PIECE).data):
                        yield from self._reader.take(got)
                        if self.end is not None:
                            return
            except OSError as error:
                raise _unreadable(segment.path, error) from error
            if segment.cut and not self.in_last_file:
                raise FormatError(segment.cut, "fetch it again")
