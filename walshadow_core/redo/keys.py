"""Block references to keys of the page store."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import RelFileLocator
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.walrecord import WalRecords


@kernel
def _page_keys(
    places: NDArray[np.uint32],
    index: NDArray[np.int64],
    tablespace: NDArray[np.uint32],
    database: NDArray[np.uint32],
    relation: NDArray[np.uint32],
    fork: NDArray[np.uint8],
    block: NDArray[np.uint32],
    key: NDArray[np.int64],
) -> None:
    """Set ``key`` to the page store's key of each block reference, -1 for those that are not to a main fork of a
    relation of ``places`` (uint32[n, 3], ascending), whose relation indexes are ``index``."""
    for k in range(len(key)):
        key[k] = -1
        if fork[k] != 0:
            continue
        low, high = 0, len(index)
        while low < high:
            middle = (low + high) // 2
            place = places[middle]
            if place[0] != tablespace[k]:
                before = place[0] < tablespace[k]
            elif place[1] != database[k]:
                before = place[1] < database[k]
            else:
                before = place[2] < relation[k]
            if before:
                low = middle + 1
            else:
                high = middle
        if low < len(index):
            place = places[low]
            if place[0] == tablespace[k] and place[1] == database[k] and place[2] == relation[k]:
                key[k] = index[low] << 32 | np.int64(block[k])


class PageKeys:
    """Gives the references to main forks of a filter set their keys: relation index << 32 | block."""

    def __init__(self, filter_set: Mapping[RelFileLocator, int]) -> None:
        """``filter_set`` gives each locator that matters its relation index."""
        places = sorted((at.tablespace, at.database, at.number, index) for at, index in filter_set.items())
        rows = np.array(places, np.int64).reshape(-1, 4)
        self._places = np.ascontiguousarray(rows[:, :3].astype(np.uint32))
        self._index = np.ascontiguousarray(rows[:, 3])

    def of(self, records: WalRecords) -> NDArray[np.int64]:
        """The key of each block reference; -1 for those that are not to a main fork of the filter set."""
        b = records.blocks
        key = np.empty(len(b), np.int64)
        _page_keys(self._places, self._index, b.tablespace, b.database, b.relation, b.fork, b.block, key)
        return key
