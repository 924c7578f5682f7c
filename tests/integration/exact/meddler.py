"""What stands between the program and its backups, to have things happen at the moment that matters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from walshadow_source_basebackup import plugin
from walshadow_source_basebackup.source import BaseBackupSource

from tests.integration.support import database
from walshadow_core.api import Backup, BackupEnd, BackupFile, BackupPart, BackupRequest, BackupStart, WalStream
from walshadow_core.pgformat.relpath import parse_relation_path
from walshadow_core.testing.postgres import PostgresServer

Change = Callable[[str, bytes], bytes]


@dataclass
class Meddler:
    """Runs ``streamed`` when the WAL is asked for, ``before`` when it is streamed and the backup has not begun, ``begun``
    when it has, ``during`` when the first MiB of a table was read, and each after that, ``ended`` right after the end of
    the backup, and gives the main forks of tables as ``change`` makes them. Each is done in the first ``times`` backups
    alone."""

    streamed: Callable[[], Any] = lambda: None
    before: Callable[[], Any] = lambda: None
    during: Callable[[], Any] | None = None
    begun: Callable[[], Any] = lambda: None
    ended: Callable[[], Any] = lambda: None
    change: Change | None = None
    times: int = 1
    backups: int = field(default=0, init=False)


@dataclass
class _File:
    path: str
    content: bytes
    during: Callable[[], Any] | None = None

    @property
    def size(self) -> int:
        return len(self.content)

    def chunks(self) -> Iterator[memoryview]:
        for at in range(0, len(self.content), 1 << 20):
            if at and self.during is not None:
                self.during()
            yield memoryview(self.content)[at : at + (1 << 20)]


class _Part:
    name = "meddled"
    paths = None
    size = None

    def __init__(self, part: BackupPart, meddler: Meddler) -> None:
        self._part = part
        self._meddler = meddler

    @property
    def bytes_read(self) -> int:
        return self._part.bytes_read

    def files(self) -> Iterator[BackupFile]:
        for file in self._part.files():
            relation = parse_relation_path(file.path)
            if relation is not None and relation.fork == "main" and relation.locator.number >= 16384:
                content = b"".join(map(bytes, file.chunks()))
                change = self._meddler.change
                yield _File(file.path, change(file.path, content) if change else content, self._meddler.during)
            else:
                yield file


class _Backup:
    def __init__(self, backup: Backup, meddler: Meddler) -> None:
        self._backup = backup
        self._meddler = meddler
        self.start: BackupStart = backup.start

    def parts(self) -> list[BackupPart]:
        m = self._meddler
        untouched = m.change is None and m.during is None
        return [part if untouched else _Part(part, m) for part in self._backup.parts()]

    def end(self) -> BackupEnd:
        end = self._backup.end()
        self._meddler.ended()
        return end


def stand_between(monkeypatch: pytest.MonkeyPatch, meddler: Meddler) -> None:
    """Have every backup that the program takes pass by ``meddler``."""

    class Source:
        def __init__(self, settings: Any) -> None:
            self._real = BaseBackupSource(settings)

        def preflight(self) -> None:
            self._real.preflight()

        def stream(self, *words: Any) -> AbstractContextManager[WalStream]:
            if meddler.backups < meddler.times:
                meddler.streamed()
            return self._real.stream(*words)

        @contextmanager
        def open(self, request: BackupRequest) -> Iterator[Backup]:
            if meddler.backups < meddler.times:
                meddler.before()
            with self._real.open(request) as backup:
                meddler.backups += 1
                if meddler.backups > meddler.times:
                    yield backup
                    return
                meddler.begun()
                yield _Backup(backup, meddler)

    monkeypatch.setattr("walshadow_source_basebackup.source.BaseBackupSource", Source)
    if hasattr(plugin, "BaseBackupSource"):
        monkeypatch.setattr(plugin, "BaseBackupSource", Source)


SCHEMA = (
    "create table t (id int primary key, v text); alter table t alter v set storage external;"
    "insert into t select i, repeat('v', case when i % 50 = 0 then 5000 else 50 end) from generate_series(1, 3000) i;"
    "vacuum (freeze) t"
)


@contextmanager
def table(pg: PostgresServer) -> Iterator[str]:
    with database(pg) as db:
        for statement in SCHEMA.split(";"):
            pg.execute(statement, database=db)
        yield db
