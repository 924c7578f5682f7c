"""Relation descriptors from SQL: one REPEATABLE READ, READ ONLY snapshot of the source.

What the descriptors say comes from the catalog tables alone, which the snapshot holds still. Functions that
look names or files up (to_regclass, pg_relation_filenode, format_type…) use the newest catalog whatever the
snapshot is: so names are resolved, and files and keys found, by joins. Locking the tables instead would need
a privilege on each, and would stand in the way of DDL. Two such functions are left: format_type, whose text
is for people, and pg_relation_size, whose answer belongs to the newest file. So the newest file's number is
asked along, and if it is not the one in the snapshot (a TRUNCATE, VACUUM FULL or ALTER TABLE has committed in
between), the whole snapshot is taken anew.

No privilege is needed that PUBLIC does not have by default, neither USAGE on the schema nor SELECT on the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

import psycopg

from walshadow_core.api import Attribute, RelationDescriptor, RelFileLocator
from walshadow_core.catalog.cluster import ClusterFacts, read_cluster
from walshadow_core.catalog.connect import SourceConnection, source_connection
from walshadow_core.catalog.keys import IndexFacts, choose_key
from walshadow_core.catalog.missing import read_missing
from walshadow_core.catalog.names import QualifiedName, parse_qualified, printable
from walshadow_core.catalog.refusals import Refusal, no_schema, not_found, refusal

__all__ = ["CatalogSnapshot", "ClusterFacts", "Refusal", "read_catalog"]

_ATTEMPTS = 3
_LOCK_TIMEOUT = "10s"


@dataclass(frozen=True)
class CatalogSnapshot:
    """What one look at the source's catalog gave: the descriptors in the order in which they were asked for,
    each relation once, and the names that can't be had."""

    cluster: ClusterFacts
    relations: tuple[RelationDescriptor, ...]
    refused: tuple[Refusal, ...]


def read_catalog(dsn: str, tables: Sequence[str]) -> CatalogSnapshot:
    """Read the descriptors of ``tables`` (names as people write them, see `parse_qualified`).

    ``dsn`` is a libpq connection string of a primary or a standby. Raises UsageError for a text that is no
    table name or no DSN, SourceError if the source can't be reached or read.
    """
    names = {text: parse_qualified(text) for text in tables}
    with source_connection(dsn) as connection:
        for attempt in range(1, _ATTEMPTS + 1):
            cluster = read_cluster(connection)
            reading = _Reading(connection, cluster)
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            with connection.transaction():
                reading.read(names)
            if not reading.moved or attempt == _ATTEMPTS:
                break
    refused = sorted(reading.refused, key=lambda refusal: tables.index(refusal.name))
    return CatalogSnapshot(cluster, tuple(reading.relations), tuple(refused))


_SEARCH_PATH = "select pg_catalog.current_schemas(true)"
_SETTINGS = (
    "set local search_path = pg_catalog, pg_temp; set local quote_all_identifiers = off; "
    f"set local lock_timeout = '{_LOCK_TIMEOUT}'"
)

# The cast to name cuts what is too long, as the server's parser does.
_RESOLVE = """
select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = any (%(schemas)s::name[]) and c.relname = %(name)s::name
order by array_position(%(schemas)s::name[], n.nspname) limit 1"""

_SCHEMAS = "select nspname from pg_namespace where nspname !~ '^pg_(toast|temp)' order by nspname"

_CANDIDATES = """
select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p', 'v', 'm', 'f') and c.oid >= 16384
  and (n.nspname = any (%(schemas)s::name[]) or c.relname = %(name)s::name)
order by n.nspname = any (%(schemas)s::name[]) desc, 1, 2 limit 20000"""

_RELATIONS = """
select c.oid, n.nspname, c.relname, c.relkind, c.relpersistence, c.relreplident, a.amname,
  c.relfilenode, case when c.reltablespace = 0 then d.dattablespace else c.reltablespace end,
  c.reltoastrelid, t.relfilenode,
  case when t.reltablespace = 0 then d.dattablespace else t.reltablespace end
from pg_class c join pg_namespace n on n.oid = c.relnamespace
join pg_database d on d.oid = %(database)s
left join pg_am a on a.oid = c.relam left join pg_class t on t.oid = c.reltoastrelid
where c.oid = any (%(oids)s::oid[])"""

_CHILDREN = """
with recursive below as (
  select inhparent as root, inhrelid as oid from pg_inherits where inhparent = any (%s::oid[])
  union select b.root, i.inhrelid from below b join pg_inherits i on i.inhparent = b.oid)
select b.root, n.nspname, c.relname from below b
join pg_class c on c.oid = b.oid join pg_namespace n on n.oid = c.relnamespace
where c.relkind <> 'p' order by 1, 2, 3"""

# A NOT NULL constraint can be NOT VALID since 18: attnotnull is set, and there may be NULLs.
_ATTRIBUTES = """
select a.attrelid, a.attnum, a.attname, a.atttypid,
  case when a.attisdropped then '' else format_type(a.atttypid, a.atttypmod) end,
  a.atttypmod, a.attlen, a.attalign, a.attbyval, a.attstorage,
  a.attnotnull and not exists (
    select from pg_constraint k where k.conrelid = a.attrelid and k.contype = 'n' and not k.convalidated
      and k.conkey = array[a.attnum]),
  a.attisdropped, a.attgenerated, a.atthasmissing
from pg_attribute a where a.attrelid = any (%s::oid[]) and a.attnum > 0 order by a.attrelid, a.attnum"""

_INDEXES = """
select indrelid, indexrelid, indkey::text, indnkeyatts, indisprimary, indisreplident, indisunique, indimmediate,
  indisvalid and indislive, indpred is not null, indisexclusion
from pg_index where indrelid = any (%s::oid[]) order by indrelid, indexrelid"""

# Size first: it takes a lock for a moment, and so sees what has just been committed.
_SIZE = "select pg_relation_size(%(oid)s::oid), pg_relation_filenode(%(oid)s::oid)"


class _Reading:
    """One snapshot's worth of reading."""

    def __init__(self, connection: SourceConnection, cluster: ClusterFacts) -> None:
        self._connection = connection
        self._cluster = cluster
        self.relations: list[RelationDescriptor] = []
        self.refused: list[Refusal] = []
        self.moved = False

    def read(self, names: dict[str, QualifiedName]) -> None:
        """Inside a transaction: fill ``relations`` and ``refused``; ``moved`` if the catalog is ahead of the
        snapshot."""
        (search_path,) = self._rows(_SEARCH_PATH)[0]
        self._connection.execute(_SETTINGS)
        asked: dict[int, str] = {}
        for text, name in names.items():
            oid = self._resolve(text, name, search_path)
            if oid is not None:
                asked.setdefault(oid, text)
        facts = {row[0]: row for row in self._rows(
            _RELATIONS, {"database": self._cluster.database_oid, "oids": list(asked)})}  # fmt: skip
        children = _grouped(self._rows(_CHILDREN, (list(asked),)))
        wanted: list[int] = []
        for oid, text in asked.items():
            _, _, _, kind, persistence, _, access_method, *_ = facts[oid]
            reason = refusal(oid, kind, persistence, access_method, children.get(oid, []))
            if reason is None:
                wanted.append(oid)
            else:
                self.refused.append(Refusal(text, reason))
        self._describe({oid: asked[oid] for oid in wanted}, facts)

    def _rows(self, query: str, params: Any = None) -> list[tuple[Any, ...]]:
        return self._connection.execute(query.encode(), params).fetchall()

    # -- names

    def _resolve(self, text: str, name: QualifiedName, search_path: list[str]) -> int | None:
        database = self._cluster.database
        if name.database not in (None, database):
            self.refused.append(Refusal(
                text, f"it is in another database than {printable(database)}, which the source DSN names; "
                "one load reads one database: change the DSN"))  # fmt: skip
            return None
        where = {"schemas": search_path if name.schema is None else [name.schema], "name": name.name}
        try:
            with self._connection.transaction():
                found = self._rows(_RESOLVE, where)
                reason = None if found else self._not_found(name, where)
        except psycopg.errors.UntranslatableCharacter:
            found, reason = [], f"the database's encoding {self._cluster.encoding} has no such name; check the name"
        if reason is not None:
            self.refused.append(Refusal(text, reason))
            return None
        oid: int = found[0][0]
        return oid

    def _not_found(self, name: QualifiedName, where: dict[str, Any]) -> str:
        schemas = [schema for (schema,) in self._rows_if_readable(_SCHEMAS)]
        if name.schema is not None and schemas and name.schema not in schemas:
            return no_schema(name.schema, schemas)
        place = "in the search_path" if name.schema is None else f"in schema {printable(name.schema)}"
        candidates = [(schema, table) for schema, table in self._rows_if_readable(_CANDIDATES, where)]
        return not_found(name.name, place, candidates)

    def _rows_if_readable(self, query: str, params: Any = None) -> list[tuple[Any, ...]]:
        """Names for a hint, none at all if one of them is not valid text: the load can do without."""
        try:
            with self._connection.transaction():
                return self._rows(query, params)
        except (psycopg.errors.UntranslatableCharacter, psycopg.errors.CharacterNotInRepertoire):
            return []

    # -- descriptors

    def _describe(self, asked: dict[int, str], facts: dict[int, tuple[Any, ...]]) -> None:
        oids = list(asked)
        attributes = _grouped(self._rows(_ATTRIBUTES, (oids,)))
        indexes = _grouped(self._rows(_INDEXES, (oids,)))
        missing = self._missing(attributes)
        for oid, text in asked.items():
            try:
                columns = [_attribute(row, missing.get((oid, row[0]))) for row in attributes.get(oid, [])]
            except _NoMissingValue as error:
                self.refused.append(Refusal(text, str(error)))
                continue
            size = self._size(oid, text, facts[oid][7])
            if size is not None:
                keys = [_index(row) for row in indexes.get(oid, [])]
                self.relations.append(self._descriptor(facts[oid], columns, keys, size))

    def _descriptor(
        self, facts: tuple[Any, ...], columns: list[Attribute], indexes: list[IndexFacts], size: int
    ) -> RelationDescriptor:
        oid, schema, name, kind, persistence, identity, _, number, space, toast, toast_number, toast_space = facts
        database = self._cluster.database_oid
        not_null = {c.number for c in columns if c.not_null}
        return RelationDescriptor(
            oid=oid, database=self._cluster.database, schema=schema, name=name,
            locator=RelFileLocator(space, database, number),
            kind=kind, persistence=persistence, replica_identity=identity,
            key=choose_key(identity, indexes, not_null),
            attributes=tuple(columns),
            encoding=self._cluster.encoding,
            toast_oid=toast,
            toast_locator=RelFileLocator(toast_space, database, toast_number) if toast else None,
            size_bytes=size,
        )  # fmt: skip

    def _missing(self, attributes: dict[int, list[tuple[Any, ...]]]) -> dict[tuple[int, int], bytes]:
        """On-disk forms of the missing values that there are, by (relation oid, attribute number)."""
        relations = [oid for oid, rows in attributes.items() if any(row[-1] for row in rows)]
        if not relations:
            return {}
        # The decoder brings its compiler with it: only a table that needs it waits for that.
        from walshadow_core.decode.missing import on_disk
        from walshadow_core.decode.types import CODECS

        found = read_missing(self._connection, relations, CODECS)
        return {key: on_disk(type_oid, sent) for key, (type_oid, sent) in found.items()}

    def _size(self, oid: int, text: str, number: int) -> int | None:
        """The main fork's bytes; None if the table is refused for the moment."""
        try:
            with self._connection.transaction():
                ((size, newest),) = self._rows(_SIZE, {"oid": oid})
        except psycopg.errors.LockNotAvailable:
            self.refused.append(Refusal(
                text, f"another session has held it under an exclusive lock for {_LOCK_TIMEOUT} (ALTER TABLE, "
                "VACUUM FULL, TRUNCATE, LOCK); try again when that has ended (see pg_locks)"))  # fmt: skip
            return None
        if size is None or newest != number:
            self.moved = True
            self.refused.append(Refusal(
                text, "it is rewritten or dropped again and again while the catalog is read; "
                "try again when that has ended"))  # fmt: skip
            return None
        return int(size)


class _NoMissingValue(Exception):
    """A column needs a missing value of a type that has no on-disk form here."""


def _grouped(rows: Iterable[tuple[Any, ...]]) -> dict[int, list[tuple[Any, ...]]]:
    """Rows by their first column, in order, without it. The rows are sorted by it."""
    return {key: [row[1:] for row in group] for key, group in groupby(rows, key=itemgetter(0))}


def _attribute(row: tuple[Any, ...], missing: bytes | None) -> Attribute:
    (number, name, type_oid, type_name, typmod, length, alignment, by_value, storage, not_null, dropped,
     generated, has_missing) = row  # fmt: skip
    if has_missing and not dropped and missing is None:
        raise _NoMissingValue(f'column "{name}" has type {type_name}, which is not supported yet; leave the table out')
    return Attribute(
        number, name, type_oid, type_name, typmod, length, alignment, by_value, storage, not_null, dropped,
        generated, missing,
    )  # fmt: skip


def _index(row: tuple[Any, ...]) -> IndexFacts:
    oid, columns, count, primary, identity, unique, immediate, valid, partial, exclusion = row
    numbers = tuple(int(c) for c in columns.split()[:count])
    return IndexFacts(oid, numbers, primary, identity, unique, immediate, valid, partial, exclusion)
