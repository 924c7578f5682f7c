"""Backup sources for tests alone: a data directory as it lies there, and a folder of tars."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from walshadow_core.api import BackupEnd, BackupRequest, BackupStart, Lsn, SourceError
from walshadow_core.pgformat.control import CONTROL_PATH, parse_control


@dataclass
class MadeFile:
    """A file whose content is at hand."""

    path: str
    content: bytes

    @property
    def size(self) -> int:
        return len(self.content)

    def chunks(self) -> Iterator[memoryview]:
        """In pieces that fit no page."""
        for at in range(0, len(self.content), 10_007):
            yield memoryview(self.content)[at : at + 10_007]


@dataclass
class MadeBackup:
    """A backup of one part with these files, in this order."""

    made: list[MadeFile]
    server_version: int
    tablespaces: dict[int, str] = field(default_factory=dict)
    name: str = "made"
    paths: frozenset[str] | None = None
    bytes_read: int = 0

    @property
    def size(self) -> int:
        return sum(file.size for file in self.made)

    @property
    def start(self) -> BackupStart:
        control = parse_control(next(file.content for file in self.made if file.path == CONTROL_PATH))
        return BackupStart(
            control.redo, control.timeline, control.system_identifier, self.server_version, self.tablespaces, self.size
        )

    def parts(self) -> Sequence[MadeBackup]:
        return [self]

    def files(self) -> Iterator[MadeFile]:
        for file in self.made:
            yield file
            self.bytes_read += file.size

    def end(self) -> BackupEnd:
        return BackupEnd(Lsn(self.start.b_redo + 1), self.start.timeline)


@dataclass
class MadeSource:
    """Gives its backups one after the other, the last one again and again."""

    backups: list[MadeBackup]
    opened: list[BackupRequest] = field(default_factory=list)

    def preflight(self) -> None:
        if not self.backups:
            raise SourceError("no backup")

    @contextmanager
    def open(self, request: BackupRequest) -> Iterator[MadeBackup]:
        backup = self.backups[min(len(self.opened), len(self.backups) - 1)]
        self.opened.append(request)
        yield backup


_LEFT_OUT = ("pg_wal/", "pg_replslot/", "pg_dynshmem/", "pg_stat", "pgsql_tmp", "postmaster.", "postgresql.")


def copied(data: Path, server_version: int, *, control_last: bool = True) -> MadeBackup:
    """A data directory, as it lies there. The caller has seen to a checkpoint."""
    files = []
    spaces = {int(link.name): str(link.resolve()) for link in (data / "pg_tblspc").iterdir()}
    folders = [(data, ""), *((Path(path), f"pg_tblspc/{oid}/") for oid, path in spaces.items())]
    for folder, prefix in folders:
        for path in sorted(folder.rglob("*")):
            name = prefix + str(path.relative_to(folder))
            if path.is_file() and not name.startswith(_LEFT_OUT):
                files.append(MadeFile(name, path.read_bytes()))
    if control_last:
        files.sort(key=lambda file: file.path == CONTROL_PATH)
    return MadeBackup(files, server_version, spaces)


def of_tars(tars: Sequence[bytes], server_version: int) -> MadeBackup:
    """The regular files of tar archives."""
    files = []
    for tar in tars:
        with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isfile() else None
                if content is not None:
                    files.append(MadeFile(member.name.lstrip("/"), content.read()))
    return MadeBackup(files, server_version)
