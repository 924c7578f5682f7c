"""One database's catalogs: where their files are, and rows of them as `catalog.rows` has them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from walshadow_core.api import FormatError, RelFileLocator, SourceError
from walshadow_core.catalog.files import columns as c
from walshadow_core.catalog.files.arrays import only_element, smallints
from walshadow_core.catalog.files.collect import KeptFiles
from walshadow_core.catalog.files.encodings import decoded, encoding_name
from walshadow_core.catalog.files.scan import CHANGED, TAKE_ANOTHER, CatalogScanner, Where
from walshadow_core.catalog.rows import (
    AttributeRow,
    ClassRow,
    DatabaseRow,
    EnumRow,
    IndexRow,
    InheritsRow,
    NotNullRow,
    RangeRow,
    TypeRow,
)
from walshadow_core.pgformat.relpath import GLOBAL_TABLESPACE

NOT_NULL_SINCE: Final = 18
"""The first major whose NOT NULL constraints are in pg_constraint, and may be not validated."""

_OF_DATABASE: Final = tuple(catalog for catalog in c.CATALOGS if not catalog.shared)


class NotKept(Exception):
    """Files that the catalog is to be read from passed by and were not kept."""

    def __init__(self, database: int | None, locators: Collection[RelFileLocator]) -> None:
        super().__init__(f"not kept: {locators}")
        self.database = database
        self.locators = frozenset(locators)


def char(value: int) -> str:
    """A "char" column's value as text, none for a zero byte."""
    return chr(value & 0xFF) if value else ""


def at_databases(files: KeptFiles) -> RelFileLocator:
    """Where pg_database is. Raises SourceError."""
    return RelFileLocator(GLOBAL_TABLESPACE, 0, files.map_of(GLOBAL_TABLESPACE, 0).get(c.PG_DATABASE.oid, 0))


def find_database(files: KeptFiles, scanner: CatalogScanner, name: str) -> DatabaseRow:
    """The row of a database by its name, which is compared as a connection compares it: byte by byte, in UTF-8. Raises
    SourceError if there is none, NotKept."""
    at = at_databases(files)
    _demand(files, [at], None)
    rows = list(scanner.rows(c.PG_DATABASE, at, ("oid", "datname", "encoding", "dattablespace")))
    for oid, stored, encoding, tablespace in rows:
        if stored == name.encode(errors="surrogateescape"):
            written_in = encoding_name(encoding)
            return DatabaseRow(oid, decoded(stored, written_in), written_in, tablespace)
    others = sorted(stored.decode(errors="replace") for _, stored, _, _ in rows if not stored.startswith(b"template"))
    raise SourceError(f"the backup has no database {name!r}", f"it has {', '.join(others)}")


def _demand(files: KeptFiles, locators: Iterable[RelFileLocator], database: int | None) -> None:
    wanted = list(locators)
    files.want(wanted)
    gone = [at for at in wanted if not files.saw(at)]
    if gone:
        raise SourceError(f"{CHANGED}: it has no file of relation {gone[0].number}", TAKE_ANOTHER)
    if missed := [at for at in wanted if not files.has(at)]:
        raise NotKept(database, missed)


class DatabaseCatalogs:
    """The catalogs of one database. Names come as text, in what is asked for alone: elsewhere an invalid one may be."""

    def __init__(self, files: KeptFiles, scanner: CatalogScanner, database: DatabaseRow, major: int) -> None:
        """Raises NotKept, SourceError, FormatError."""
        self._files = files
        self._scanner = scanner
        self.database = database
        self.major = major
        mapped = files.map_of(database.tablespace, database.oid)
        self._at = {c.PG_CLASS.oid: self._locate(mapped.get(c.PG_CLASS.oid, 0))}
        _demand(files, self._at.values(), database.oid)
        rows = self._rows(c.PG_CLASS, ("oid", "relfilenode"), Where("oid", [catalog.oid for catalog in _OF_DATABASE]))
        numbers = {oid: number or mapped.get(oid, 0) for oid, number in rows}
        for catalog in _OF_DATABASE:
            if not numbers.get(catalog.oid):
                raise FormatError(f"{self.place(c.PG_CLASS)} has no row of {catalog.name}", TAKE_ANOTHER)
            self._at[catalog.oid] = self._locate(numbers[catalog.oid])
        _demand(files, self._at.values(), database.oid)

    def _locate(self, number: int) -> RelFileLocator:
        return RelFileLocator(self.database.tablespace, self.database.oid, number)

    def place(self, catalog: c.Catalog) -> str:
        """A catalog's file and name, for messages."""
        return f"{self._files.path(self._at[catalog.oid])} ({catalog.name})"

    @property
    def locators(self) -> frozenset[RelFileLocator]:
        """Where the catalogs are, that of databases included."""
        return frozenset([*self._at.values(), at_databases(self._files)])

    def _rows(
        self, catalog: c.Catalog, names: tuple[str, ...], where: Where | None = None
    ) -> Iterable[tuple[Any, ...]]:
        if where is not None and not where.values:
            return []
        return self._scanner.rows(catalog, self._at[catalog.oid], names, where)

    def text(self, name: bytes, catalog: c.Catalog) -> str:
        """A name out of a catalog as text. Raises FormatError."""
        with self._about(catalog, f"the name {name!r}"):
            return decoded(name, self.database.encoding)

    @contextmanager
    def _about(self, catalog: c.Catalog, what: str) -> Iterator[None]:
        """A FormatError comes out with the catalog's file, and what it was about."""
        try:
            yield
        except FormatError as error:
            raise FormatError(f"{self.place(catalog)}: {what}: {error.message}", error.remedy) from None

    # -- all rows

    def namespaces(self) -> dict[int, bytes]:
        """Names of schemas as they are stored, by oid."""
        return dict(self._rows(c.PG_NAMESPACE, ("oid", "nspname")))

    def access_methods(self) -> dict[int, str]:
        """Names by oid."""
        return {oid: self.text(name, c.PG_AM) for oid, name in self._rows(c.PG_AM, ("oid", "amname"))}

    def inherits(self) -> list[InheritsRow]:
        """Every edge."""
        return [InheritsRow(*row) for row in self._rows(c.PG_INHERITS, ("inhrelid", "inhparent", "inhdetachpending"))]

    def ranges(self) -> list[RangeRow]:
        """Every range type."""
        return [RangeRow(*row) for row in self._rows(c.PG_RANGE, ("rngtypid", "rngsubtype", "rngmultitypid"))]

    def class_names(self) -> Iterator[tuple[int, int, bytes, str]]:
        """(oid, namespace, stored name, kind) of every relation, one after the other: there can be very many."""
        for oid, namespace, name, kind in self._rows(c.PG_CLASS, ("oid", "relnamespace", "relname", "relkind")):
            yield oid, namespace, name, char(kind)

    # -- some rows

    def classes(self, oids: Collection[int]) -> list[ClassRow]:
        """Rows of pg_class with one of these oids."""
        names = (
            "oid", "relname", "relnamespace", "relkind", "relpersistence", "relreplident", "relam", "relfilenode",
            "reltablespace", "reltoastrelid",
        )  # fmt: skip
        return [
            ClassRow(oid, self.text(name, c.PG_CLASS), namespace, char(kind), char(persistence), char(identity), *rest)
            for oid, name, namespace, kind, persistence, identity, *rest in self._rows(
                c.PG_CLASS, names, Where("oid", oids)
            )
        ]

    def attributes(self, relations: Collection[int]) -> tuple[list[AttributeRow], dict[tuple[int, int], bytes]]:
        """User attributes of these relations, and their missing values in on-disk form. Raises SourceError where a
        relation does not have as many as pg_class says."""
        names = (
            "attrelid", "attnum", "attname", "atttypid", "atttypmod", "attlen", "attalign", "attbyval", "attstorage",
            "attnotnull", "attisdropped", "attgenerated", "atthasmissing", "attndims", "attmissingval",
        )  # fmt: skip
        found: list[AttributeRow] = []
        missing: dict[tuple[int, int], bytes] = {}
        for row in self._rows(c.PG_ATTRIBUTE, names, Where("attrelid", relations)):
            relation, number, name, type_, typmod, length, alignment, by_value, storage, *rest = row
            not_null, dropped, generated, has_missing, dimensions, value = rest
            if number <= 0:
                continue
            found.append(
                AttributeRow(
                    relation, number, self.text(name, c.PG_ATTRIBUTE), type_, typmod, length, char(alignment),
                    by_value, char(storage), not_null, dropped, char(generated), has_missing, dimensions,
                )
            )  # fmt: skip
            if has_missing and not dropped and value is not None:
                with self._about(c.PG_ATTRIBUTE, f"the missing value of attribute {number} of relation {relation}"):
                    missing[relation, number] = only_element(value, length, char(alignment))
        self._count_attributes(relations, found)
        return found, missing

    def _count_attributes(self, relations: Collection[int], found: list[AttributeRow]) -> None:
        numbers: dict[int, list[int]] = {oid: [] for oid in relations}
        for row in found:
            numbers[row.relation].append(row.number)
        for oid, count in self._rows(c.PG_CLASS, ("oid", "relnatts"), Where("oid", relations)):
            if sorted(numbers[oid]) != list(range(1, count + 1)):
                raise SourceError(f"{CHANGED}: relation {oid} has attributes that pg_class does not know", TAKE_ANOTHER)

    def types(self, oids: Collection[int]) -> list[TypeRow]:
        """Rows of pg_type with one of these oids."""
        names = (
            "oid", "typname", "typnamespace", "typlen", "typbyval", "typtype", "typdelim", "typrelid", "typsubscript",
            "typelem", "typalign", "typbasetype", "typtypmod", "typndims",
        )  # fmt: skip
        return [
            TypeRow(
                oid, self.text(name, c.PG_TYPE), namespace, length, by_value, char(kind), char(delimiter), relation,
                subscript, element, char(alignment), *base,
            )
            for oid, name, namespace, length, by_value, kind, delimiter, relation, subscript, element, alignment, *base
            in self._rows(c.PG_TYPE, names, Where("oid", oids))
        ]  # fmt: skip

    def enums(self, types: Collection[int]) -> list[EnumRow]:
        """Labels of these enum types."""
        rows = self._rows(c.PG_ENUM, ("oid", "enumtypid", "enumsortorder", "enumlabel"), Where("enumtypid", types))
        return [EnumRow(oid, type_, order, self.text(label, c.PG_ENUM)) for oid, type_, order, label in rows]

    def indexes(self, relations: Collection[int]) -> list[IndexRow]:
        """Indexes of these relations."""
        names = (
            "indexrelid", "indrelid", "indkey", "indnkeyatts", "indisprimary", "indisreplident", "indisunique",
            "indimmediate", "indisvalid", "indislive", "indpred", "indisexclusion",
        )  # fmt: skip
        found = []
        for row in self._rows(c.PG_INDEX, names, Where("indrelid", relations)):
            oid, relation, key, key_columns, primary, identity, unique, immediate, valid, live, predicate, exclusion = (
                row
            )
            with self._about(c.PG_INDEX, f"the columns of index {oid}"):
                columns = smallints(key)
            found.append(
                IndexRow(
                    oid, relation, columns, key_columns, primary, identity, unique, immediate, valid and live,
                    predicate is not None, exclusion,
                )
            )  # fmt: skip
        return found

    def unvalidated(self, relations: Collection[int]) -> list[NotNullRow]:
        """NOT NULL constraints of these relations that are not validated."""
        if self.major < NOT_NULL_SINCE:
            return []
        found = []
        names = ("oid", "conrelid", "contype", "convalidated", "conkey")
        for oid, relation, kind, validated, key in self._rows(c.PG_CONSTRAINT, names, Where("conrelid", relations)):
            if char(kind) == "n" and not validated and key is not None:
                with self._about(c.PG_CONSTRAINT, f"the column of constraint {oid}"):
                    found += [NotNullRow(relation, number) for number in smallints(key)]
        return found
