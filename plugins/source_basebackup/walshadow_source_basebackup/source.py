"""The backup source: one BASE_BACKUP, its one part, its files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from walshadow_core.api import (
    Backup,
    BackupEnd,
    BackupFile,
    BackupPart,
    BackupRequest,
    BackupStart,
    FormatError,
    Lsn,
    SourceError,
    WalStream,
)
from walshadow_source_basebackup import preflight, protocol, streaming
from walshadow_source_basebackup.connecting import connect
from walshadow_source_basebackup.protocol import CONTENT, Archive
from walshadow_source_basebackup.replication import CopyCommand, ReplicationConnection
from walshadow_source_basebackup.settings import MODE, Settings
from walshadow_source_basebackup.tar import TarReader


class BaseBackupSource:
    """Takes base backups of one running Postgres: a ``BackupSource``."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def preflight(self) -> None:
        """Look whether BASE_BACKUP would be allowed. Raises SourceError, a line for each thing in the way."""
        preflight.check(self._settings)

    @contextmanager
    def open(self, request: BackupRequest) -> Iterator[Backup]:
        """Start the backup; returns when its checkpoint is done. Leaving ends it at the server, whatever state
        it is in, and makes a thread that still reads it get a SourceError."""
        connection = connect(self._settings)
        try:
            yield begin(connection, self._settings, request)
        finally:
            connection.close()

    def stream(self, slot: str | None = None, start: Lsn | None = None) -> AbstractContextManager[WalStream]:
        """See WalStreamSource."""
        return streaming.stream(self._settings, slot, start)


def begin(connection: ReplicationConnection, settings: Settings, request: BackupRequest) -> BaseBackup:
    """Send BASE_BACKUP and read its start facts. Raises SourceError."""
    connection.send(protocol.IDENTIFY_SYSTEM)
    identity = connection.rows()
    connection.finish_command()
    command = connection.backup(
        protocol.base_backup_command(
            label=settings.label or request.label,
            checkpoint=settings.checkpoint,
            max_rate_kb=settings.max_rate_kb,
        )
    )
    b_redo, timeline = protocol.parse_position(_only(command.rows()))
    tablespaces, size = protocol.parse_tablespaces(command.rows())
    command.begin_copy()
    start = BackupStart(
        b_redo=b_redo,
        timeline=timeline,
        system_identifier=protocol.parse_system_identifier(_only(identity)),
        server_version=connection.server_version,
        tablespaces=tablespaces,
        size_estimate=size,
    )
    return BaseBackup(command, start)


def _only(rows: list[tuple[str | None, ...]]) -> tuple[str | None, ...]:
    if len(rows) != 1:
        raise FormatError(f"BASE_BACKUP: {len(rows)} rows where one belongs")
    return rows[0]


class BaseBackup:
    """A running BASE_BACKUP: a ``Backup`` of one part."""

    def __init__(self, command: CopyCommand, start: BackupStart) -> None:
        self.start = start
        self._part = BaseBackupPart(command, start.size_estimate)

    def parts(self) -> Sequence[BackupPart]:
        """The one part: the whole stream, the archives of tablespaces first, the data directory last."""
        return (self._part,)

    def end(self) -> BackupEnd:
        """Where the backup ended. Raises SourceError if the part was not read to its end."""
        if self._part.end is None:
            raise SourceError("the base backup was not read to its end")
        return self._part.end


class BaseBackupPart:
    """The stream of a BASE_BACKUP: a ``BackupPart``, bound to the command that brings it."""

    name = MODE
    paths: frozenset[str] | None = None

    def __init__(self, command: CopyCommand, size: int | None) -> None:
        self.size = size
        self.bytes_read = 0
        self.end: BackupEnd | None = None
        self._command = command
        self._receive = command.copy_data
        self._next_archive: Archive | None = None
        self._begun = False

    def files(self) -> Iterator[BackupFile]:
        """The files of every archive, once. Raises SourceError, FormatError."""
        if self._begun:
            raise RuntimeError("the files of a base backup come once")
        self._begun = True
        if self._pull() is not None:
            raise FormatError("BASE_BACKUP: content before an archive was announced")
        while (archive := self._next_archive) is not None:
            self._next_archive = None
            yield from TarReader(self._pull, archive.name, archive.prefix, self._pull_into).files()

    def _pull_into(self, view: memoryview) -> int:
        """Put the next content of the current archive into ``view``; gives 0 where _pull() has to be asked."""
        size = self._command.content_into(view)
        self.bytes_read += size
        return size

    def _pull(self) -> memoryview | None:
        """The next content of the current archive, None at its end."""
        message = self._receive()
        if message is not None and message[0] == CONTENT:
            self.bytes_read += len(message) - 1
            return message[1:]
        return self._pull_rare(message)

    def _pull_rare(self, message: memoryview | None) -> memoryview | None:
        while message is not None:
            kind = message[0]
            if kind == CONTENT:
                self.bytes_read += len(message) - 1
                return message[1:]
            if kind == protocol.NEW_ARCHIVE:
                self._next_archive = protocol.parse_new_archive(message)
                return None
            if kind != protocol.PROGRESS:
                raise FormatError(f"BASE_BACKUP: a message of unknown kind {chr(kind)!r}")
            message = self._receive()
        self._read_end()
        return None

    def _read_end(self) -> None:
        position = protocol.parse_position(_only(self._command.rows()))
        self._command.finish_command()
        self.end = BackupEnd(*position)
