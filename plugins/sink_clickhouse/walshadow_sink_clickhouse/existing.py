"""What is there at the destination."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from walshadow_core.api import RelationDescriptor
from walshadow_sink_clickhouse.client import Connection
from walshadow_sink_clickhouse.quoting import literal, qualified
from walshadow_sink_clickhouse.typenames import TypeName, parse_type

MARK = "walshadow: loaded from "
"""What the comment of a table says whose rows are ours; the source's name follows."""

ATOMIC_ENGINES = ("Atomic", "Replicated", "Shared")
"""Database engines with EXCHANGE and uuids of tables."""


@dataclass(frozen=True)
class Column:
    """A column of a destination table, as system.columns has it."""

    name: str
    type: str
    default: str
    in_sorting_key: bool

    @cached_property
    def parsed(self) -> TypeName:
        """Its type, read."""
        return parse_type(self.type)

    @property
    def nullable(self) -> bool:
        """Whether it takes NULL."""
        return self.parsed.nullable

    @property
    def written(self) -> bool:
        """Whether rows may be inserted with a value of it."""
        return self.default not in ("MATERIALIZED", "ALIAS")

    @property
    def optional(self) -> bool:
        """Whether rows may be inserted without a value of it."""
        return bool(self.default) or self.nullable


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


def table_uuid(connection: Connection, database: str, name: str) -> str | None:
    """One table's uuid, None if there is none."""
    where = f"database = {literal(database)} AND name = {literal(name)}"
    found = connection.rows(f"SELECT toString(uuid) FROM system.tables WHERE {where}")
    return str(found[0][0]) if found else None


def has_foreign_rows(connection: Connection, database: str, name: str, ours: bool) -> bool:
    """Whether the table holds a row that walshadow did not write: any, or in a table of ours one without an LSN."""
    condition = " WHERE _lsn = 0" if ours else ""
    return bool(connection.rows(f"SELECT 1 FROM {qualified(database, name)}{condition} LIMIT 1"))


def comment_for(relation: RelationDescriptor, comment: str = "") -> str:
    """The comment of a table that holds ``relation``: its own, and our mark."""
    own = comment.partition(MARK)[0].rstrip()
    mark = MARK + relation.qualified_name
    return f"{own} {mark}" if own else mark
