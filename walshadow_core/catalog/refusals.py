"""Why a relation can't be loaded, and what to do instead."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from walshadow_core.catalog.names import printable, printable_name
from walshadow_core.catalog.rows import HEAP_ACCESS_METHOD, ClassRow


class Refusal(NamedTuple):
    """A table that was asked for and can't be had: its name as it was written, and why, with the remedy."""

    name: str
    reason: str


_KINDS = {
    "v": "a view has no rows of its own; name the tables that it reads",
    "f": "the rows of a foreign table are not in this cluster; load it from the server that has them",
    "S": "a sequence is not a table; name the table that uses it",
    "i": "an index is not a table; name its table",
    "I": "an index is not a table; name its table",
    "c": "a composite type is not a table; name a table",
    "t": "a TOAST table comes with the table that it belongs to; name that one",
}
_STORED_KINDS = "rm"
"""An ordinary table and a materialized view have a heap of their own."""
_PERSISTENCE = {
    "t": "a temporary table is in no backup; copy its rows into an ordinary table",
    "u": "an unlogged table is in no backup; ALTER TABLE … SET LOGGED",
}
FIRST_NORMAL_OID = 16384
"""FirstNormalObjectId (``access/transam.h``): what initdb made is below."""


def refusal(row: ClassRow, access_method: str | None) -> str | None:
    """Why this relation itself is refused, None if it is not: those below it do not count here."""
    if row.kind != "p" and row.kind not in _STORED_KINDS:
        return _KINDS.get(row.kind, f"relations of kind {row.kind!r} are not supported; name an ordinary table")
    if row.oid < FIRST_NORMAL_OID:
        return "a system catalog can't be loaded; name a table of your own"
    if row.persistence != "p":
        return _PERSISTENCE.get(
            row.persistence, f"persistence {row.persistence!r} is not supported; name an ordinary table"
        )
    if row.kind != "p" and row.access_method != HEAP_ACCESS_METHOD:
        return f"its access method is {access_method}, only heap can be read; ALTER TABLE … SET ACCESS METHOD heap"
    return None


class Below(NamedTuple):
    """A relation below one that was asked for: (schema, name), its row, and the name of its access method."""

    name: tuple[str, str]
    row: ClassRow
    access_method: str | None


def refusal_of_tree(below: Iterable[Below]) -> str | None:
    """Why a relation can't be loaded with those below it, None if it can."""
    obstacles = {printable_name(*b.name): why for b in below if (why := _obstacle(b)) is not None}
    if not obstacles:
        return None
    named = ", ".join(f"{name} ({why})" for name, why in obstacles.items())
    return f"some of the relations below it are in no backup: {named}; take them out of it, or name the others instead"


def _obstacle(below: Below) -> str | None:
    row = below.row
    if row.kind == "f":
        return "a foreign table"
    if row.kind != "r":
        return f"of kind {row.kind!r}"
    if row.persistence != "p":
        return "unlogged" if row.persistence == "u" else f"persistence {row.persistence!r}"
    if row.access_method != HEAP_ACCESS_METHOD:
        return f"access method {below.access_method}"
    return None


def shares_rows(first: str, second: str) -> str:
    """Two relations that were asked for have rows in common."""
    return f"{first} and {second} have rows in common, and a row goes to one table; name one of the two"


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
