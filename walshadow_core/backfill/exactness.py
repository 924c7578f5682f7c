"""Whether a copy shows one moment: until the WAL of the window is read too, only a quiet table's does."""

from __future__ import annotations

from dataclasses import replace

from walshadow_core.api import Lsn, RelationDescriptor, RelFileLocator
from walshadow_core.backfill.stats import TableStats
from walshadow_core.catalog.sql import ClusterFacts

_CHECKPOINT_BYTES = 176
"""WAL that a checkpoint of an idle server writes from its redo point on: RUNNING_XACTS and CHECKPOINT_ONLINE
(``access/xlog.c``). No change of a row fits beside them."""
_CHECKPOINT_BYTES_17 = 208
"""The same with CHECKPOINT_REDO, which 17 added."""


_NOWHERE = RelFileLocator(0, 0, 0)


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


def void(before: RelationDescriptor, after: RelationDescriptor | None) -> str | None:
    """Why what was walked of a table is void, None if it stands: ``after`` is its descriptor once the backup has
    ended, None if there is none any more. A rewrite leaves the old file empty or missing in the copy, and the
    new one is not in the filter set; a leaf that has come is not in it either."""
    name = before.qualified_name
    if after is None:
        return f"{name} was dropped or renamed while the backup ran; nothing of it was published"
    leaves = {leaf.oid: leaf for leaf in after.stored}
    if leaves.keys() != {leaf.oid for leaf in before.stored}:
        return (
            f"{name}: a table below it came or went (CREATE, DROP, ATTACH, DETACH) while the backup ran; load it again"
        )
    for leaf in before.stored:
        now = leaves[leaf.oid]
        if (now.locator, now.toast_locator) != (leaf.locator, leaf.toast_locator):
            return (
                f"{leaf.qualified_name} was rewritten while the backup ran (TRUNCATE, VACUUM FULL, CLUSTER, or an "
                f"ALTER TABLE that rewrites); load {name} again"
            )
    if _without_sizes(after) != _without_sizes(before):
        return f"{name} was altered while the backup ran: its rows may mean something else now; load it again"
    return None


def rewritten(before: RelationDescriptor, after: RelationDescriptor | None) -> bool:
    """Whether nothing has happened to a table but that its rows are in other files now: they may be read there."""
    return after is not None and _without_places(after) == _without_places(before)


def _without_places(relation: RelationDescriptor) -> RelationDescriptor:
    # A rewrite gives every tuple all of its columns, and a new TOAST relation.
    attributes = tuple(replace(a, missing=None, missing_text=None) for a in relation.attributes)
    return replace(
        relation, size_bytes=0, locator=_NOWHERE, toast_oid=0, toast_locator=None, attributes=attributes,
        leaves=tuple(_without_places(leaf) for leaf in relation.leaves),
    )  # fmt: skip


def _without_sizes(relation: RelationDescriptor) -> RelationDescriptor:
    return replace(relation, size_bytes=0, leaves=tuple(_without_sizes(leaf) for leaf in relation.leaves))
