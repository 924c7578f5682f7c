"""The columns of the catalogs that descriptors are made of, for each major (``catalog/pg_class.h`` and its kin).

Written down rather than read: a catalog's own description is in pg_attribute, which can't be read before pg_attribute
is known. A test holds every line against real servers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from walshadow_core.api import Attribute, PgType, RelationDescriptor, RelFileLocator
from walshadow_core.decode import type_oids as oid


@dataclass(frozen=True, slots=True, eq=False)
class Catalog:
    """One catalog. ``oid`` is that of its pg_class row, and the number of its first file: initdb gives every catalog
    its oid as relfilenode. ``key`` names the columns that tell its rows apart. ``columns`` are "name type" pairs in
    order, by the first major that has them so."""

    name: str
    oid: int
    key: tuple[str, ...]
    columns: dict[int, str]
    shared: bool = False
    mapped: bool = False


PG_CLASS: Final = Catalog("pg_class", 1259, ("oid",), {
    15: "oid oid, relname name, relnamespace oid, reltype oid, reloftype oid, relowner oid, relam oid, "
        "relfilenode oid, reltablespace oid, relpages int4, reltuples float4, relallvisible int4, reltoastrelid oid, "
        "relhasindex bool, relisshared bool, relpersistence char, relkind char, relnatts int2, relchecks int2, "
        "relhasrules bool, relhastriggers bool, relhassubclass bool, relrowsecurity bool, relforcerowsecurity bool, "
        "relispopulated bool, relreplident char, relispartition bool, relrewrite oid, relfrozenxid xid, "
        "relminmxid xid, relacl _aclitem, reloptions _text, relpartbound pg_node_tree",
    18: "oid oid, relname name, relnamespace oid, reltype oid, reloftype oid, relowner oid, relam oid, "
        "relfilenode oid, reltablespace oid, relpages int4, reltuples float4, relallvisible int4, relallfrozen int4, "
        "reltoastrelid oid, relhasindex bool, relisshared bool, relpersistence char, relkind char, relnatts int2, "
        "relchecks int2, relhasrules bool, relhastriggers bool, relhassubclass bool, relrowsecurity bool, "
        "relforcerowsecurity bool, relispopulated bool, relreplident char, relispartition bool, relrewrite oid, "
        "relfrozenxid xid, relminmxid xid, relacl _aclitem, reloptions _text, relpartbound pg_node_tree",
}, mapped=True)  # fmt: skip

PG_ATTRIBUTE: Final = Catalog("pg_attribute", 1249, ("attrelid", "attnum"), {
    15: "attrelid oid, attname name, atttypid oid, attstattarget int4, attlen int2, attnum int2, attndims int4, "
        "attcacheoff int4, atttypmod int4, attbyval bool, attalign char, attstorage char, attcompression char, "
        "attnotnull bool, atthasdef bool, atthasmissing bool, attidentity char, attgenerated char, "
        "attisdropped bool, attislocal bool, attinhcount int4, attcollation oid, attacl _aclitem, "
        "attoptions _text, attfdwoptions _text, attmissingval anyarray",
    16: "attrelid oid, attname name, atttypid oid, attlen int2, attnum int2, attcacheoff int4, atttypmod int4, "
        "attndims int2, attbyval bool, attalign char, attstorage char, attcompression char, attnotnull bool, "
        "atthasdef bool, atthasmissing bool, attidentity char, attgenerated char, attisdropped bool, "
        "attislocal bool, attinhcount int2, attstattarget int2, attcollation oid, attacl _aclitem, "
        "attoptions _text, attfdwoptions _text, attmissingval anyarray",
    17: "attrelid oid, attname name, atttypid oid, attlen int2, attnum int2, attcacheoff int4, atttypmod int4, "
        "attndims int2, attbyval bool, attalign char, attstorage char, attcompression char, attnotnull bool, "
        "atthasdef bool, atthasmissing bool, attidentity char, attgenerated char, attisdropped bool, "
        "attislocal bool, attinhcount int2, attcollation oid, attstattarget int2, attacl _aclitem, "
        "attoptions _text, attfdwoptions _text, attmissingval anyarray",
    18: "attrelid oid, attname name, atttypid oid, attlen int2, attnum int2, atttypmod int4, "
        "attndims int2, attbyval bool, attalign char, attstorage char, attcompression char, attnotnull bool, "
        "atthasdef bool, atthasmissing bool, attidentity char, attgenerated char, attisdropped bool, "
        "attislocal bool, attinhcount int2, attcollation oid, attstattarget int2, attacl _aclitem, "
        "attoptions _text, attfdwoptions _text, attmissingval anyarray",
}, mapped=True)  # fmt: skip

PG_TYPE: Final = Catalog("pg_type", 1247, ("oid",), {
    15: "oid oid, typname name, typnamespace oid, typowner oid, typlen int2, typbyval bool, typtype char, "
        "typcategory char, typispreferred bool, typisdefined bool, typdelim char, typrelid oid, "
        "typsubscript regproc, typelem oid, typarray oid, typinput regproc, typoutput regproc, typreceive regproc, "
        "typsend regproc, typmodin regproc, typmodout regproc, typanalyze regproc, typalign char, typstorage char, "
        "typnotnull bool, typbasetype oid, typtypmod int4, typndims int4, typcollation oid, "
        "typdefaultbin pg_node_tree, typdefault text, typacl _aclitem",
}, mapped=True)  # fmt: skip

PG_NAMESPACE: Final = Catalog("pg_namespace", 2615, ("oid",), {
    15: "oid oid, nspname name, nspowner oid, nspacl _aclitem",
})  # fmt: skip

PG_AM: Final = Catalog("pg_am", 2601, ("oid",), {
    15: "oid oid, amname name, amhandler regproc, amtype char",
})  # fmt: skip

PG_INDEX: Final = Catalog("pg_index", 2610, ("indexrelid",), {
    15: "indexrelid oid, indrelid oid, indnatts int2, indnkeyatts int2, indisunique bool, "
        "indnullsnotdistinct bool, indisprimary bool, indisexclusion bool, indimmediate bool, indisclustered bool, "
        "indisvalid bool, indcheckxmin bool, indisready bool, indislive bool, indisreplident bool, "
        "indkey int2vector, indcollation oidvector, indclass oidvector, indoption int2vector, "
        "indexprs pg_node_tree, indpred pg_node_tree",
})  # fmt: skip

PG_ENUM: Final = Catalog("pg_enum", 3501, ("oid",), {
    15: "oid oid, enumtypid oid, enumsortorder float4, enumlabel name",
})  # fmt: skip

PG_RANGE: Final = Catalog("pg_range", 3541, ("rngtypid",), {
    15: "rngtypid oid, rngsubtype oid, rngmultitypid oid, rngcollation oid, rngsubopc oid, rngcanonical regproc, "
        "rngsubdiff regproc",
})  # fmt: skip

PG_INHERITS: Final = Catalog("pg_inherits", 2611, ("inhrelid", "inhseqno"), {
    15: "inhrelid oid, inhparent oid, inhseqno int4, inhdetachpending bool",
})  # fmt: skip

PG_CONSTRAINT: Final = Catalog("pg_constraint", 2606, ("oid",), {
    15: "oid oid, conname name, connamespace oid, contype char, condeferrable bool, condeferred bool, "
        "convalidated bool, conrelid oid, contypid oid, conindid oid, conparentid oid, confrelid oid, "
        "confupdtype char, confdeltype char, confmatchtype char, conislocal bool, coninhcount int4, "
        "connoinherit bool, conkey _int2, confkey _int2, conpfeqop _oid, conppeqop _oid, conffeqop _oid, "
        "confdelsetcols _int2, conexclop _oid, conbin pg_node_tree",
    16: "oid oid, conname name, connamespace oid, contype char, condeferrable bool, condeferred bool, "
        "convalidated bool, conrelid oid, contypid oid, conindid oid, conparentid oid, confrelid oid, "
        "confupdtype char, confdeltype char, confmatchtype char, conislocal bool, coninhcount int2, "
        "connoinherit bool, conkey _int2, confkey _int2, conpfeqop _oid, conppeqop _oid, conffeqop _oid, "
        "confdelsetcols _int2, conexclop _oid, conbin pg_node_tree",
    18: "oid oid, conname name, connamespace oid, contype char, condeferrable bool, condeferred bool, "
        "conenforced bool, convalidated bool, conrelid oid, contypid oid, conindid oid, conparentid oid, "
        "confrelid oid, confupdtype char, confdeltype char, confmatchtype char, conislocal bool, coninhcount int2, "
        "connoinherit bool, conperiod bool, conkey _int2, confkey _int2, conpfeqop _oid, conppeqop _oid, "
        "conffeqop _oid, confdelsetcols _int2, conexclop _oid, conbin pg_node_tree",
})  # fmt: skip

PG_DATABASE: Final = Catalog("pg_database", 1262, ("oid",), {
    15: "oid oid, datname name, datdba oid, encoding int4, datlocprovider char, datistemplate bool, "
        "datallowconn bool, datconnlimit int4, datfrozenxid xid, datminmxid xid, dattablespace oid, "
        "datcollate text, datctype text, daticulocale text, datcollversion text, datacl _aclitem",
    16: "oid oid, datname name, datdba oid, encoding int4, datlocprovider char, datistemplate bool, "
        "datallowconn bool, datconnlimit int4, datfrozenxid xid, datminmxid xid, dattablespace oid, "
        "datcollate text, datctype text, daticulocale text, daticurules text, datcollversion text, "
        "datacl _aclitem",
    17: "oid oid, datname name, datdba oid, encoding int4, datlocprovider char, datistemplate bool, "
        "datallowconn bool, dathasloginevt bool, datconnlimit int4, datfrozenxid xid, datminmxid xid, "
        "dattablespace oid, datcollate text, datctype text, datlocale text, daticurules text, "
        "datcollversion text, datacl _aclitem",
}, shared=True, mapped=True)  # fmt: skip

CATALOGS: Final = (
    PG_CLASS, PG_ATTRIBUTE, PG_TYPE, PG_NAMESPACE, PG_AM, PG_INDEX, PG_ENUM, PG_RANGE, PG_INHERITS, PG_CONSTRAINT,
    PG_DATABASE,
)  # fmt: skip
"""All that is read. Only the last is shared by all databases."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """How values of a type are stored, and the oid of the type under which they are decoded here: ``bytea`` for the
    bytes as they are."""

    length: int
    alignment: str
    as_oid: int


_STORED: Final = {
    "bool": _Stored(1, "c", oid.BOOL),
    "char": _Stored(1, "c", oid.CHAR),
    "int2": _Stored(2, "s", oid.INT2),
    "int4": _Stored(4, "i", oid.INT4),
    "float4": _Stored(4, "i", oid.FLOAT4),
    "oid": _Stored(4, "i", oid.OID),
    "xid": _Stored(4, "i", oid.OID),
    "regproc": _Stored(4, "i", oid.OID),
    "name": _Stored(64, "c", oid.NAME),
    "text": _Stored(-1, "i", oid.BYTEA),
    "pg_node_tree": _Stored(-1, "i", oid.BYTEA),
    "int2vector": _Stored(-1, "i", oid.BYTEA),
    "oidvector": _Stored(-1, "i", oid.BYTEA),
    "_int2": _Stored(-1, "i", oid.BYTEA),
    "_oid": _Stored(-1, "i", oid.BYTEA),
    "_text": _Stored(-1, "i", oid.BYTEA),
    "_aclitem": _Stored(-1, "d", oid.BYTEA),
    "anyarray": _Stored(-1, "d", oid.BYTEA),
}
_STORED_IN_15: Final = {**_STORED, "_aclitem": _Stored(-1, "i", oid.BYTEA)}
"""aclitem got wider in 16."""


def columns(catalog: Catalog, major: int) -> tuple[tuple[str, str], ...]:
    """(name, type) of each column, in order."""
    since = max(first for first in catalog.columns if first <= major)
    pairs = (column.split() for column in catalog.columns[since].split(", "))
    return tuple((name, type_name) for name, type_name in pairs)


@cache
def descriptor(catalog: Catalog, major: int, wanted: tuple[str, ...]) -> RelationDescriptor:
    """What the decoder needs to read the ``wanted`` columns of a catalog. Names come as the bytes that are stored,
    where the decoder is asked to leave text alone."""
    attributes = tuple(
        _attribute(number, name, type_name, (_STORED if major > 15 else _STORED_IN_15)[type_name])
        for number, (name, type_name) in enumerate(columns(catalog, major), 1)
    )
    assert set(wanted) <= {a.name for a in attributes}, f"{catalog.name} of {major}: {wanted}"
    return RelationDescriptor(
        oid=catalog.oid,
        database="",
        schema="pg_catalog",
        name=catalog.name,
        locator=RelFileLocator(0, 0, catalog.oid),
        kind="r",
        persistence="p",
        replica_identity="n",
        key=(),
        attributes=attributes,
        encoding="SQL_ASCII",
        excluded=frozenset(a.number for a in attributes if a.name not in wanted),
    )


def _attribute(number: int, name: str, type_name: str, stored: _Stored) -> Attribute:
    return Attribute(
        number=number,
        name=name,
        type_oid=stored.as_oid,
        type_name=type_name,
        typmod=-1,
        length=stored.length,
        alignment=stored.alignment,
        by_value=False,
        storage="p",
        not_null=False,
        type=PgType(stored.as_oid, "pg_catalog", type_name, "b", stored.length, stored.alignment, False),
    )
