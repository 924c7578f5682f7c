"""The two sides of `walshadow verify`, as SQL: what the source is asked, and what the destination is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from walshadow_core.api import DELETED_COLUMN, ColumnPlan, Comparison, TablePlan
from walshadow_sink_clickhouse.canonical import (
    SOURCE_SETTINGS,
    adjusted_condition,
    destination_label,
    destination_value,
    key_columns,
    source_label,
    source_value,
)
from walshadow_sink_clickhouse.forms import Asked, joined, quote_postgres
from walshadow_sink_clickhouse.quoting import identifier, qualified

DESTINATION_SETTINGS = {
    "max_bytes_before_external_sort": 256 << 20,
    "max_bytes_ratio_before_external_sort": 0,
    "max_block_size": 20_000,
}
"""Sorting all rows by digest must not need memory for all of them."""

_PINNED = "SETTINGS output_format_decimal_trailing_zeros = 0, do_not_merge_across_partitions_select_final = 0"
"""A profile's defaults don't matter either: how decimals print, and that FINAL sees every version of a row."""


def source_side(plan: TablePlan, left_out: Mapping[str, str], policy: str) -> Comparison:
    """What the source is asked, its values as ``policy`` would have changed them."""
    relation, columns = plan.relation, plan.columns
    table = f"{quote_postgres(relation.schema)}.{quote_postgres(relation.name)}"
    # The rows of a partition root, and of a parent that was asked for with its children, are below it.
    source = table if relation.leaves or relation.kind == "p" else f"ONLY {table}"
    # What SQL_ASCII holds is in no known encoding, and went over byte by byte.
    encoding = "SQL_ASCII" if relation.encoding == "SQL_ASCII" else "UTF8"
    # No policy changes a key.
    policies = {c.name: "error" if c.attribute.number in relation.key else policy for c in columns}
    row = _source_digest(columns, policies, encoding)
    key = _source_digest(key_columns(columns, relation.key), policies, encoding)
    label = source_label(key_columns(columns, relation.key))
    if encoding == "SQL_ASCII":
        label = f"encode(convert_to({label}, 'SQL_ASCII'), 'escape')"
    digests = f"SELECT {key} AS k, {row} AS r, {label} AS l FROM {source}"
    conditions = {c.attribute.name: b for c in columns if (b := adjusted_condition(c, policies[c.name])) is not None}
    counts = ", ".join(f"count(*) FILTER (WHERE {b})" for b in conditions.values())
    return Comparison(
        source_settings=SOURCE_SETTINGS,
        source_summary_sql=(
            "SELECT count(*), coalesce(sum(('x' || left(r, 16))::bit(64)::bigint::numeric), 0)::text"
            f" FROM (SELECT {row} AS r FROM {source}) AS rows"
        ),
        source_rows_sql=f'SELECT k, r, l FROM ({digests}) AS rows ORDER BY k COLLATE "C", r COLLATE "C"',
        source_adjusted_sql=f"SELECT {counts} FROM {source}" if counts else None,
        adjusted_columns=tuple(conditions),
        left_out=left_out,
    )


def _source_digest(columns: Sequence[ColumnPlan], policies: Mapping[str, str], encoding: str) -> str:
    row = joined(source_value(c, Asked(policies[c.name], encoding)) for c in columns)
    return f"md5(convert_to({row}, '{encoding}'))"


def _destination_digest(columns: Sequence[ColumnPlan]) -> str:
    return f"MD5({joined(destination_value(c) for c in columns)})"


def _from(plan: TablePlan, database: str, final: bool) -> str:
    """The table as a reader sees it: the last version of each row, deleted ones left out."""
    return f"FROM {qualified(database, plan.table)}{' FINAL' if final else ''} WHERE NOT {identifier(DELETED_COLUMN)}"


def destination_summary_sql(plan: TablePlan, database: str, final: bool) -> str:
    """Count and checksum of what a reader sees, as text."""
    first_words = f"reinterpretAsInt64(reverse(substring({_destination_digest(plan.columns)}, 1, 8)))"
    return f"SELECT toString(count()), toString(sum(toInt256({first_words}))) {_from(plan, database, final)} {_PINNED}"


def destination_rows_sql(plan: TablePlan, database: str, final: bool) -> str:
    """Key digest, row digest and printable key of what a reader sees, sorted by the first two."""
    keys = key_columns(plan.columns, plan.relation.key)
    # In ClickHouse an alias hides a column of the same name, even beside it in the same SELECT.
    taken = {c.name for c in plan.columns} | {DELETED_COLUMN}
    k, r, label = (identifier(_free_name(name, taken)) for name in ("key_digest", "row_digest", "key_label"))
    digests = (
        f"lower(hex({_destination_digest(keys)})) AS {k}, lower(hex({_destination_digest(plan.columns)})) AS {r}, "
        f"{destination_label(keys)} AS {label}"
    )
    return (
        f"SELECT {k}, {r}, {label} FROM (SELECT {digests} {_from(plan, database, final)}) ORDER BY {k}, {r} {_PINNED}"
    )


def _free_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name
