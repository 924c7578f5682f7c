"""What the user should know of a table that loads: what is left out, and what can't be followed later."""

from __future__ import annotations

from collections.abc import Sequence

from walshadow_core.api import RelationDescriptor

_IDENTITIES = {"d": "DEFAULT", "n": "NOTHING", "f": "FULL", "i": "USING INDEX"}


def notices(relation: RelationDescriptor, left_out: Sequence[str] = ()) -> tuple[str, ...]:
    """One sentence per thing to know. ``left_out`` are the names of the tables that inherit from it, where they
    are not loaded with it."""
    name = relation.qualified_name
    found = []
    if left_out:
        found.append(
            f"{name}: loaded without the rows of the tables that inherit from it ({', '.join(left_out)}), as "
            "SELECT … FROM ONLY; --with-children loads those too"
        )
    virtual = [a.name for a in relation.attributes if a.generated == "v" and not a.dropped]
    if virtual:
        found.append(f"{name}: left out, as virtual generated columns have no bytes: {', '.join(virtual)}")
    if relation.system:
        leaf_key = ", ".join(relation.key_names[:-1])
        found.append(
            f"{name}: its key ({leaf_key}) is checked in each table below it alone, so tableoid joins it at the "
            "destination"
        )
    if reason := _not_followed(relation):
        found.append(f"{name}: {reason}")
    return tuple(found)


def _not_followed(relation: RelationDescriptor) -> str | None:
    """Why the table's changes can't all be streamed after the load, None if they can."""
    if relation.kind == "m":
        return "a materialized view loads as it is now; REFRESH rewrites it, so load it again after that"
    if not relation.stored:
        return None
    if not relation.key:
        return (
            f"it has no key (REPLICA IDENTITY {_IDENTITIES.get(relation.replica_identity, '?')}): the rows load, but "
            "updates and deletes can't be followed later; give it a primary key, or a replica identity index"
        )
    silent = [r.qualified_name for r in relation.stored if r.replica_identity == "n" or not r.key]
    if silent:
        which = "" if relation.stored == (relation,) else f" of {', '.join(silent)}"
        return (
            f"Postgres logs no old keys{which} (REPLICA IDENTITY NOTHING, or no key): the rows load, but updates and "
            "deletes can't be followed later; ALTER TABLE … REPLICA IDENTITY DEFAULT"
        )
    return None
