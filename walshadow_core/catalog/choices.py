"""What a user chooses for columns (``--exclude``, ``--type``, ``--not-null``, ``--nullable``), against the catalog."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from walshadow_core.api import NO_CHOICES, ColumnChoice, RelationDescriptor, UsageError
from walshadow_core.catalog.names import ColumnName, parse_column, printable, printable_name


@dataclass(frozen=True)
class ColumnWords:
    """The words of the command line: columns as `parse_column` reads them, ``types`` with ``=TYPE``."""

    exclude: Sequence[str] = ()
    types: Sequence[str] = ()
    not_null: Sequence[str] = ()
    nullable: Sequence[str] = ()


@dataclass
class Choices:
    """What is chosen, per relation oid: names of columns to leave out, and how others land."""

    left_out: dict[int, set[str]] = field(default_factory=dict)
    columns: dict[int, dict[str, ColumnChoice]] = field(default_factory=dict)

    def of(self, relation: RelationDescriptor) -> Mapping[str, ColumnChoice]:
        """How the columns of a relation land."""
        return self.columns.get(relation.oid, NO_CHOICES)

    def applied(self, relation: RelationDescriptor) -> RelationDescriptor:
        """A relation, and those that have its rows, without the columns that are left out."""
        names = self.left_out.get(relation.oid)
        return _without(relation, names) if names else relation


def read_choices(words: ColumnWords, relations: Sequence[RelationDescriptor], refused: bool = False) -> Choices:
    """Read the words against the relations of a load. ``refused``: there are others that can't be loaded, which a word
    may mean. Raises UsageError for a column that is not there, that is in the key and can't be left out, or
    for which two things are said."""
    made = Choices()
    for word in words.exclude:
        for relation, name in _meant("--exclude", word, relations, refused):
            if name in relation.key_names:
                raise UsageError(f"--exclude {word}: it is in the key of {relation.qualified_name}")
            made.left_out.setdefault(relation.oid, set()).add(name)
    for flag, given in (("--type", words.types), ("--not-null", words.not_null), ("--nullable", words.nullable)):
        for word in given:
            for relation, name in _meant(flag, word, relations, refused, with_value=flag == "--type"):
                _choose(made, flag, word, relation, name)
    return made


def _choose(made: Choices, flag: str, word: str, relation: RelationDescriptor, name: str) -> None:
    if name in made.left_out.get(relation.oid, ()):
        raise UsageError(f"{flag} {word}: --exclude leaves it out")
    columns = made.columns.setdefault(relation.oid, {})
    before = columns.get(name, ColumnChoice())
    if flag == "--type":
        if before.type is not None:
            raise UsageError(f"{flag} {word}: {before.type} was given for it before")
        columns[name] = replace(before, type=parse_column(word)[1])
        return
    wanted = flag == "--nullable"
    if before.nullable is not None and before.nullable is not wanted:
        raise UsageError(f"{flag} {word}: both --not-null and --nullable are given for it")
    columns[name] = replace(before, nullable=wanted)


def _meant(
    flag: str, word: str, relations: Sequence[RelationDescriptor], refused: bool, with_value: bool = False
) -> list[tuple[RelationDescriptor, str]]:
    """The relation and column that a word means; none if it may mean a table that is refused."""
    column, value = parse_column(word)
    if with_value and not value:
        raise UsageError(f"{flag} {word}: the type is missing", f"write {flag} {column}=TYPE")
    if not with_value and value is not None:
        raise UsageError(f"{flag} {word}: there is nothing to be said after =")
    tables = [r for r in relations if r.name == column.table and column.schema in (None, r.schema)]
    if len(tables) > 1:
        both = " or ".join(printable_name(r.schema, r.name) for r in tables)
        raise UsageError(f"{flag} {word}: it may be of {both}", "write the schema before it")
    if not tables:
        if refused:
            return []
        raise UsageError(f"{flag} {word}: no such table among those named by --table", _likely_table(column, relations))
    relation = tables[0]
    if column.column not in {a.name for a in relation.columns}:
        raise _no_column(f"{flag} {word}", column.column, relation)
    return [(relation, column.column)]


def _no_column(where: str, name: str, relation: RelationDescriptor) -> UsageError:
    if any(a.name == name and a.generated == "v" and not a.dropped for a in relation.attributes):
        return UsageError(f"{where}: it is a virtual generated column, which has no bytes and is left out anyway")
    near = difflib.get_close_matches(name, [a.name for a in relation.columns], 1)
    remedy = f"did you mean {printable(near[0])}?" if near else None
    return UsageError(f"{where}: {relation.qualified_name} has no such column", remedy)


def _likely_table(column: ColumnName, relations: Sequence[RelationDescriptor]) -> str | None:
    known = {name: printable_name(r.schema, r.name) for r in relations for name in (r.name, r.qualified_name)}
    wanted = column.table if column.schema is None else f"{column.schema}.{column.table}"
    near = difflib.get_close_matches(wanted, list(known), 1)
    return f"did you mean {known[near[0]]}.{printable(column.column)}?" if near else None


def _without(relation: RelationDescriptor, names: Collection[str]) -> RelationDescriptor:
    """Leaves have their columns in another order."""
    return replace(
        relation,
        excluded=relation.excluded | {a.number for a in relation.attributes if a.name in names and not a.dropped},
        leaves=tuple(_without(leaf, names) for leaf in relation.leaves),
    )
