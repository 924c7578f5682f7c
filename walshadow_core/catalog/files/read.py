"""Relation descriptors out of a backup, with no server to ask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from walshadow_core.api import (
    Backup,
    BackupRequest,
    BackupSource,
    BackupStart,
    Lsn,
    RelFileLocator,
    SourceError,
)
from walshadow_core.catalog.build import CatalogBuilder
from walshadow_core.catalog.files.collect import CatalogFiles, KeptFiles
from walshadow_core.catalog.files.database import DatabaseCatalogs, NotKept, find_database
from walshadow_core.catalog.files.facts import cluster_facts, major_of
from walshadow_core.catalog.files.needed import read_needed
from walshadow_core.catalog.files.resolve import Names
from walshadow_core.catalog.files.scan import CatalogScanner
from walshadow_core.catalog.names import parse_qualified
from walshadow_core.catalog.refusals import Refusal
from walshadow_core.catalog.snapshot import describe
from walshadow_core.catalog.sql import CatalogSnapshot
from walshadow_core.pgformat.control import CONTROL_PATH, ControlFile, parse_control
from walshadow_core.visibility.gate import Gate
from walshadow_core.visibility.status import CopiedStatus, WindowStatus
from walshadow_core.visibility.whole import whole

_ATTEMPTS: Final = 3


@dataclass(frozen=True)
class Asked:
    """What is wanted of a backup's catalog: ``tables`` of one database, as people write them (see
    `parse_qualified`); a bare name is looked up in the schemas of ``search_path``. With ``with_children`` a table has
    the rows of those that inherit from it too."""

    database: str
    tables: Sequence[str]
    search_path: Sequence[str] = ("pg_catalog", "public")
    with_children: bool = False


@dataclass(frozen=True)
class FoundCatalog:
    """What was found, and where: a later look at another backup of the cluster keeps those files for sure."""

    snapshot: CatalogSnapshot
    database_oid: int
    locators: frozenset[RelFileLocator]


class WalBeside(Protocol):
    """The WAL that comes while a backup is read."""

    def begin(self, start: BackupStart) -> None:
        """The backup has begun. Raises SourceError."""
        ...

    def finish(self, files: CatalogFiles, control: ControlFile, b_end: Lsn) -> tuple[KeptFiles, WindowStatus]:
        """It has ended: the files as they are at its end, and how transactions ended meanwhile. Raises SourceError,
        FormatError."""
        ...


def read_backup(
    source: BackupSource,
    asked: Asked,
    folder: Path | None = None,
    beside: Callable[[], AbstractContextManager[WalBeside | None]] = nullcontext,
) -> FoundCatalog:
    """Read the catalog out of a backup of ``source``, which is read to its end for that. Where a catalog was rewritten
    (VACUUM FULL) and is large, its file's number is known only when it has passed by: then another backup is read.
    ``folder`` is where files are kept meanwhile. With the WAL ``beside`` it, the catalog is that of the backup's end;
    without, no DDL may run meanwhile.

    Raises UsageError for a text that is no table name, SourceError, FormatError.
    """
    for table in asked.tables:
        parse_qualified(table)
    database: int | None = None
    known: frozenset[RelFileLocator] = frozenset()
    for _ in range(_ATTEMPTS):
        files = CatalogFiles(folder, database=database, known=known)
        status = CopiedStatus(folder=folder)
        try:
            with beside() as wal:
                kept: KeptFiles = files
                window: WindowStatus | None = None
                with source.open(BackupRequest(known, everything=True)) as backup:
                    start = backup.start
                    if wal is not None:
                        wal.begin(start)
                    control = _collect(backup, files, status)
                    end = backup.end()
                    if wal is not None:
                        kept, window = wal.finish(files, control, end.b_end)
                status.complete_with(control, window)
                return look(asked, kept, status, start, control)
        except NotKept as missed:
            database = missed.database
            known |= missed.locators
        finally:
            files.close()
            status.close()
    raise SourceError(
        f"the catalogs of {asked.database} were rewritten each time a backup was taken",
        "load again when no VACUUM FULL of catalogs is running",
    )


def _collect(backup: Backup, files: CatalogFiles, status: CopiedStatus) -> ControlFile:
    control: ControlFile | None = None
    for part in backup.parts():
        for file in part.files():
            if file.path == CONTROL_PATH:
                control = parse_control(whole(file))
            elif status.wants(file.path):
                status.add(file.path, whole(file))
            else:
                files.offer(file)
    if control is None:
        raise SourceError("the backup has no global/pg_control", "it is not complete: take another one")
    return control


def look(
    asked: Asked, files: KeptFiles, status: CopiedStatus, start: BackupStart, control: ControlFile
) -> FoundCatalog:
    """Read what was kept of a backup whose transaction status is complete. It is of one moment if ``files`` and
    ``status`` are. Raises NotKept, SourceError, FormatError."""
    major = major_of(start, control)
    scanner = CatalogScanner(
        files,
        Gate(status),
        major=major,
        segment_blocks=control.relseg_size,
        verify_checksums=control.data_checksum_version != 0,
    )
    database = find_database(files, scanner, asked.database)
    catalogs = DatabaseCatalogs(files, scanner, database, major)
    namespaces = catalogs.namespaces()
    wanted_names = {text: parse_qualified(text) for text in asked.tables}
    names = Names(catalogs, namespaces, asked.search_path, wanted_names.values())
    refused: list[Refusal] = []
    found: dict[int, str] = {}
    for text, name in wanted_names.items():
        answer = names.find(name)
        if isinstance(answer, int):
            found.setdefault(answer, text)
        else:
            refused.append(Refusal(text, answer))
    needed = read_needed(catalogs, found, namespaces)
    builder = CatalogBuilder(needed.rows)
    wanted: dict[int, str] = {}
    for oid, text in found.items():
        if reason := builder.refusal(oid, with_children=asked.with_children):
            refused.append(Refusal(text, reason))
        else:
            wanted[oid] = text
    tablespace = database.tablespace
    sizes = {
        row.oid: files.size(RelFileLocator(row.tablespace or tablespace, database.oid, row.number))
        for row in needed.rows.classes
    }
    done = describe(builder, wanted, sizes, needed.missing, with_children=asked.with_children)
    refused = sorted(refused + done.refused, key=lambda refusal: asked.tables.index(refusal.name))
    snapshot = CatalogSnapshot(
        cluster_facts(start, control, database), tuple(done.relations), tuple(refused), done.notices
    )
    return FoundCatalog(snapshot, database.oid, catalogs.locators)
