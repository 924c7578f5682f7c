"""Which tables' pages are kept until the end of the window, and which are decoded as they come.

What is kept is brought forward and decoded when the window is over, so that one pass does, whatever was written to it.
What is decoded as it comes needs no room, but is void if the WAL of the window changes it. So a table is kept that the
WAL was seen to change since the load began, up to where the first of its pages comes; one that is changed later is out
of the pass as soon as that is seen, and kept in the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from walshadow_core.backfill.pagespool import PageSpool
from walshadow_core.backfill.stats import TableStats
from walshadow_core.backfill.window import Window

Place = tuple[int, int, bool]
"""Some pages of a pass: the table's index, that in its ``stored``, whether they are of the TOAST relation."""


class Keeping:
    """The spools of a pass, for the thread that reads the backup. Without a ``window`` nothing is kept; ``all_`` keeps
    every table."""

    def __init__(self, stats: Sequence[TableStats], make_spool: Callable[[], PageSpool], *, all_: bool) -> None:
        self._stats = stats
        self._make_spool = make_spool
        self._all = all_
        self._window: Window | None = None
        self._kept: dict[int, bool] = {}
        self._spools: dict[Place, PageSpool] = {}
        self.restless: set[int] = set()

    def begin(self, window: Window | None) -> None:
        """The backup has begun, and ``window`` with it."""
        self._window = window
        if window is None:
            self._kept = dict.fromkeys(range(len(self._stats)), False)
        elif self._all:
            self._kept = dict.fromkeys(range(len(self._stats)), True)

    def kept(self, table: int) -> bool:
        """Whether a table's pages are kept; False while that is open."""
        return self._kept.get(table, False)

    @property
    def any_kept(self) -> bool:
        """Whether any table's are."""
        return any(self._kept.values())

    def spool(self, place: Place) -> PageSpool | None:
        """Where pages go that have come, None: to be decoded at once."""
        table = place[0]
        if table not in self._kept:
            assert self._window is not None
            self._kept[table] = self._window.changes(table)
            self._forget()
        return self.spool_of(place) if self._kept[table] else None

    def spool_of(self, place: Place) -> PageSpool:
        """The spool of a table that is kept, empty if none of those pages came."""
        spool = self._spools.get(place)
        if spool is None:
            spool = self._spools[place] = self._make_spool()
        return spool

    def leave(self, table: int) -> bool:
        """Whether a table's pages that come are of no use in this pass: it is out, or it is decoded as it comes and was
        seen to be written to."""
        stats = self._stats[table]
        if stats.out:
            return True
        if self._window is None or self.kept(table) or not self._window.has_changed(table):
            return False
        stats.put_off = f"{stats.name} was written to during the backup"
        self.restless.add(table)
        self._forget()
        return True

    def _forget(self) -> None:
        """Nothing is asked of the window any more when every table is kept or out."""
        assert self._window is not None
        if all(self.kept(table) or stats.out for table, stats in enumerate(self._stats)):
            self._window.look_no_more()

    def close(self) -> None:
        """Free the spools. May be called more than once."""
        for spool in self._spools.values():
            spool.close()
