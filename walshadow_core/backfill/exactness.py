"""Whether a copy shows one moment: until the WAL of the window is read too, only a quiet table's does."""

from __future__ import annotations

from walshadow_core.api import Lsn
from walshadow_core.backfill.stats import TableStats
from walshadow_core.catalog.sql import ClusterFacts

_CHECKPOINT_BYTES = 176
"""WAL that a checkpoint of an idle server writes from its redo point on: RUNNING_XACTS and CHECKPOINT_ONLINE
(``access/xlog.c``). No change of a row fits beside them."""
_CHECKPOINT_BYTES_17 = 208
"""The same with CHECKPOINT_REDO, which 17 added."""


def doubt(table: TableStats, b_redo: Lsn, cluster: ClusterFacts) -> str | None:
    """The warning for a table whose copy may be of several moments, None where it is exact."""
    if table.max_lsn > b_redo:
        what = f"a page LSN of {Lsn(table.max_lsn)} is past B_redo {b_redo}"
    elif table.mixed:
        what = "a transaction that was running when the load began has committed"
    elif table.bytes_walked != table.relation.size_bytes:
        what = f"its size went from {table.relation.size_bytes} to {table.bytes_walked} bytes"
    else:
        return _doubt_of_standby(table, b_redo, cluster)
    return f"{table.name} was written to during the backup ({what}): the copy is not exact"


def _doubt_of_standby(table: TableStats, b_redo: Lsn, cluster: ClusterFacts) -> str | None:
    """A standby's backup begins at its last restartpoint, and what it has replayed since may be in its memory
    alone: no page of the copy tells."""
    quiet = _CHECKPOINT_BYTES if cluster.server_version < 170000 else _CHECKPOINT_BYTES_17
    if not cluster.in_recovery or cluster.flush_lsn - b_redo <= quiet:
        return None
    return (
        f"{table.name}: the copy is not exact: the standby has replayed up to {cluster.flush_lsn}, and what came "
        f"after {b_redo}, its last restartpoint, may be missing; CHECKPOINT at the primary, then at the standby, and "
        "load again"
    )
