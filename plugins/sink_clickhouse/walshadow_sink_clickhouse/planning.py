"""How a source table lands: the plan, made from its descriptor and from what is at the destination."""

from __future__ import annotations

from dataclasses import dataclass, replace

from walshadow_core.api import META_FIELDS, ColumnPlan, RelationDescriptor, TablePlan, TableRefused
from walshadow_sink_clickhouse.existing import MARK, Table, check_fit, comment_for, landed_scale
from walshadow_sink_clickhouse.native import SentColumn
from walshadow_sink_clickhouse.quoting import identifier, identifiers, literal, qualified
from walshadow_sink_clickhouse.settings import OutOfRange
from walshadow_sink_clickhouse.typemap import META_TYPES, ColumnType, column_type

STAGING_SUFFIX = "__wsstg"


@dataclass(frozen=True)
class Landing:
    """The private part of a TablePlan: what is sent, column by column, our four included."""

    sent: tuple[SentColumn, ...]


def staging_name(table: str) -> str:
    """The name of a table's staging twin."""
    return table + STAGING_SUFFIX


def make_plan(
    relation: RelationDescriptor, table: str, database: str, found: Table | None, policy: OutOfRange
) -> TablePlan:
    """Plan ``relation`` into ``database.table``; ``found`` is the table that is there, None if there is none.
    Raises TableRefused naming the columns."""
    _refuse_meta_names(relation)
    types = _types(relation)
    planned = tuple(
        ColumnPlan(a, a.name, f"Nullable({t.name})" if nullable else t.name, nullable)
        for a, t in zip(relation.columns, types, strict=True)
        for nullable in (not a.not_null and a.number not in relation.key,)
    )
    sent = [
        SentColumn(p.name, t, p.nullable, t.scale, p.attribute.number in relation.key)
        for p, t in zip(planned, types, strict=True)
    ]
    sent += [SentColumn(name, t, False, t.scale) for name, t in META_TYPES]
    natural = create_sql(relation, planned, database, table)
    warnings: list[str] = []
    if found is not None:
        check_fit(found, planned, types, database)
        _refuse_lost_rows(found, relation)
        there = {column.name: column for column in found.columns}
        planned = tuple(replace(p, type=there[p.name].type, nullable=there[p.name].nullable) for p in planned)
        sent = [
            replace(s, nullable=c.nullable, landed_scale=landed_scale(c.bare_type))
            for s in sent
            for c in (there[s.name],)
        ]
        if found.watchers:
            warnings.append(
                f"{table}: materialized views read it ({', '.join(found.watchers)});"
                " the swap of a load does not fire them"
            )
    if policy == "null":
        _refuse_null_policy(relation, sent)
    return TablePlan(
        relation=relation,
        table=table,
        staging=staging_name(table),
        exists=found is not None,
        columns=planned,
        create_sql=natural,
        warnings=tuple(warnings),
        private=Landing(tuple(sent)),
    )


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


def _types(relation: RelationDescriptor) -> tuple[ColumnType, ...]:
    types: list[ColumnType] = []
    problems: list[str] = []
    for attribute in relation.columns:
        try:
            types.append(column_type(attribute))
        except TableRefused as refused:
            problems.append(refused.message)
    if problems:
        raise TableRefused(f"{relation.qualified_name}: {'; '.join(problems)}")
    return tuple(types)


def _refuse_meta_names(relation: RelationDescriptor) -> None:
    ours = {field.name for field in META_FIELDS}
    if taken := sorted(ours & {a.name for a in relation.columns}):
        raise TableRefused(
            f"{relation.qualified_name} has columns named as walshadow's own: {', '.join(taken)}",
            "rename them in the source",
        )


def _refuse_null_policy(relation: RelationDescriptor, sent: list[SentColumn]) -> None:
    own = sent[: -len(META_TYPES)]
    rigid = [s.name for s in own if s.type.can_be_out_of_range and not s.nullable and not s.in_key]
    if rigid:
        raise TableRefused(
            f"{relation.qualified_name}: out_of_range=null, but these columns can't be NULL: {', '.join(rigid)}",
            "set out_of_range to clamp or error",
        )


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
