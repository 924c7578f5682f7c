"""The destination: tables as folders, staging as a sibling folder, publishing by renames."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from walshadow_core.api import (
    HEX,
    LSN_COLUMN,
    META_FIELDS,
    NO_CHOICES,
    Attribute,
    ColumnChoice,
    ColumnPlan,
    DestinationError,
    Form,
    Lsn,
    RelationDescriptor,
    StagingWriter,
    TablePlan,
    TableRefused,
)
from walshadow_sink_parquet.columns import arrow_type, can_be_out_of_range, holds_out_of_range
from walshadow_sink_parquet.folders import Columns, Folders, columns_of, errors
from walshadow_sink_parquet.settings import Settings
from walshadow_sink_parquet.writer import ParquetWriter

STAGING, SWAP = "__wsstg", "__wsswap"
"""What follows a table's name in the names of its staging folder, and of the folder that an exchange uses."""


class ParquetDestination:
    """Tables under one URL.

    An exchange is three renames: the table to the swap name, staging to the table's name, swap to the staging
    name. Stopped in between, the next look at the table puts things right (``_settle``): a table that is
    missing while its swap folder is there gets it back; one that is there has been exchanged, and the swap
    folder is the old content.
    """

    def __init__(self, url: str, settings: Settings) -> None:
        self._folders = Folders(url, settings.storage_options.get_secret_value())
        self._settings = settings

    @property
    def display_url(self) -> str:
        """The URL without password and query."""
        return self._folders.display_url

    def plan(
        self,
        relation: RelationDescriptor,
        table: str,
        *,
        replace: bool = False,
        choices: Mapping[str, ColumnChoice] = NO_CHOICES,
    ) -> TablePlan:
        """How ``relation`` lands in the folder of ``table``. Raises TableRefused naming columns whose type is
        not known here, or for which another was chosen than can be had, or that a table there has otherwise, and for a
        folder that is not ours."""
        columns = tuple(self._column(a, relation, choices.get(a.name, ColumnChoice())) for a in relation.columns)
        self._refuse_names(relation)
        schema = _schema(columns)
        with errors(f"can't look at {self.display_url}"):
            held = table + SWAP if not self._folders.files(table) and self._folders.files(table + SWAP) else table
            present = self._folders.columns(held)
            foreign = self._folders.is_foreign(held)
            replaceable = present is not None and not self._folders.has_folders(held)
        if foreign and not (replace and replaceable):
            raise TableRefused(
                f"{self._folders.path(table)} holds files that walshadow did not write",
                "move them, or load with --replace" if replaceable else "move them",
            )
        if present is not None and present != columns_of(schema):
            raise TableRefused(
                f"{self._folders.path(table)} has other columns: {_difference(present, columns_of(schema))}",
                "remove that folder, or load under another name with --into",
            )
        return TablePlan(
            relation=relation,
            table=table,
            staging=table + STAGING,
            exists=present is not None,
            columns=columns,
            create_sql=f"-- Parquet files in {self._folders.path(table)}\n{schema}",
            private=schema,
        )

    def create_staging(self, plan: TablePlan) -> StagingWriter:
        """An empty staging folder and a writer on it."""
        with errors(f"can't make {self._folders.path(plan.staging)}"):
            self._settle(plan.table)
            self._folders.begin(plan.staging)
        source = plan.relation.qualified_name
        return ParquetWriter(self._folders, plan.staging, plan.private, source, self._settings)

    def fingerprint(self, table: str) -> Columns | None:
        """Name and Arrow type of each column; None if there is no such table."""
        with errors(f"can't look at {self._folders.path(table)}"):
            self._settle(table)
            return self._folders.columns(table)

    def storage_id(self, table: str) -> str | None:
        """The id in the folder's mark; ``unmarked`` for a folder of Parquet files that is not ours."""
        with errors(f"can't look at {self._folders.path(table)}"):
            self._settle(table)
            mark = self._folders.mark(table)
            if mark is not None:
                return mark.storage_id
            return "unmarked" if self._folders.parts(table) else None

    def rename(self, source: str, target: str) -> None:
        """Rename the folder. Atomic on local file systems; elsewhere the target is a table once it is whole."""
        with errors(f"can't rename {self._folders.path(source)}"):
            self._settle(source)
            self._settle(target)
            self._expect(source)
            self._folders.move(source, target)

    def exchange(self, first: str, second: str) -> None:
        """Swap two folders by three renames; see the class for what happens if it is stopped in between."""
        with errors(f"can't exchange {self._folders.path(first)} and {self._folders.path(second)}"):
            self._settle(first)
            self._settle(second)
            self._expect(first)
            self._expect(second)
            self._folders.move(second, second + SWAP)
            self._folders.move(first, second)
            self._folders.move(second + SWAP, first)

    def copy_back(self, source: str, target: str, after: Lsn) -> int:
        """Add the rows of ``source`` with _lsn > ``after`` to ``target``, as one more part."""
        with errors(f"can't copy from {self._folders.path(source)}"):
            self._expect(source)
            schema = self._expect(target)
            rows = 0
            with self._folders.new_part(target) as handle, pq.ParquetWriter(handle, schema) as writer:
                for part in self._folders.parts(source):
                    with self._folders.fs.open(part, "rb") as content:
                        for batch in pq.ParquetFile(content).iter_batches():
                            newer = batch.filter(pc.greater(batch.column(LSN_COLUMN), int(after)))
                            writer.write_batch(newer.select(schema.names).cast(schema))
                            rows += newer.num_rows
            return rows

    def truncate(self, table: str) -> None:
        """Leave one part without rows."""
        with errors(f"can't truncate {self._folders.path(table)}"):
            self._settle(table)
            schema = self._expect(table)
            full = self._folders.parts(table)
            with self._folders.new_part(table) as handle:
                pq.ParquetWriter(handle, schema).close()
            for part in full:
                self._folders.fs.rm_file(part)

    def drop(self, table: str) -> None:
        """Remove the folder if it is there."""
        with errors(f"can't remove {self._folders.path(table)}"):
            self._settle(table)
            self._folders.remove(table)

    def close(self) -> None:
        """Nothing is held open between calls."""

    def _column(self, attribute: Attribute, relation: RelationDescriptor, choice: ColumnChoice) -> ColumnPlan:
        type_, form = self._landed(attribute, relation, choice)
        filled = attribute.not_null or attribute.number in relation.key
        if (choice.nullable is False and not filled) or (choice.nullable and attribute.number in relation.key):
            name = f'column "{attribute.name}" of {relation.qualified_name}'
            raise TableRefused(f"{name} may be NULL where the source's may, and no key may")
        may_become_null = self._settings.out_of_range == "null" and can_be_out_of_range(type_)
        nullable = not filled or may_become_null or bool(choice.nullable)
        return ColumnPlan(attribute, attribute.name, str(type_), nullable, form)

    def _landed(
        self, attribute: Attribute, relation: RelationDescriptor, choice: ColumnChoice
    ) -> tuple[pa.DataType, Form]:
        """The Arrow type of a column, and the form it is to come in. Lists and structs that could hold values that
        Parquet can't come as text."""
        if choice.type == HEX:
            return pa.string(), "hex"
        where = f'column "{attribute.name}" of {relation.qualified_name}'
        type_ = arrow_type(attribute)
        if type_ is None:
            raise TableRefused(
                f"{where} has type {attribute.type_name}, which sink-parquet does not know",
                "load its bytes in hex with --type TABLE.COLUMN=hex, or leave it out with --exclude",
            )
        if choice.type not in (None, str(type_), "string"):
            raise TableRefused(
                f"{where} of type {attribute.type_name} can be {type_} or string, not {choice.type}",
                f"choose one of these, or {HEX}",
            )
        if type_ != pa.string() and (choice.type == "string" or holds_out_of_range(type_)):
            return pa.string(), "text"
        return type_, "own"

    def _refuse_names(self, relation: RelationDescriptor) -> None:
        taken = {f.name for f in META_FIELDS} & {a.name for a in relation.columns}
        if taken:
            raise TableRefused(
                f"{relation.qualified_name} has columns named like those that walshadow adds: "
                f"{', '.join(sorted(taken))}"
            )

    def _settle(self, table: str) -> None:
        """Finish, or take back, an exchange that was stopped between its renames."""
        swap = table + SWAP
        if not self._folders.files(swap):
            return
        if not self._folders.files(table):
            self._folders.move(swap, table)
        elif self._folders.files(table + STAGING):
            self._folders.remove(swap)
        else:
            self._folders.move(swap, table + STAGING)

    def _expect(self, table: str) -> pa.Schema:
        """The schema of a table that must be there."""
        parts = self._folders.parts(table)
        if not parts:
            raise DestinationError(f"there is no table in {self._folders.path(table)}")
        return pq.read_schema(parts[0], filesystem=self._folders.fs)


def _schema(columns: tuple[ColumnPlan, ...]) -> pa.Schema:
    own = [
        pa.field(c.name, arrow_type(c.attribute) if c.form == "own" else pa.string(), nullable=c.nullable)
        for c in columns
    ]
    return pa.schema([*own, *META_FIELDS])


def _difference(present: Columns, wanted: Columns) -> str:
    """The first few columns that differ, as ``name: is int32, should be int64``."""
    there, here = dict(present), dict(wanted)
    lines = [
        f"{name}: is {there.get(name, 'not there')}, should be {here.get(name, 'not there')}"
        for name in {**here, **there}
        if there.get(name) != here.get(name)
    ]
    return "; ".join(lines[:5]) or "the same ones in another order"
