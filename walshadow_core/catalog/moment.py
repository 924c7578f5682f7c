"""Snapshots that are late enough: they see every transaction that had committed at a moment of the WAL.

A commit is in the WAL before others see it: until then its transaction stands among the running ones (``ProcArray``),
for as long as a synchronous standby may take to answer. A snapshot that is taken after the WAL has come to a moment may
so be of before it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Lsn, SourceError
from walshadow_core.catalog.connect import SourceConnection

_PATIENCE_SECONDS: Final = 60.0
_LOOK_AGAIN_SECONDS: Final = 0.05

_REPLAYED = """
select pg_catalog.pg_is_in_recovery(), pg_catalog.pg_last_wal_replay_lsn()::pg_catalog.text"""

_SNAPSHOT = "select pg_catalog.pg_current_snapshot()::pg_catalog.text"


@dataclass(frozen=True)
class Moment:
    """A moment of the WAL, and how transactions stood then. ``committed(running, next_xid)`` gives those of ``running``
    (uint32[n]), of ``next_xid`` and of the transactions after it that had committed at ``lsn``."""

    lsn: Lsn
    committed: Callable[[NDArray[np.uint32], int], NDArray[np.uint32]]


class Awaited:
    """Waits until snapshots of a connection see all that had committed at a moment."""

    def __init__(self, connection: SourceConnection, moment: Moment) -> None:
        self._connection = connection
        self._moment = moment
        self._deadline = time.monotonic() + _PATIENCE_SECONDS
        self._replayed = False

    def come(self) -> None:
        """Outside a transaction: a standby must have replayed that much, and then its snapshots see it. Raises
        SourceError."""
        while True:
            row = self._connection.execute(_REPLAYED).fetchone()
            assert row is not None
            in_recovery, replayed = row
            # Its snapshots don't tell which transactions are running, and it replays in the order of the WAL.
            self._replayed = in_recovery and replayed is not None and Lsn.parse(replayed) >= self._moment.lsn
            if self._replayed or not in_recovery:
                return
            self._wait(
                f"the standby has replayed up to {replayed} only, and the backup ended at {self._moment.lsn}",
                "see whether its recovery is paused, or held up by a query",
            )

    def seen(self) -> bool:
        """Inside a transaction that has its snapshot, or takes it now: whether it sees that much. If not, this has
        waited a little. Raises SourceError."""
        if self._replayed:
            return True
        row = self._connection.execute(_SNAPSHOT).fetchone()
        assert row is not None
        _, next_xid, running = str(row[0]).split(":")
        xids = np.array([int(xid) & 0xFFFFFFFF for xid in running.split(",") if xid], np.uint32)
        unseen = self._moment.committed(xids, int(next_xid) & 0xFFFFFFFF)
        if not len(unseen):
            return True
        self._wait(
            f"transaction {unseen[0]} has committed while the backup ran, or before, and others can't see it yet",
            "it may wait for a synchronous standby (pg_stat_activity: SyncRep): mend that, and load again",
        )
        return False

    def _wait(self, reason: str, remedy: str) -> None:
        if time.monotonic() > self._deadline:
            raise SourceError(f"{reason}: whether the tables were altered can't be told", remedy)
        time.sleep(_LOOK_AGAIN_SECONDS)
