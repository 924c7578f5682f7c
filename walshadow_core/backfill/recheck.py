"""What is known of a load's tables when its backup has ended: whether they still are what was read at the start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from walshadow_core.api import BackupFile, BackupStart, Lsn, RelationDescriptor, RelFileLocator, SourceError
from walshadow_core.backfill.finalcatalog import FinalCatalog, Redone
from walshadow_core.backfill.stats import TableStats
from walshadow_core.catalog.files.collect import CatalogFiles, KeptFiles
from walshadow_core.catalog.files.database import NotKept
from walshadow_core.catalog.files.read import Asked, FoundCatalog, look
from walshadow_core.catalog.moment import Moment
from walshadow_core.pgformat.control import ControlFile
from walshadow_core.visibility.status import CopiedStatus

Applied = Callable[[RelationDescriptor], RelationDescriptor]
"""Gives a descriptor with what the user chose for its columns, as the load has it."""


@dataclass(frozen=True)
class Ended:
    """A pass whose backup has ended: the backup's start, its pg_control, the status of its transactions, which is
    complete; the LSN that the pass is of; and the window, if there is one."""

    start: BackupStart
    control: ControlFile
    status: CopiedStatus
    moment: Lsn
    redone: Redone | None


class Recheck(Protocol):
    """Reads the descriptors of a load's tables once more. A table that is gone is left out."""

    everything: bool
    """Whether the backup must leave nothing out."""

    @property
    def locators(self) -> frozenset[RelFileLocator]:
        """Files that redo is wanted for beside those of the tables."""
        ...

    def offer(self, file: BackupFile) -> None:
        """A file of the load's backup that the pass itself has no use for."""
        ...

    def note(self, path: str, size: int) -> None:
        """A file that the pass walks."""
        ...

    def relations(self, ended: Ended) -> Sequence[RelationDescriptor]:
        """The descriptors at the pass's moment, or later. Raises SourceError."""
        ...

    def void(self, before: RelationDescriptor, after: RelationDescriptor) -> str | None:
        """Why what was walked of a table is void though its descriptor is what it was, None if it stands."""
        ...

    def doubt(self, table: TableStats) -> str | None:
        """Why a copy may not show one moment, beyond what its pages tell; None if there is no reason."""
        ...

    def close(self) -> None: ...


class SqlRecheck:
    """Asks the source, in a snapshot that sees every commit up to the window's end.

    It sees later ones too: a table that was altered after it fails like one that was altered before, and one that was
    rewritten is read again."""

    everything = False
    locators: frozenset[RelFileLocator] = frozenset()

    def __init__(self, read: Callable[[Moment], Sequence[RelationDescriptor]]) -> None:
        self._read = read

    def offer(self, file: BackupFile) -> None:
        """Nothing in the backup is of use."""

    def note(self, path: str, size: int) -> None:
        """Nothing in the backup is of use."""

    def relations(self, ended: Ended) -> Sequence[RelationDescriptor]:
        """See Recheck. Raises SourceError."""
        return self._read(Moment(ended.moment, ended.status.committed))

    def void(self, before: RelationDescriptor, after: RelationDescriptor) -> str | None:
        """The descriptor tells all."""
        return None

    def doubt(self, table: TableStats) -> str | None:
        """The descriptor tells all."""
        return None

    def close(self) -> None:
        """Nothing is held."""


class BackupRecheck:
    """Reads the catalog files of the load's own backup as they are at the end of its window: the catalog of that very
    moment.

    Without a window they are as they were copied, at moments of their own, maybe before the table was: what happened to
    it in between does not show in them, but mostly in its files. A rewrite leaves the old file shorter than it was, or
    filled up with zeros.
    """

    everything = True

    def __init__(self, asked: Asked, found: FoundCatalog, applied: Applied, folder: Path | None = None) -> None:
        self._asked = asked
        self._applied = applied
        self.found = found
        self._files = CatalogFiles(folder, database=found.database_oid, known=found.locators)

    @property
    def locators(self) -> frozenset[RelFileLocator]:
        """See Recheck: where the catalogs were at the last look."""
        return self.found.locators

    def offer(self, file: BackupFile) -> None:
        """Keep it if it may be of the catalog."""
        self._files.offer(file)

    def note(self, path: str, size: int) -> None:
        """Its size is what the catalog will say."""
        self._files.note(path, size)

    def relations(self, ended: Ended) -> Sequence[RelationDescriptor]:
        """See Recheck. Raises SourceError, FormatError."""
        files: KeptFiles = self._files
        if ended.redone is not None:
            checksums = ended.control.data_checksum_version != 0
            files = FinalCatalog(self._files, ended.redone, self.locators, checksums=checksums)
        try:
            self.found = look(self._asked, files, ended.status, ended.start, ended.control)
        except NotKept:
            raise SourceError(
                "the source's catalogs were rewritten (VACUUM FULL) while the load ran, so whether its tables were "
                "altered can't be told",
                "load again",
            ) from None
        return [self._applied(relation) for relation in self.found.snapshot.relations]

    def void(self, before: RelationDescriptor, after: RelationDescriptor) -> str | None:
        """A table that has shrunk may have been emptied or rewritten while it was copied."""
        now = {leaf.oid: leaf.size_bytes for leaf in after.stored}
        for leaf in before.stored:
            if now[leaf.oid] < leaf.size_bytes:
                return (
                    f"{leaf.qualified_name} shrank from {leaf.size_bytes} to {now[leaf.oid]} bytes while the backup "
                    "ran, by a rewrite (TRUNCATE, VACUUM FULL) or by VACUUM: only SQL, or the WAL, tells; load it again"
                )
        return None

    def doubt(self, table: TableStats) -> str | None:
        """Pages of zeros, and standbys."""
        if self.found.snapshot.cluster.in_recovery:
            return (
                f"{table.name}: whether the copy is exact can't be told: the source is a standby, and what it has "
                "replayed since its last restartpoint may be missing"
            )
        if table.empty_pages:
            return (
                f"{table.name}: whether the copy is exact can't be told: {table.empty_pages} of its pages are empty, "
                "as if the table had just been made longer, or cut off while it was copied"
            )
        return None

    def close(self) -> None:
        """Free the files."""
        self._files.close()
