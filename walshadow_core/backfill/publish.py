"""Publish: staging takes the destination's place (rule 6), for a one-shot load.

The order is here and nowhere else; a destination carries out single steps. A one-shot load has no stream
beside it, so there is nothing to copy back and no ledger: killed before the exchange it has changed nothing,
killed after it the rows are there and the next load drops what staging is left.
"""

from __future__ import annotations

from walshadow_core.api import Destination, DestinationError, TablePlan


def publish(destination: Destination, plan: TablePlan, filled: str | None) -> str | None:
    """Make the rows in staging the table's rows. ``filled`` is the storage id of the staging table that this load
    has filled. Gives a warning if all but the cleaning up is done. Raises DestinationError; the table is then as it
    was."""
    if destination.storage_id(plan.staging) != filled:
        raise DestinationError(f"another load of {plan.table} has begun", "let one end before the next begins")
    present = destination.fingerprint(plan.table)
    if (present is not None) != plan.exists:
        happened = "dropped" if plan.exists else "made"
        raise DestinationError(
            f"{plan.table} was {happened} by someone else while it was being loaded", "look at it, then load again"
        )
    if present is not None and destination.fingerprint(plan.staging) != present:
        raise DestinationError(
            f"the columns of {plan.table} changed while it was being loaded",
            "load it again; nothing was published",
        )
    try:
        if present is None:
            destination.rename(plan.staging, plan.table)
        else:
            destination.exchange(plan.staging, plan.table)
    except DestinationError:
        # It may have happened all the same, and the answer been lost. Where the storage is tells; it is never resent.
        if filled is None or _storage_or_none(destination, plan.table) != filled:
            raise
    if destination.storage_id(plan.table) != filled:
        raise DestinationError(
            f"{plan.table} does not have the staging table's storage after the exchange",
            "look at both tables by hand",
        )
    if present is None:
        return None
    try:
        destination.drop(plan.staging)
    except DestinationError as error:
        return f"{plan.staging}, which holds the rows of before, was not dropped: {error}"
    return None


def _storage_or_none(destination: Destination, table: str) -> str | None:
    try:
        return destination.storage_id(table)
    except DestinationError:
        return None
