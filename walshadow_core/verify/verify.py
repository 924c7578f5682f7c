"""One table of the source against one of the destination."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import sql

from walshadow_core.api import (
    ComparableDestination,
    Comparison,
    RelationDescriptor,
    RowDigests,
    SourceError,
)
from walshadow_core.catalog.connect import SourceConnection, source_connection
from walshadow_core.verify.merge import Differences, compare

_FETCH = 20_000


@dataclass
class VerifyResult:
    """What a comparison came to. ``adjusted`` counts, per column, values that the destination's policy changes:
    they are compared as changed, and are no differences. ``left_out`` says why columns were not compared."""

    table: str
    destination: str
    source_rows: int
    destination_rows: int
    differences: Differences
    adjusted: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def equal(self) -> bool:
        """Whether every row is there, once, with the same values."""
        return self.differences.total == 0

    def summary(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "table": self.table,
            "destination": self.destination,
            "equal": self.equal,
            "source_rows": self.source_rows,
            "destination_rows": self.destination_rows,
            "missing": self.differences.missing,
            "extra": self.differences.extra,
            "changed": self.differences.changed,
            "keys": [{"kind": kind, "key": key} for kind, key in self.differences.keys],
            "adjusted": self.adjusted,
            "not_compared": self.left_out,
        }


def verify_table(
    dsn: str, relation: RelationDescriptor, destination: ComparableDestination, table: str
) -> VerifyResult:
    """Compare all rows, as a reader sees them on both sides.

    First counts and an order-independent checksum over every column; only where those differ are the rows
    themselves walked on both sides, sorted by a digest of the key, in bounded memory. Raises SourceError and
    DestinationError.
    """
    comparison = destination.comparison(relation, table)
    with source_connection(dsn) as conn:
        try:
            _pin(conn, comparison)
            adjusted = _adjusted(conn, comparison)
            count, checksum = _one(conn, comparison.source_summary_sql)
            there, there_checksum = destination.comparison_summary(relation, table)
            differences = Differences()
            if (int(count), str(checksum)) != (there, there_checksum):
                differences = compare(
                    _source_rows(conn, comparison.source_rows_sql), destination.comparison_rows(relation, table)
                )
        except psycopg.Error as error:
            raise _explained(error, relation.qualified_name) from error
    left_out = dict(comparison.left_out)
    return VerifyResult(relation.qualified_name, table, int(count), there, differences, adjusted, left_out)


def _explained(error: psycopg.Error, table: str) -> SourceError:
    reason = " ".join(str(error.diag.message_primary or error).split())
    match error.sqlstate:
        case "42501":
            remedy = f"verify reads by SELECT, unlike load: GRANT SELECT ON {table} to this role, and BYPASSRLS if it "
            remedy += "has row-level security"
        case "40001":
            remedy = "the standby's recovery was in the way: try again, or raise max_standby_streaming_delay"
        case None | "57P01" | "57P02" | "08006" | "08003":
            remedy = "the connection was lost: try again when the server is up"
        case state:
            remedy = f"SQLSTATE {state}"
    return SourceError(f"{table} could not be read at the source: {reason}", remedy)


def _pin(conn: SourceConnection, comparison: Comparison) -> None:
    conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    for name, value in comparison.source_settings.items():
        conn.execute(
            "SELECT pg_catalog.set_config(name, %s, false) FROM pg_catalog.pg_settings"
            " WHERE pg_catalog.lower(name) OPERATOR(pg_catalog.=) %s",
            (value, name),
        )


def _one(conn: SourceConnection, query: str) -> tuple[Any, ...]:
    row = conn.execute(sql.SQL(query)).fetchone()  # type: ignore[arg-type]
    assert row is not None
    return tuple(row)


def _adjusted(conn: SourceConnection, comparison: Comparison) -> dict[str, int]:
    if comparison.source_adjusted_sql is None:
        return {}
    counts = _one(conn, comparison.source_adjusted_sql)
    return {n: int(c) for n, c in zip(comparison.adjusted_columns, counts, strict=True) if c}


def _source_rows(conn: SourceConnection, query: str) -> Iterator[RowDigests]:
    with conn.cursor(name="walshadow_verify") as cursor:
        cursor.execute(sql.SQL(query))  # type: ignore[arg-type]
        while rows := cursor.fetchmany(_FETCH):
            key, row, label = (pa.array(column, pa.string()) for column in zip(*rows, strict=True))
            yield RowDigests(key, row, label)
