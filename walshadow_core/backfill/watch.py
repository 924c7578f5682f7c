"""Which tables the WAL changes, as it comes: a first look at what redo will read when the window is over."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from walshadow_core.api import FormatError, Lsn, RelFileLocator, WalStream
from walshadow_core.pgformat.walnames import HEAP2
from walshadow_core.redo.apply import HEAP2_VISIBLE, OPERATION
from walshadow_core.redo.keys import PageKeys
from walshadow_core.stream.reader import WalReader


class Watch:
    """Fed with a stream from its start; ``changed`` are the tables (values of ``tables``) with changed pages since the
    stream was opened. ``position`` is how far it has looked. WAL that can't be read ends the watch: that is redo's to
    report. One thread feeds, others may look."""

    def __init__(self, stream: WalStream, major: int, tables: Mapping[RelFileLocator, int]) -> None:
        self._reader = WalReader(Lsn(stream.start), major, stream.segment_size, stream.system_identifier)
        self._from = stream.opened_at
        self._keys = PageKeys(tables)
        self.changed: set[int] = set()

    def feed(self, data: bytes | memoryview) -> None:
        """Take the next bytes."""
        try:
            for records in self._reader.feed(data):
                late = records.between(self._from, int(records.end[-1]))
                if not len(late):
                    continue
                # A page that VACUUM found to be all visible is as it was.
                marks = (late.rmgr == HEAP2) & (late.info & OPERATION == HEAP2_VISIBLE)
                key = self._keys.of(late)
                table = key[(key >= 0) & ~marks[late.blocks.record]] >> 32
                self.changed.update(np.unique(table).tolist())
        except FormatError:
            return
