"""The Destination: DDL of staging, the swap, and what the core asks about tables."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Iterator, Mapping

import pyarrow as pa

from walshadow_core.api import (
    NO_CHOICES,
    ColumnChoice,
    Comparison,
    DestinationError,
    Lsn,
    RelationDescriptor,
    RowDigests,
    TablePlan,
)
from walshadow_sink_clickhouse import comparison, existing, planning, writer
from walshadow_sink_clickhouse.blocks import BlockPool
from walshadow_sink_clickhouse.client import Connection, connect
from walshadow_sink_clickhouse.quoting import identifier, identifiers, literal, qualified
from walshadow_sink_clickhouse.url import EMBEDDED, Target

_TO_END = 20
"""Seconds that a server may take to answer when a load is given up."""
_NO_SIZE_LIMIT = {"max_table_size_to_drop": 0, "max_partition_size_to_drop": 0}


@dataclasses.dataclass(frozen=True)
class _Compared:
    """How a table holds a relation's columns, those that are not compared, and whether its engine keeps versions of
    a row."""

    plan: TablePlan
    left_out: dict[str, str]
    final: bool


class ClickHouseDestination:
    """Tables of one database of a ClickHouse server, or of an embedded engine."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._database = target.database
        self._open: Connection | None = None
        self._writers: weakref.WeakSet[writer.NativeStagingWriter] = weakref.WeakSet()
        self._pool = BlockPool(target.settings.blocks, in_files=target.path is not None)

    @property
    def display_url(self) -> str:
        """The URL without secrets."""
        return self._target.display_url

    @property
    def _connection(self) -> Connection:
        if self._open is None:
            self._open = connect(self._target)
        return self._open

    def plan(
        self,
        relation: RelationDescriptor,
        table: str,
        *,
        replace: bool = False,
        choices: Mapping[str, ColumnChoice] = NO_CHOICES,
    ) -> TablePlan:
        """How ``relation`` would land in ``table``. Changes nothing: a database or an engine's directory that is
        not there yet is made by create_staging. Raises TableRefused, DestinationError."""
        policy = self._target.settings.out_of_range
        path = self._target.path
        if path is not None and not path.exists():
            self._refuse_engine("Overlay" if self._database == "default" else None)
            return planning.make_plan(relation, table, self._database, None, policy, choices)
        engine = existing.database_engine(self._connection, self._database)
        self._refuse_engine(engine)
        found = existing.find_table(self._connection, self._database, table)
        planning.refuse_staging(self._find(planning.staging_name(table)))
        if found is not None:
            planning.refuse_engine(found)
        plan = planning.make_plan(relation, table, self._database, found, policy, choices)
        if found is not None and not replace:
            planning.refuse_foreign(
                found, existing.has_foreign_rows(self._connection, self._database, table, found.ours)
            )
        if engine is None and path is None:
            plan = dataclasses.replace(
                plan, warnings=(f"database {self._database!r} is new: it is made", *plan.warnings)
            )
        return plan

    def create_staging(self, plan: TablePlan) -> writer.NativeStagingWriter:
        """Make the database if it is not there, and the staging table anew, once nothing inserts into an earlier
        one any more. Raises DestinationError, TableRefused."""
        connection = self._connection
        if existing.database_engine(connection, self._database) is None:
            connection.run(f"CREATE DATABASE IF NOT EXISTS {identifier(self._database)} ENGINE = Atomic")
        self._refuse_engine(existing.database_engine(connection, self._database))
        planning.refuse_staging(self._find(plan.staging))
        writer.end_earlier_inserts(connection, self._database, plan.staging)
        self.drop(plan.staging)
        found = self._find(plan.table)
        if found is None:
            connection.run(planning.create_sql(plan.relation, plan.columns, self._database, plan.staging))
        else:
            comment = existing.comment_for(plan.relation, found.comment)
            connection.run(
                f"CREATE TABLE {self._name(plan.staging)} AS {self._name(plan.table)} COMMENT {literal(comment)}"
            )
        settings = self._target.settings
        staging = writer.NativeStagingWriter(
            plan,
            self._database,
            control=connection,
            lane=lambda: connect(self._target),
            reach=lambda: connect(self._target, _TO_END),
            storage=lambda: self.storage_id(plan.staging),
            pool=self._pool,
            policy=settings.out_of_range,
            timeout=settings.insert_timeout,
        )
        self._writers.add(staging)
        return staging

    def fingerprint(self, table: str) -> tuple[tuple[str, str], ...] | None:
        """Name and type of each column by position; None if there is no such table."""
        found = self._find(table)
        return tuple((c.name, c.type) for c in found.columns) if found else None

    def storage_id(self, table: str) -> str | None:
        """The table's uuid; None if there is no such table."""
        return existing.table_uuid(self._connection, self._database, table)

    def rename(self, source: str, target: str) -> None:
        """RENAME TABLE. Atomic; raises DestinationError if ``target`` exists."""
        self._connection.run(f"RENAME TABLE {self._name(source)} TO {self._name(target)}")

    def exchange(self, first: str, second: str) -> None:
        """EXCHANGE TABLES: swap two tables. Atomic; sent once."""
        self._connection.run(f"EXCHANGE TABLES {self._name(first)} AND {self._name(second)}")

    def copy_back(self, source: str, target: str, after: Lsn) -> int:
        """Insert the rows of ``source`` with _lsn > ``after`` into ``target``, over the columns that both have;
        gives their count. Raises DestinationError if either is missing."""
        old, new = self._find(source), self._find(target)
        if old is None or new is None:
            raise DestinationError(f"no table {source if old is None else target!r} to copy rows back")
        taken = {c.name for c in new.columns if c.default not in ("MATERIALIZED", "ALIAS")}
        common = identifiers(c.name for c in old.columns if c.name in taken and c.default != "EPHEMERAL")
        where = f"FROM {self._name(source)} WHERE _lsn > {int(after)}"
        count = int(self._connection.rows(f"SELECT count() {where}")[0][0])
        if count:
            settings = writer.insert_settings(self._target.settings.insert_timeout)
            sql = f"INSERT INTO {self._name(target)} ({common}) SELECT {common} {where}"
            self._connection.run(sql, settings)
        return count

    def truncate(self, table: str) -> None:
        """Remove all rows."""
        self._connection.run(f"TRUNCATE TABLE {self._name(table)}", _NO_SIZE_LIMIT)

    def drop(self, table: str) -> None:
        """Drop it if it is there."""
        self._connection.run(f"DROP TABLE IF EXISTS {self._name(table)}", _NO_SIZE_LIMIT)

    def comparison(self, relation: RelationDescriptor, table: str) -> Comparison:
        """The source's side of a comparison, as the out_of_range setting would have changed it."""
        found = self._compared(relation, table)
        return comparison.source_side(found.plan, found.left_out, self._target.settings.out_of_range)

    def comparison_summary(self, relation: RelationDescriptor, table: str) -> tuple[int, str]:
        """Count and checksum of the rows that a reader sees."""
        found = self._compared(relation, table)
        row = self._connection.rows(comparison.destination_summary_sql(found.plan, self._database, found.final))[0]
        return int(row[0]), str(row[1])

    def comparison_rows(self, relation: RelationDescriptor, table: str) -> Iterator[RowDigests]:
        """All rows that a reader sees, sorted by digest, in blocks."""
        found = self._compared(relation, table)
        sql = comparison.destination_rows_sql(found.plan, self._database, found.final)
        for key, row, label in self._connection.columns(sql, comparison.DESTINATION_SETTINGS):
            yield RowDigests(pa.array(key), pa.array(row), pa.array(label))

    def _compared(self, relation: RelationDescriptor, table: str) -> _Compared:
        found = self._find(table)
        if found is None:
            raise DestinationError(f"there is no table {table!r} in {self.display_url}", "load it first")
        planning.refuse_engine(found)
        plan, left_out = planning.compared_plan(relation, found)
        return _Compared(plan, left_out, "Replacing" in found.engine)

    def close(self) -> None:
        """Close the connections, those of writers that were neither finished nor aborted too, and free the blocks."""
        for staging in self._writers:
            staging.close()
        self._pool.close()
        if self._open is not None:
            self._open.close()
            self._open = None

    def _name(self, table: str) -> str:
        return qualified(self._database, table)

    def _find(self, table: str) -> existing.Table | None:
        return existing.find_table(self._connection, self._database, table)

    def _refuse_engine(self, engine: str | None) -> None:
        """Refuse a database that has no atomic exchange. Raises DestinationError naming its engine."""
        if engine is None or engine in existing.ATOMIC_ENGINES:
            return
        remedy = (
            "name another database in the URL, ?database=NAME: it is made if it is not there"
            if self._target.scheme == EMBEDDED
            else "name a database with ENGINE = Atomic in the URL: it is made if it is not there"
        )
        raise DestinationError(
            f"database {self._database!r} has engine {engine}, which can't swap tables atomically", remedy
        )
