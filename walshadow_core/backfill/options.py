"""What a load is asked for."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from walshadow_core.api import Form, RelationDescriptor, TablePlan, TransactionStatus, VisibilityResolver
from walshadow_core.backfill.recheck import Recheck
from walshadow_core.decode.types import DecodeOptions

_MIB = 1 << 20

ResolverFactory = Callable[[TransactionStatus], VisibilityResolver]
RecheckFactory = Callable[[], Recheck]
"""One for each pass."""


@dataclass(frozen=True)
class LoadOptions:
    """How a load goes about it. ``memory`` bounds, in bytes, what a pass holds in page buffers, batches, spools and
    pages under redo together; ``workers`` is the number of decoding threads. With a ``window`` the WAL is streamed
    beside the backup, where the source can; tables that have up to ``small`` bytes together (a quarter of the memory if
    not given) are then kept until the backup's end, so that one pass does for them though they are written to."""

    decode: DecodeOptions = field(default_factory=DecodeOptions)
    memory: int = 192 * _MIB
    workers: int = 1
    block_rows: int = 500_000
    spool_folder: Path | None = None
    window: bool = True
    small: int | None = None

    @property
    def folder(self) -> Path:
        """Where what does not fit into memory is kept: ``spool_folder``, or the one for temporary files."""
        return self.spool_folder or Path(tempfile.gettempdir())

    @property
    def spool_below(self) -> int:
        """See ``small``."""
        return self.memory // 4 if self.small is None else self.small


@dataclass(frozen=True)
class Planned:
    """One table of a load: what it is, and how it lands."""

    relation: RelationDescriptor
    plan: TablePlan

    @property
    def forms(self) -> dict[str, Form]:
        """In which form the destination wants each column, by the column's name at the source."""
        return {column.attribute.name: column.form for column in self.plan.columns}
