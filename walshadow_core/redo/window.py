"""Redo over a window of WAL: pages of the filter set, how transactions ended, what became of files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import FormatError, Lsn, RelFileLocator
from walshadow_core.pgformat.walbodies import endings, file_changes, map_updates, multixacts
from walshadow_core.pgformat.walrecord import WalRecords
from walshadow_core.redo.apply import apply_records
from walshadow_core.redo.heap import DONE, REASONS
from walshadow_core.redo.images import SCRATCH, without_zstd
from walshadow_core.redo.keys import PageKeys
from walshadow_core.redo.store import USUAL_COPIES, PageStore

_V = TypeVar("_V", bound=np.generic)


class Redo:
    """Takes the records of a window in order.

    ``filter_set`` gives each locator that matters its relation index, as keys of the page store have it. ``cut_to``
    is the smallest block count that each relation index was cut to in the window, ``made`` the relation indexes whose
    file was made in it, ``dropped`` those whose file a commit took away. ``maps`` are the relation maps that were
    written in it, by tablespace and database, as they are at its end. ``first_multi`` is the oldest multixact that was
    made in it, and the number of its first member; ``applied`` counts the records that changed a page.
    """

    def __init__(self, major: int, filter_set: Mapping[RelFileLocator, int], store: PageStore) -> None:
        self._major = major
        self._filter_set = filter_set
        self._store = store
        self._keys = PageKeys(filter_set)
        self._scratch: NDArray[np.uint8] = np.empty(SCRATCH, np.uint8)
        self._xids: list[NDArray[np.uint32]] = []
        self._states: list[NDArray[np.uint8]] = []
        self._multis: list[NDArray[np.uint32]] = []
        self._updaters: list[NDArray[np.uint32]] = []
        self.applied = 0
        self.first_multi: tuple[int, int] | None = None
        self.cut_to: dict[int, int] = {}
        self.made: set[int] = set()
        self.dropped: set[int] = set()
        self.maps: dict[tuple[int, int], Mapping[int, int]] = {}

    def apply(self, records: WalRecords) -> None:
        """Take one batch. Raises FormatError, naming the LSN, for a record that can't be applied."""
        self._take_endings(records)
        self.maps |= map_updates(records)
        multi, offset, updater = multixacts(records)
        self._note_first(multi, offset)
        self._multis.append(multi)
        self._updaters.append(updater)
        key = self._keys.of(records)
        if (key >= 0).any():
            records = without_zstd(records)
        first = 0
        for change in file_changes(records):
            index = self._filter_set.get(change.locator)
            if index is None:
                continue
            # What came before it goes first: a page may be changed before it is cut off, and made anew after.
            self._apply_pages(records, key, first, change.record)
            first = change.record
            if change.blocks is None:
                self.made.add(index)
            else:
                self._store.drop_from(index, change.blocks)
                self.cut_to[index] = min(change.blocks, self.cut_to.get(index, change.blocks))
        self._apply_pages(records, key, first, len(records))

    def transactions(self) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
        """(xids that ended in the window, ascending and each once, their last state)."""
        return _last_of_each(self._xids, self._states, np.uint8)

    def multixacts(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """(multixacts that were made in the window, ascending, their updating members or 0)."""
        return _last_of_each(self._multis, self._updaters, np.uint32)

    def _note_first(self, multi: NDArray[np.uint32], offset: NDArray[np.uint32]) -> None:
        """They are given out in order, and come to the WAL nearly so."""
        for id_, at in zip(multi.tolist(), offset.tolist(), strict=True):
            if self.first_multi is None or (id_ - self.first_multi[0]) & 0xFFFFFFFF >= 1 << 31:
                self.first_multi = id_, at

    def _take_endings(self, records: WalRecords) -> None:
        ended = endings(records, self._major)
        self._xids.append(ended.xid)
        self._states.append(ended.state)
        for words in ended.dropped.tolist():
            index = self._filter_set.get(RelFileLocator(*words))
            if index is not None:
                self.dropped.add(index)

    def _apply_pages(self, records: WalRecords, key: NDArray[np.int64], first: int, last: int) -> None:
        """Apply what records ``[first, last)`` do to pages."""
        from_ref, to_ref = int(records.first_block[first]), int(records.first_block[last])
        ours = np.flatnonzero(key[from_ref:to_ref] >= 0) + from_ref
        if not len(ours):
            return
        keys, number = np.unique(key[ours], return_inverse=True)
        if len(keys) > USUAL_COPIES and last - first > 1:
            middle = (first + last) // 2
            self._apply_pages(records, key, first, middle)
            self._apply_pages(records, key, middle, last)
            return
        b = records.blocks
        pages = self._store.open(keys)
        opened = np.full(len(b), -1, np.int64)
        opened[ours] = number
        # The references of a record follow one another.
        chosen = b.record[ours]
        chosen = chosen[np.diff(chosen, prepend=-1) != 0]
        why, record, ref = apply_records(
            self._major, chosen, opened, pages.place, pages.present, pages.memory, pages.copies, self._scratch,
            records.buf, records.end, records.rmgr, records.info, records.xid, records.data_offset,
            records.data_length, records.first_block, b.block_id, b.flags, b.block, b.image_offset, b.image_length,
            b.image_info, b.hole_offset, b.hole_length, b.data_offset, b.data_length,
        )  # fmt: skip
        if why != DONE:
            raise FormatError(
                f"the WAL record at {Lsn(records.start[record])} can't be applied to block {b.block[ref]} of "
                f"{b.tablespace[ref]}/{b.database[ref]}/{b.relation[ref]}: {REASONS[why]}",
                "load again; if it happens again, check the source with pg_waldump and amcheck",
            )
        self._store.keep(pages)
        self.applied += len(chosen)


def _last_of_each(
    keys: list[NDArray[np.uint32]], values: list[NDArray[_V]], dtype: type[_V]
) -> tuple[NDArray[np.uint32], NDArray[_V]]:
    """Each key once, ascending, with the value that came last."""
    key = np.concatenate([np.empty(0, np.uint32), *keys])[::-1]
    value = np.concatenate([np.empty(0, dtype), *values])[::-1]
    unique, first = np.unique(key, return_index=True)
    return unique, value[first]
