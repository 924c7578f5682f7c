"""Publish: staging takes the destination's place (rule 6), for a one-shot load.

The order is here and nowhere else; a destination carries out single steps. A one-shot load has no stream
beside it, so there is nothing to copy back and no ledger: killed before the exchange it has changed nothing,
killed after it the rows are there and the next load drops what staging is left.
"""

from __future__ import annotations

from walshadow_core.api import Destination, DestinationError, TablePlan


def publish(destination: Destination, plan: TablePlan) -> None:
    """Make the rows in staging the table's rows. Raises DestinationError; the table is then as it was."""
    present = destination.fingerprint(plan.table)
    if present is None:
        if plan.exists:
            raise DestinationError(f"{plan.table} was dropped while it was being loaded", "load it again")
        destination.rename(plan.staging, plan.table)
        return
    staged = destination.fingerprint(plan.staging)
    if staged != present:
        raise DestinationError(
            f"the columns of {plan.table} changed while it was being loaded",
            "load it again; nothing was published",
        )
    before = destination.storage_id(plan.staging)
    destination.exchange(plan.staging, plan.table)
    if destination.storage_id(plan.table) != before:
        raise DestinationError(
            f"{plan.table} does not have the staging table's storage after the exchange",
            "look at both tables by hand",
        )
    destination.drop(plan.staging)
