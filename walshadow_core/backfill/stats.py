"""What a load counts, for the display and for the summary."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace
from typing import Any

from walshadow_core.api import BackupEnd, BackupStart, Lsn, RelationDescriptor


@dataclass
class TableStats:
    """One table of a load. ``phase`` goes waiting, walking, resolving, writing, publishing, done or failed.

    Counters that several workers add to are added to under ``lock``; the display reads without it.
    ``put_off`` is why it is out of the pass at hand, and comes again with the next; ``exact_at`` the moment that its
    rows are of, ``passes`` how many it took. ``bytes_walked`` is what the backup brought of the table itself,
    ``toast_bytes`` of its TOAST relation, ``max_lsn`` the highest page LSN seen in both, ``empty_pages`` the count of
    pages of zeros, ``mixed`` whether a transaction that was running when the load began has committed and wrote to it.
    """

    relation: RelationDescriptor
    destination: str
    phase: str = "waiting"
    bytes_walked: int = 0
    toast_bytes: int = 0
    pages: int = 0
    empty_pages: int = 0
    rows_walked: int = 0
    rows_emitted: int = 0
    rows_gated: int = 0
    rows_deferred: int = 0
    rows_written: int = 0
    bytes_written: int = 0
    max_lsn: int = 0
    mixed: bool = False
    exact: bool = True
    exact_at: Lsn | None = None
    passes: int = 1
    put_off: str | None = None
    error: str | None = None
    adjusted: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @property
    def name(self) -> str:
        """``schema.table``."""
        return self.relation.qualified_name

    @property
    def size(self) -> int:
        """The table's bytes, as the catalog said."""
        return self.relation.size_bytes

    @property
    def failed(self) -> bool:
        """Whether this table won't be loaded."""
        return self.error is not None

    @property
    def out(self) -> bool:
        """Whether this table is out of the pass at hand."""
        return self.error is not None or self.put_off is not None

    def fail(self, error: str) -> None:
        """Take the table out of the pass; the first reason counts."""
        if self.error is None:
            self.error = error
            self.phase = "failed"

    def begin_again(self, relation: RelationDescriptor) -> None:
        """The table comes into one more pass, as ``relation``: nothing of the last one counts, but its size where that
        was not asked for again."""
        self.relation = replace(relation, size_bytes=relation.size_bytes or self.size)
        self.put_off = None
        self.phase = "waiting"
        self.passes += 1
        self.bytes_walked = self.toast_bytes = self.pages = self.empty_pages = self.max_lsn = 0
        self.rows_walked = self.rows_emitted = self.rows_gated = self.rows_deferred = 0
        self.rows_written = self.bytes_written = 0
        self.adjusted = {}
        self.mixed = False

    def summary(self) -> dict[str, Any]:
        """The table's part of the ``--json`` summary."""
        return {
            "table": self.name,
            "destination": self.destination,
            "status": "failed" if self.failed else self.phase,
            "error": self.error,
            "rows_walked": self.rows_walked,
            "rows_emitted": self.rows_emitted,
            "rows_gated": self.rows_gated,
            "rows_deferred": self.rows_deferred,
            "rows_written": self.rows_written,
            "bytes": self.bytes_walked,
            "toast_bytes": self.toast_bytes,
            "exact": self.exact and not self.failed,
            "exact_at": str(self.exact_at) if self.exact_at and not self.failed else None,
            "passes": self.passes,
            "adjusted": dict(self.adjusted),
            "warnings": list(self.warnings),
        }


@dataclass
class LoadStats:
    """A whole load. ``bytes_total`` is the source's own estimate of what must be read, None while
    unknown; ``refused`` gives the reason per table that was left out before anything was read, ``error`` that of a
    pass that ended as a whole. ``passing`` are the tables of the pass at hand, ``wal_bytes`` is the WAL that was kept
    for all passes."""

    tables: list[TableStats] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    error: str | None = None
    phase: str = "planning"
    bytes_read: int = 0
    bytes_total: int | None = None
    start: BackupStart | None = None
    end: BackupEnd | None = None
    started: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    wal_bytes: int = 0
    passing: list[TableStats] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.passing = self.tables

    @property
    def exact_at(self) -> Lsn | None:
        """The moment that the rows of all tables are of; None if there is no such moment."""
        moments = {t.exact_at for t in self.tables if not t.failed}
        return moments.pop() if len(moments) == 1 else None

    @property
    def progress_tables(self) -> list[TableStats]:
        """The tables, for the display."""
        return self.tables

    @property
    def nothing_left(self) -> bool:
        """Whether every table is out of the pass at hand."""
        return all(t.out for t in self.passing)

    @property
    def all_failed(self) -> bool:
        """Whether no table is left to load."""
        return all(t.failed for t in self.tables)

    def fail(self, error: str) -> None:
        """The pass ended as a whole: no table that is not done yet will be."""
        self.error = error
        for table in self.tables:
            if table.phase != "done":
                table.fail(error)

    def exit_code(self) -> int:
        """0 done, 1 nothing was loaded, 3 some tables failed or were left out."""
        if self.all_failed:
            return 1
        return 3 if self.refused or any(t.failed for t in self.tables) else 0

    def summary(self) -> dict[str, Any]:
        """The ``--json`` summary."""
        return {
            "error": self.error,
            "tables": [t.summary() for t in self.tables]
            + [{"table": name, "status": "refused", "error": reason} for name, reason in self.refused.items()],
            "b_redo": str(self.start.b_redo) if self.start else None,
            "b_end": str(self.end.b_end) if self.end else None,
            "timeline": self.start.timeline if self.start else None,
            "system_identifier": str(self.start.system_identifier) if self.start else None,
            "bytes_read": self.bytes_read,
            "exact": all(t.exact and not t.failed for t in self.tables) and not self.refused,
            "exact_at": str(self.exact_at) if self.exact_at else None,
            "wal_bytes": self.wal_bytes,
            "seconds": round(self.seconds, 3),
        }
