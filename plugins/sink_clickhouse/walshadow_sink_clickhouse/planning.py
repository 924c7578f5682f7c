"""How a source table lands: the plan, made from its descriptor and from what is at the destination."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from walshadow_core.api import (
    META_FIELDS,
    NO_CHOICES,
    ColumnChoice,
    ColumnPlan,
    RelationDescriptor,
    TablePlan,
    TableRefused,
)
from walshadow_sink_clickhouse.canonical import beyond_comparison
from walshadow_sink_clickhouse.existing import MARK, Column, Table, comment_for
from walshadow_sink_clickhouse.holds import fitted
from walshadow_sink_clickhouse.landing import CanNotLand, Landed, compared, land
from walshadow_sink_clickhouse.native import SentColumn
from walshadow_sink_clickhouse.quoting import identifier, identifiers, literal, qualified
from walshadow_sink_clickhouse.settings import OutOfRange
from walshadow_sink_clickhouse.typemap import META_TYPES, ColumnType

STAGING_SUFFIX = "__wsstg"


@dataclass(frozen=True)
class Landing:
    """The private part of a TablePlan: what is sent, column by column, our four included."""

    sent: tuple[SentColumn, ...]


def staging_name(table: str) -> str:
    """The name of a table's staging twin."""
    return table + STAGING_SUFFIX


def make_plan(
    relation: RelationDescriptor,
    table: str,
    database: str,
    found: Table | None,
    policy: OutOfRange,
    choices: Mapping[str, ColumnChoice] = NO_CHOICES,
) -> TablePlan:
    """Plan ``relation`` into ``database.table``; ``found`` is the table that is there, None if there is none.
    Raises TableRefused naming the columns."""
    _refuse_meta_names(relation)
    _refuse_unknown_names(relation, choices)
    there = {column.name: column for column in found.columns} if found is not None else None
    landed, problems, remedies = _land_all(relation, choices, there)
    if found is None:
        if problems:
            raise TableRefused(f"{relation.qualified_name}: {'; '.join(problems)}", "; ".join(remedies) or None)
    else:
        _check_fit(found, relation, landed, problems, remedies, database)
        _refuse_lost_rows(found, relation)
    planned = tuple(one.plan for one in landed)
    sent = [one.sent for one in landed]
    if policy == "null":
        _refuse_null_policy(relation, sent)
    sent += [_meta(name, kind, there) for name, kind in META_TYPES]
    warnings: list[str] = []
    if empties := [one.plan.name for one in landed if one.loses_null]:
        warnings.append(
            f"{table}: NULL lands as an empty array, as ClickHouse has no other: {', '.join(empties)}"
            " (as text, --type …=String, it stays NULL)"
        )
    if found is not None and found.watchers:
        warnings.append(
            f"{table}: materialized views read it ({', '.join(found.watchers)}); the swap of a load does not fire them"
        )
    return TablePlan(
        relation=relation,
        table=table,
        staging=staging_name(table),
        exists=found is not None,
        columns=planned,
        create_sql=create_sql(relation, planned, database, table),
        warnings=tuple(warnings),
        private=Landing(tuple(sent)),
    )


def compared_plan(relation: RelationDescriptor, found: Table) -> tuple[TablePlan, dict[str, str]]:
    """How a table that was loaded holds the relation's columns, whatever was chosen then; and the columns that are
    not compared, each with the reason. Raises TableRefused."""
    there = {column.name: column for column in found.columns}
    planned: list[ColumnPlan] = []
    left_out: dict[str, str] = {}
    problems: list[str] = []
    for attribute in relation.columns:
        column = there.get(attribute.name)
        if column is None:
            left_out[attribute.name] = f"there is no such column in {found.name}"
            continue
        try:
            plan = compared(attribute, column)
        except CanNotLand as error:
            problems.append(error.reason)
            continue
        if reason := beyond_comparison(plan):
            left_out[attribute.name] = reason
        else:
            planned.append(plan)
    problems += [f"{name} is missing" for name, _ in META_TYPES if name not in there]
    problems += [f"{name} of the key is left out ({left_out[name]})" for name in relation.key_names if name in left_out]
    if problems:
        raise TableRefused(
            f"table {found.name!r} can't be compared with {relation.qualified_name}: {'; '.join(problems)}"
        )
    return TablePlan(relation, found.name, staging_name(found.name), True, tuple(planned), ""), left_out


def create_sql(relation: RelationDescriptor, columns: tuple[ColumnPlan, ...], database: str, table: str) -> str:
    """The CREATE TABLE for a table that is not there."""
    lines = [f"    {identifier(c.name)} {c.type}" for c in columns]
    lines += [f"    {identifier(name)} {kind.name}" for name, kind in META_TYPES]
    if relation.key:
        engine = "ReplacingMergeTree(_lsn, _is_deleted)"
        order = f"({identifiers(relation.key_names)})"
    else:
        engine, order = "MergeTree", "tuple()"
    body = ",\n".join(lines)
    return (
        f"CREATE TABLE {qualified(database, table)}\n(\n{body}\n)\n"
        f"ENGINE = {engine}\nORDER BY {order}\nCOMMENT {literal(comment_for(relation))}"
    )


def _land_all(
    relation: RelationDescriptor, choices: Mapping[str, ColumnChoice], there: Mapping[str, Column] | None
) -> tuple[list[Landed], list[str], list[str]]:
    """The columns that land, and what is wrong with the others, with what to do about it."""
    landed: list[Landed] = []
    problems: list[str] = []
    remedies: list[str] = []
    for attribute in relation.columns:
        name = attribute.name
        column = there.get(name) if there is not None else None
        try:
            if column is not None and not column.written:
                raise CanNotLand(f"it is {column.default} there and can't be written")
            landed.append(land(attribute, attribute.number in relation.key, choices.get(name), column))
        except CanNotLand as error:
            problems.append(f"column {name!r}: {error.reason}")
            if error.remedy is not None and error.remedy not in remedies:
                remedies.append(error.remedy)
    return landed, problems, remedies


def _meta(name: str, kind: ColumnType, there: Mapping[str, Column] | None) -> SentColumn:
    """One of our four columns; in a table made by hand it may be finer, or Nullable."""
    if there is None:
        return SentColumn(name, kind, False)
    column = there[name]
    return SentColumn(name, fitted(column.parsed, kind) or kind, column.nullable)


def _check_fit(
    found: Table,
    relation: RelationDescriptor,
    landed: list[Landed],
    problems: list[str],
    remedies: list[str],
    database: str,
) -> None:
    """Refuse a table made by hand that can't hold the relation's columns and the four of ours. Raises TableRefused
    naming every column that does not fit, with the ALTER TABLE that adds the missing ones."""
    there = {column.name: column for column in found.columns}
    missing = [(one.plan.name, one.plan.type) for one in landed if one.plan.name not in there]
    for name, kind in META_TYPES:
        column = there.get(name)
        if column is None:
            missing.append((name, kind.name))
        elif not column.written:
            problems.append(f"column {name!r}: it is {column.default} there and can't be written")
        elif fitted(column.parsed, kind) is None:
            problems.append(f"column {name!r}: it is {column.type} there, which does not hold {kind.name}")
    excluded = {a.name for a in relation.attributes if a.number in relation.excluded}
    known = {a.name for a in relation.columns} | {name for name, _ in META_TYPES}
    problems += [
        f"column {column.name!r}: it is {'left out' if column.name in excluded else 'not in the source'}"
        " and has no DEFAULT"
        for column in found.columns
        if column.name not in known and not column.optional
    ]
    problems += [f"column {name!r} is missing" for name, _ in missing]
    if missing:
        added = ", ".join(f"ADD COLUMN {identifier(name)} {declared}" for name, declared in missing)
        remedies.append(f"ALTER TABLE {qualified(database, found.name)} {added}")
    if problems:
        raise TableRefused(
            f"table {found.name!r} can't hold the columns of {relation.qualified_name}: {'; '.join(problems)}",
            "; ".join(remedies) or None,
        )


def _refuse_unknown_names(relation: RelationDescriptor, choices: Mapping[str, ColumnChoice]) -> None:
    if unknown := sorted(choices.keys() - {a.name for a in relation.columns}):
        raise TableRefused(f"{relation.qualified_name} has no columns to choose for named {', '.join(unknown)}")


def _refuse_meta_names(relation: RelationDescriptor) -> None:
    ours = {field.name for field in META_FIELDS}
    if taken := sorted(ours & {a.name for a in relation.columns}):
        raise TableRefused(
            f"{relation.qualified_name} has columns named as walshadow's own: {', '.join(taken)}",
            "rename them in the source",
        )


def _refuse_null_policy(relation: RelationDescriptor, sent: list[SentColumn]) -> None:
    rigid = [s.name for s in sent if not s.in_key and _is_rigid(s.type, s.nullable)]
    if rigid:
        raise TableRefused(
            f"{relation.qualified_name}: out_of_range=null, but these columns can't be NULL: {', '.join(rigid)}",
            "set out_of_range to clamp or error",
        )


def _is_rigid(kind: ColumnType, nullable: bool) -> bool:
    """Whether there are values in it that can be out of range and can't be NULL."""
    if kind.parts:
        return any(_is_rigid(part.type, part.nullable) for part in kind.parts)
    return kind.can_be_out_of_range and not nullable


def _refuse_lost_rows(table: Table, relation: RelationDescriptor) -> None:
    """Refuse a table whose engine makes one row of those with the same sorting key, where that is not the
    source's key or finer. Raises TableRefused."""
    if table.engine.removeprefix("Replicated").removeprefix("Shared") == "MergeTree":
        return
    sorting = {c.name for c in table.columns if c.in_sorting_key}
    if relation.key and sorting.issuperset(relation.key_names):
        return
    key = ", ".join(relation.key_names) or "none"
    raise TableRefused(
        f"table {table.name!r} is a {table.engine} ordered by ({', '.join(sorted(sorting))}), which would make one of "
        f"several rows of {relation.qualified_name} (its key: {key})",
        "order it by the whole key, use a MergeTree, or load into another name with --into",
    )


def refuse_foreign(table: Table, holds_foreign_rows: bool) -> None:
    """Refuse to replace rows that are not ours. Raises TableRefused."""
    if holds_foreign_rows:
        raise TableRefused(
            f"table {table.name!r} is there and holds rows that walshadow did not load",
            "--replace replaces them",
        )


def refuse_staging(table: Table | None) -> None:
    """Refuse to drop a table that has the staging name by chance. Raises TableRefused."""
    if table is not None and not table.ours:
        raise TableRefused(
            f"table {table.name!r} is there and is no staging table of walshadow (its comment lacks {MARK!r})",
            "rename it",
        )


def refuse_engine(table: Table) -> None:
    """Refuse what is no MergeTree: views, Distributed, logs. Raises TableRefused."""
    if not table.engine.endswith("MergeTree"):
        raise TableRefused(
            f"table {table.name!r} has engine {table.engine}, a destination must be a MergeTree of some kind",
            "load into another name with --into",
        )
