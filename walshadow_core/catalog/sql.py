"""Relation descriptors from SQL: one REPEATABLE READ, READ ONLY snapshot of the source.

What the descriptors say comes from the catalog tables alone, which the snapshot holds still. Functions that
look names or files up (to_regclass, pg_relation_filenode, format_type…) use the newest catalog whatever the
snapshot is: so names are resolved, and files and keys found, by joins, and types are named by `catalog.type_names`.
Locking the tables instead would need a privilege on each, and would stand in the way of DDL. One such function is
left: pg_relation_size, whose answer belongs to the newest file. So the newest file's number is asked along, and if
it is not the one in the snapshot (a TRUNCATE, VACUUM FULL or ALTER TABLE has committed in between), the whole
snapshot is taken anew.

No privilege is needed that PUBLIC does not have by default, neither USAGE on the schema nor SELECT on the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from walshadow_core.api import RelationDescriptor
from walshadow_core.catalog.build import CatalogBuilder
from walshadow_core.catalog.cluster import ClusterFacts, read_cluster
from walshadow_core.catalog.connect import SourceConnection, source_connection
from walshadow_core.catalog.missing import read_missing
from walshadow_core.catalog.moment import Awaited, Moment
from walshadow_core.catalog.names import QualifiedName, parse_qualified, printable
from walshadow_core.catalog.refusals import Refusal, no_schema, not_found
from walshadow_core.catalog.rows import (
    AttributeRow,
    CatalogRows,
    ClassRow,
    DatabaseRow,
    EnumRow,
    IndexRow,
    InheritsRow,
    NotNullRow,
    RangeRow,
    TypeRow,
)
from walshadow_core.catalog.snapshot import describe

__all__ = ["CatalogSnapshot", "ClusterFacts", "Refusal", "read_catalog"]

_ATTEMPTS = 3
_LOCK_TIMEOUT = "10s"


@dataclass(frozen=True)
class CatalogSnapshot:
    """What one look at the source's catalog gave: the descriptors in the order in which they were asked for,
    each relation once; the names that can't be had; and what to tell the user about a relation, by its oid."""

    cluster: ClusterFacts
    relations: tuple[RelationDescriptor, ...]
    refused: tuple[Refusal, ...]
    notices: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


def read_catalog(
    dsn: str, tables: Sequence[str], *, with_children: bool = False, seeing: Moment | None = None
) -> CatalogSnapshot:
    """Read the descriptors of ``tables`` (names as people write them, see `parse_qualified`). With
    ``with_children`` a table has the rows of those that inherit from it too. With ``seeing`` the snapshot is waited
    for that sees what had committed at a moment; then nothing is locked, and no size is asked for (0).

    ``dsn`` is a libpq connection string of a primary or a standby. Raises UsageError for a text that is no
    table name or no DSN, SourceError if the source can't be reached or read.
    """
    names = {text: parse_qualified(text) for text in tables}
    with source_connection(dsn) as connection:
        cluster = read_cluster(connection)
        awaited = None if seeing is None else Awaited(connection, seeing)
        attempt = 0
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        while True:
            if awaited is not None:
                awaited.come()
            with connection.transaction():
                if awaited is not None and not awaited.seen():
                    continue
                reading = _Reading(connection, cluster, with_children, sizes=awaited is None)
                reading.read(names)
            attempt += 1
            if not reading.moved or attempt == _ATTEMPTS:
                break
            cluster = read_cluster(connection)
    refused = sorted(reading.refused, key=lambda refusal: tables.index(refusal.name))
    return CatalogSnapshot(cluster, tuple(reading.relations), tuple(refused), reading.notices)


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

_DATABASE_SPACE = "select dattablespace from pg_database where oid = %s"

_INHERITS = """
with recursive edge as (
  select inhrelid, inhparent, inhdetachpending from pg_inherits where inhparent = any (%(oids)s::oid[])
  union select i.inhrelid, i.inhparent, i.inhdetachpending from edge e join pg_inherits i on i.inhparent = e.inhrelid)
select * from edge"""

_CLASSES = """
select c.oid, c.relname, c.relnamespace, c.relkind, c.relpersistence, c.relreplident, c.relam, c.relfilenode,
  c.reltablespace, c.reltoastrelid, n.nspname, a.amname
from pg_class c join pg_namespace n on n.oid = c.relnamespace left join pg_am a on a.oid = c.relam
where c.oid = any (%(oids)s::oid[])
  or c.oid = any (array(select reltoastrelid from pg_class where oid = any (%(oids)s::oid[])))"""

_ATTRIBUTES = """
select attrelid, attnum, attname, atttypid, atttypmod, attlen, attalign, attbyval, attstorage, attnotnull,
  attisdropped, attgenerated, atthasmissing, attndims
from pg_attribute where attrelid = any (%(oids)s::oid[]) and attnum > 0"""

# Whatever the types are made of too. typsubscript 6179 is that of true arrays.
_TYPES = """
with recursive needed as (
  select unnest(%(oids)s::oid[]) as oid
  union select p.oid from needed d join pg_type t on t.oid = d.oid cross join lateral (
    select t.typelem as oid where t.typsubscript = 6179
    union all select t.typbasetype where t.typtype = 'd'
    union all select r.rngsubtype from pg_range r where r.rngtypid = t.oid
    union all select r.rngtypid from pg_range r where r.rngmultitypid = t.oid
    union all select a.atttypid from pg_attribute a
      where t.typtype = 'c' and a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped) p)
select t.oid, t.typname, t.typnamespace, t.typlen, t.typbyval, t.typtype, t.typdelim, t.typrelid,
  t.typsubscript::oid, t.typelem, t.typalign, t.typbasetype, t.typtypmod, t.typndims, n.nspname
from needed d join pg_type t on t.oid = d.oid join pg_namespace n on n.oid = t.typnamespace"""

_ENUMS = "select oid, enumtypid, enumsortorder, enumlabel from pg_enum where enumtypid = any (%(oids)s::oid[])"

_RANGES = """
select rngtypid, rngsubtype, rngmultitypid from pg_range
where rngtypid = any (%(oids)s::oid[]) or rngmultitypid = any (%(oids)s::oid[])"""

_INDEXES = """
select indexrelid, indrelid, indkey::text, indnkeyatts, indisprimary, indisreplident, indisunique, indimmediate,
  indisvalid and indislive, indpred is not null, indisexclusion
from pg_index where indrelid = any (%(oids)s::oid[])"""

_UNVALIDATED = """
select conrelid, conkey[1] from pg_constraint
where conrelid = any (%(oids)s::oid[]) and contype = 'n' and not convalidated"""

# Size first: it takes a lock for a moment, and so sees what has just been committed.
_SIZES = "select o, pg_relation_size(o), pg_relation_filenode(o) from unnest(%(oids)s::oid[]) as o"

_LOCKED = (
    f"another session has held it under an exclusive lock for {_LOCK_TIMEOUT} (ALTER TABLE, VACUUM FULL, TRUNCATE, "
    "LOCK); try again when that has ended (see pg_locks)"
)
_MOVED = "it is rewritten or dropped again and again while the catalog is read; try again when that has ended"


class _Reading:
    """One snapshot's worth of reading."""

    def __init__(
        self, connection: SourceConnection, cluster: ClusterFacts, with_children: bool, *, sizes: bool
    ) -> None:
        self._connection = connection
        self._with_sizes = sizes
        self._cluster = cluster
        self._with_children = with_children
        self.relations: list[RelationDescriptor] = []
        self.refused: list[Refusal] = []
        self.notices: dict[int, tuple[str, ...]] = {}
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
        if asked:
            self._describe(asked)

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

    def _describe(self, asked: dict[int, str]) -> None:
        rows = self._read_relations(list(asked))
        builder = CatalogBuilder(rows)
        wanted: dict[int, str] = {}
        for oid, text in asked.items():
            reason = builder.refusal(oid, with_children=self._with_children)
            if reason is None:
                wanted[oid] = text
            else:
                self.refused.append(Refusal(text, reason))
        stored = {oid: builder.stored(oid, self._with_children) for oid in wanted}
        self._read_columns(rows, sorted(wanted.keys() | {o for oids in stored.values() for o in oids}))
        builder = CatalogBuilder(rows)
        missing = read_missing(self._connection, builder, rows.attributes, self._cluster.encoding)
        numbers = {row.oid: row.number for row in rows.classes}
        sizes = self._sizes(wanted, stored, numbers) if self._with_sizes else {}
        done = describe(builder, wanted, sizes, missing, with_children=self._with_children)
        self.relations, self.notices = done.relations, done.notices
        self.refused += done.refused

    def _read_relations(self, asked: list[int]) -> CatalogRows:
        """The rows of these relations and of those below them, without columns, types and indexes."""
        c = self._cluster
        ((space,),) = self._rows(_DATABASE_SPACE, (c.database_oid,))
        rows = CatalogRows(DatabaseRow(c.database_oid, c.database, c.encoding, space), namespaces={})
        rows.inherits.extend(InheritsRow(*row) for row in self._rows(_INHERITS, {"oids": asked}))
        oids = [*asked, *(edge.child for edge in rows.inherits)]
        for *row, schema, access_method in self._rows(_CLASSES, {"oids": oids}):
            found = ClassRow(*row)
            rows.classes.append(found)
            rows.namespaces[found.namespace] = schema
            if access_method is not None:
                rows.access_methods[found.access_method] = access_method
        return rows

    def _read_columns(self, rows: CatalogRows, relations: list[int]) -> None:
        """Add columns, indexes, and all that their types are made of."""
        if not relations:
            return
        of_relations = {"oids": relations}
        rows.attributes.extend(AttributeRow(*row) for row in self._rows(_ATTRIBUTES, of_relations))
        rows.indexes.extend(_index(row) for row in self._rows(_INDEXES, of_relations))
        rows.unvalidated.extend(NotNullRow(*row) for row in self._rows(_UNVALIDATED, of_relations))
        used = sorted({a.type for a in rows.attributes if not a.dropped})
        for *row, schema in self._rows(_TYPES, {"oids": used}):
            type_ = TypeRow(*row)
            rows.types.append(type_)
            rows.namespaces[type_.namespace] = schema
        composites = {t.relation for t in rows.types if t.kind == "c"} - set(relations)
        if composites:
            rows.attributes.extend(AttributeRow(*row) for row in self._rows(_ATTRIBUTES, {"oids": sorted(composites)}))
        if enums := [t.oid for t in rows.types if t.kind == "e"]:
            rows.enums.extend(EnumRow(*row) for row in self._rows(_ENUMS, {"oids": enums}))
        if ranges := [t.oid for t in rows.types if t.kind in "rm"]:
            rows.ranges.extend(RangeRow(*row) for row in self._rows(_RANGES, {"oids": ranges}))

    # -- sizes

    def _sizes(
        self, wanted: dict[int, str], stored: Mapping[int, list[int]], numbers: Mapping[int, int]
    ) -> dict[int, int]:
        """The main forks' bytes. A relation that can't be had for the moment is taken out of ``wanted`` and
        refused."""
        oids = sorted({o for oid in wanted for o in stored[oid]})
        found, locked = self._sizes_of(oids)
        moved = {o for o in oids if o not in locked and found.get(o, (None, None))[1] != numbers[o]}
        self.moved = bool(moved)
        for oid in list(wanted):
            for out, reason in ((moved, _MOVED), (locked, _LOCKED)):
                if not out.isdisjoint(stored[oid]):
                    self.refused.append(Refusal(wanted.pop(oid), reason))
                    break
        return {o: size for o, (size, _) in found.items() if size is not None}

    def _sizes_of(self, oids: Sequence[int]) -> tuple[dict[int, tuple[int | None, int | None]], set[int]]:
        """(size and newest file number) by oid, and those under a lock: all at once where none is."""
        try:
            with self._connection.transaction():
                return {o: (size, newest) for o, size, newest in self._rows(_SIZES, {"oids": list(oids)})}, set()
        except psycopg.errors.LockNotAvailable:
            if len(oids) == 1:
                return {}, set(oids)
        half = len(oids) // 2
        (found, locked), (more, more_locked) = self._sizes_of(oids[:half]), self._sizes_of(oids[half:])
        return found | more, locked | more_locked


def _index(row: tuple[Any, ...]) -> IndexRow:
    oid, relation, columns, *rest = row
    return IndexRow(oid, relation, tuple(int(c) for c in columns.split()), *rest)
