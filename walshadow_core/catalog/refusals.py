"""Why a relation can't be loaded, and what to do instead."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import NamedTuple

from walshadow_core.catalog.names import printable, printable_name


class Refusal(NamedTuple):
    """A table that was asked for and can't be had: its name as it was written, and why, with the remedy."""

    name: str
    reason: str


_KINDS = {
    "v": "a view has no rows of its own; name the tables that it reads",
    "m": "a materialized view is not supported; name the tables that it reads",
    "f": "the rows of a foreign table are not in this cluster; load it from the server that has them",
    "S": "a sequence is not a table; name the table that uses it",
    "i": "an index is not a table; name its table",
    "I": "an index is not a table; name its table",
    "c": "a composite type is not a table; name a table",
    "t": "a TOAST table comes with the table that it belongs to; name that one",
}
_PERSISTENCE = {
    "t": "a temporary table is in no backup; copy its rows into an ordinary table",
    "u": "an unlogged table is in no backup; ALTER TABLE … SET LOGGED",
}
_HEAP = "heap"
_FIRST_NORMAL_OID = 16384
"""FirstNormalObjectId (``access/transam.h``): what initdb made is below."""


def refusal(
    oid: int, kind: str, persistence: str, access_method: str | None, children: Sequence[tuple[str, str]]
) -> str | None:
    """Why this relation is refused, None if it is not. ``children`` are (schema, name) of the leaves of a
    partitioned table, or of the tables that inherit from an ordinary one."""
    leaves = ", ".join(printable_name(*child) for child in children)
    if kind == "p":
        remedy = f"name its leaves for now: {leaves}" if leaves else "it has no partitions with rows"
        return f"a partitioned table has no rows of its own; {remedy}"
    if kind != "r":
        return _KINDS.get(kind, f"relations of kind {kind!r} are not supported; name an ordinary table")
    if oid < _FIRST_NORMAL_OID:
        return "a system catalog can't be loaded; name a table of your own"
    if persistence != "p":
        return _PERSISTENCE.get(persistence, f"persistence {persistence!r} is not supported; name an ordinary table")
    if access_method != _HEAP:
        return f"its access method is {access_method}, only {_HEAP} can be read; ALTER TABLE … SET ACCESS METHOD heap"
    if leaves:
        return (
            f"other tables inherit from it ({leaves}), and a query shows their rows as its own, which is not "
            "supported yet; name those tables, or end the inheritance (ALTER TABLE … NO INHERIT)"
        )
    return None


def closest(wanted: str, names: Sequence[str]) -> list[str]:
    """Up to three of ``names`` that ``wanted`` may have meant, the closest first; case does not count."""
    by_folded: dict[str, list[str]] = {}
    for name in names:
        by_folded.setdefault(name.lower(), []).append(name)
    found = difflib.get_close_matches(wanted.lower(), by_folded, n=3, cutoff=0.6)
    return [name for folded in found for name in by_folded[folded]][:3]


def not_found(wanted: str, where: str, candidates: Sequence[tuple[str, str]]) -> str:
    """There is no such relation. ``candidates`` are (schema, name) of the relations that it may have meant."""
    if not candidates:
        return f"there is no such table {where}; check its name"
    likely = closest(wanted, sorted({name for _, name in candidates}))
    hints = [printable_name(s, n) for name in likely for s, n in candidates if n == name][:3]
    if not hints:
        return f"there is no such table {where}; check its name"
    return f"there is no such table {where}; did you mean {' or '.join(hints)}?"


def no_schema(wanted: str, schemas: Sequence[str]) -> str:
    """There is no such schema."""
    likely = closest(wanted, schemas)
    hint = f"did you mean {' or '.join(printable(s) for s in likely)}?" if likely else "check its name"
    return f"there is no schema {printable(wanted)} in this database; {hint}"
