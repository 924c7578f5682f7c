"""Which index is a table's key."""

from __future__ import annotations

from collections.abc import Iterable, Set

from walshadow_core.catalog.rows import IndexRow


def choose_key(replica_identity: str, indexes: Iterable[IndexRow], not_null: Set[int]) -> tuple[int, ...]:
    """The attribute numbers of the key in index order, () for a table without one.

    ``replica_identity`` is relreplident, ``not_null`` the attribute numbers that can't be NULL. With
    ``REPLICA IDENTITY USING INDEX`` that index; with DEFAULT the primary key, unless it is DEFERRABLE: then
    Postgres logs no old keys either; with FULL or NOTHING, or when the index of USING INDEX was dropped or (since
    18, where NOT NULL may be NOT VALID) can hold NULLs, the primary key unless deferrable, or else the unique,
    immediate, whole index over NOT NULL columns with the fewest columns, the older one of two.
    """
    usable = [i for i in indexes if i.immediate and i.valid and not i.partial and all(c > 0 for c in i.key)]
    if replica_identity == "i":
        for index in usable:
            if index.replica_identity and not_null >= set(index.key):
                return index.key
    for index in usable:
        if index.primary:
            return index.key
    if replica_identity == "d":
        return ()
    unique = [i for i in usable if i.unique and not i.exclusion and not_null >= set(i.key)]
    return min(unique, key=lambda i: (len(i.key), i.oid)).key if unique else ()
