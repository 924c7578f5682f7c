"""What is there at the destination, and whether a table made by hand can hold a source's columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from walshadow_core.api import ColumnPlan, RelationDescriptor, TableRefused
from walshadow_sink_clickhouse.client import Connection
from walshadow_sink_clickhouse.quoting import identifier, literal, qualified
from walshadow_sink_clickhouse.typemap import META_TYPES, ColumnType

MARK = "walshadow: loaded from "
"""What the comment of a table says whose rows are ours; the source's name follows."""

ATOMIC_ENGINES = ("Atomic", "Replicated", "Shared")
"""Database engines with EXCHANGE and uuids of tables."""

_NOT_INSERTED = ("MATERIALIZED", "ALIAS")
_DEFAULTED = ("DEFAULT", "EPHEMERAL", *_NOT_INSERTED)


@dataclass(frozen=True)
class Column:
    """A column of a destination table, as system.columns has it."""

    name: str
    type: str
    default: str
    in_sorting_key: bool

    @property
    def nullable(self) -> bool:
        """Whether it takes NULL."""
        return self.type.startswith(("Nullable(", "LowCardinality(Nullable("))

    @property
    def bare_type(self) -> str:
        """Its type without Nullable and LowCardinality."""
        found = self.type
        for wrapper in ("LowCardinality(", "Nullable("):
            if found.startswith(wrapper):
                found = found.removeprefix(wrapper)[:-1]
        return found


@dataclass(frozen=True)
class Table:
    """A destination table. ``uuid`` follows its storage through an exchange. ``watchers`` are the materialized
    views that read it."""

    name: str
    engine: str
    uuid: str
    comment: str
    watchers: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def ours(self) -> bool:
        """Whether its rows come from a load of ours."""
        return MARK in self.comment


def database_engine(connection: Connection, database: str) -> str | None:
    """The database's engine, None if there is no such database."""
    found = connection.rows(f"SELECT engine FROM system.databases WHERE name = {literal(database)}")
    return str(found[0][0]) if found else None


def find_table(connection: Connection, database: str, name: str) -> Table | None:
    """One table with its columns, None if there is none."""
    where = f"database = {literal(database)}"
    found = connection.rows(
        "SELECT engine, toString(uuid), comment, arrayZip(dependencies_database, dependencies_table)"
        f" FROM system.tables WHERE {where} AND name = {literal(name)}"
    )
    if not found:
        return None
    columns = connection.rows(
        "SELECT name, type, default_kind, is_in_sorting_key FROM system.columns"
        f" WHERE {where} AND table = {literal(name)} ORDER BY position"
    )
    engine, uuid, comment, watchers = found[0]
    views = tuple(".".join(view) for view in watchers)
    return Table(name, engine, uuid, comment, views, tuple(Column(n, t, d, bool(key)) for n, t, d, key in columns))


def has_foreign_rows(connection: Connection, database: str, name: str, ours: bool) -> bool:
    """Whether the table holds a row that walshadow did not write: any, or in a table of ours one without an LSN."""
    condition = " WHERE _lsn = 0" if ours else ""
    return bool(connection.rows(f"SELECT 1 FROM {qualified(database, name)}{condition} LIMIT 1"))


def comment_for(relation: RelationDescriptor, comment: str = "") -> str:
    """The comment of a table that holds ``relation``: its own, and our mark."""
    own = comment.partition(MARK)[0].rstrip()
    mark = MARK + relation.qualified_name
    return f"{own} {mark}" if own else mark


_DECIMAL = re.compile(r"Decimal\((\d+), (\d+)\)")
_FRACTION = re.compile(r"(DateTime64|Time64)\((\d)(?:, '[^']*')?\)")

_WIDER: dict[str, tuple[str, ...]] = {
    "Bool": ("UInt8",),
    "Int8": ("Int16", "Int32", "Int64"),
    "Int16": ("Int32", "Int64"),
    "Int32": ("Int64",),
    "UInt32": ("UInt64", "Int64"),
    "UInt64": (),
    "Float32": ("Float64",),
}


def holds(landed: str, sent: ColumnType) -> bool:
    """Whether a column of the bare type ``landed`` holds every value that is sent as ``sent``: the same type, or
    one of the wider ones of the README's table."""
    if landed == sent.name or landed in _WIDER.get(sent.name, ()):
        return True
    if found := _DECIMAL.fullmatch(landed):
        return sent.encoding == "decimal" and int(found[1]) >= sent.precision and int(found[2]) == sent.scale
    if found := _FRACTION.fullmatch(landed):
        if found[1] == "Time64":
            return sent.name == "Time64(6)" and int(found[2]) >= 6
        return sent.encoding == "timestamp" and int(found[2]) >= sent.scale
    return False


def landed_scale(landed: str) -> int:
    """The digits of a DateTime64's fraction, 0 for other types."""
    found = _FRACTION.fullmatch(landed)
    return int(found[2]) if found else 0


def check_fit(table: Table, planned: Sequence[ColumnPlan], types: Sequence[ColumnType], database: str) -> None:
    """Refuse a table made by hand that can't hold the planned columns and the four of ours.

    Raises TableRefused naming every column that does not fit, with the ALTER TABLE that adds the missing ones."""
    there = {column.name: column for column in table.columns}
    problems: list[str] = []
    missing: list[str] = []
    wanted = [(p.name, p.type, p.nullable, t) for p, t in zip(planned, types, strict=True)]
    wanted += [(name, kind.name, False, kind) for name, kind in META_TYPES]
    for name, declared, nullable, sent in wanted:
        column = there.get(name)
        if column is None:
            problems.append(f"{name} is missing")
            missing.append(f"ADD COLUMN {identifier(name)} {declared}")
        elif column.default in _NOT_INSERTED:
            problems.append(f"{name} is {column.default} there and can't be written")
        elif not holds(column.bare_type, sent):
            problems.append(f"{name} is {column.type} there, which does not hold {declared}")
        elif nullable and not column.nullable:
            problems.append(f"{name} may be NULL in the source, {column.type} may not")
    known = {name for name, *_ in wanted}
    problems += [
        f"{column.name} is not in the source and has no DEFAULT"
        for column in table.columns
        if column.name not in known and column.default not in _DEFAULTED and not column.nullable
    ]
    if problems:
        remedy = f"ALTER TABLE {qualified(database, table.name)} {', '.join(missing)}" if missing else None
        raise TableRefused(f"table {table.name!r} can't hold the source's columns: {'; '.join(problems)}", remedy)
