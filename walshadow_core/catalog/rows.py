"""Rows of catalog tables as they are stored, as far as a descriptor needs them.

SQL and the files of a backup both give these, and `catalog.build` makes descriptors of them: so the two can't
differ in what they make of a row. A name follows the catalog's own, without its prefix, or the word for it that
the descriptors use. Oids are ints; "char" columns are texts of one character (none for a zero byte).
"""

from __future__ import annotations

from dataclasses import dataclass, field

ARRAY_SUBSCRIPT_HANDLER = 6179
"""The oid of array_subscript_handler (``catalog/pg_proc.dat``): typsubscript of the true arrays."""

HEAP_ACCESS_METHOD = 2
"""HEAP_TABLE_AM_OID (``catalog/pg_am.dat``)."""


@dataclass(frozen=True, slots=True)
class DatabaseRow:
    """pg_database (``catalog/pg_database.h``). ``encoding`` is the encoding's name (pg_encoding_to_char)."""

    oid: int
    name: str
    encoding: str
    tablespace: int


@dataclass(frozen=True, slots=True)
class ClassRow:
    """pg_class (``catalog/pg_class.h``). ``tablespace`` is 0 for the database's own, ``number`` is relfilenode."""

    oid: int
    name: str
    namespace: int
    kind: str
    persistence: str
    replica_identity: str
    access_method: int
    number: int
    tablespace: int
    toast: int


@dataclass(frozen=True, slots=True)
class AttributeRow:
    """pg_attribute (``catalog/pg_attribute.h``), of attributes with a number above 0."""

    relation: int
    number: int
    name: str
    type: int
    typmod: int
    length: int
    alignment: str
    by_value: bool
    storage: str
    not_null: bool
    dropped: bool
    generated: str
    has_missing: bool
    dimensions: int


@dataclass(frozen=True, slots=True)
class TypeRow:
    """pg_type (``catalog/pg_type.h``). ``relation`` is typrelid, ``subscript`` typsubscript, ``element`` typelem,
    ``base``, ``base_typmod`` and ``base_dimensions`` are a domain's."""

    oid: int
    name: str
    namespace: int
    length: int
    by_value: bool
    kind: str
    delimiter: str
    relation: int
    subscript: int
    element: int
    alignment: str
    base: int
    base_typmod: int
    base_dimensions: int


@dataclass(frozen=True, slots=True)
class EnumRow:
    """pg_enum (``catalog/pg_enum.h``). ``order`` is enumsortorder."""

    oid: int
    type: int
    order: float
    label: str


@dataclass(frozen=True, slots=True)
class RangeRow:
    """pg_range (``catalog/pg_range.h``): the range type, its subtype, its multirange type."""

    type: int
    subtype: int
    multirange: int


@dataclass(frozen=True, slots=True)
class IndexRow:
    """pg_index (``catalog/pg_index.h``). ``columns`` is indkey, INCLUDE columns too, of which the first
    ``key_columns`` (indnkeyatts) make the key; 0 stands for an expression. ``valid`` is indisvalid and indislive,
    ``partial`` says that there is an indpred."""

    oid: int
    relation: int
    columns: tuple[int, ...]
    key_columns: int
    primary: bool
    replica_identity: bool
    unique: bool
    immediate: bool
    valid: bool
    partial: bool
    exclusion: bool

    @property
    def key(self) -> tuple[int, ...]:
        """Attribute numbers of the key's columns alone, in index order."""
        return self.columns[: self.key_columns]


@dataclass(frozen=True, slots=True)
class InheritsRow:
    """pg_inherits (``catalog/pg_inherits.h``). ``detach_pending``: a DETACH CONCURRENTLY is on its way, and
    queries leave the partition out."""

    child: int
    parent: int
    detach_pending: bool


@dataclass(frozen=True, slots=True)
class NotNullRow:
    """pg_constraint of contype 'n' that is not validated (since 18): attnotnull is set, and there may be NULLs."""

    relation: int
    number: int


@dataclass(frozen=True)
class CatalogRows:
    """The rows of one database at one moment, in any order: all of them, or those that some relations need. That
    is, of a relation: its class, the classes of its TOAST table, of all relations below it in pg_inherits and of
    their TOAST tables, and its indexes; of a type, whatever it is made of. ``namespaces`` and ``access_methods``
    are names by oid."""

    database: DatabaseRow
    namespaces: dict[int, str]
    access_methods: dict[int, str] = field(default_factory=dict)
    classes: list[ClassRow] = field(default_factory=list)
    attributes: list[AttributeRow] = field(default_factory=list)
    types: list[TypeRow] = field(default_factory=list)
    enums: list[EnumRow] = field(default_factory=list)
    ranges: list[RangeRow] = field(default_factory=list)
    indexes: list[IndexRow] = field(default_factory=list)
    inherits: list[InheritsRow] = field(default_factory=list)
    unvalidated: list[NotNullRow] = field(default_factory=list)
