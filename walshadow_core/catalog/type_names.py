"""How a type is printed: what ``format_type(type, typmod)`` gives with search_path = pg_catalog.

See ``utils/adt/format_type.c`` for the SQL spellings, and the types' typmodout functions for what stands in
parentheses.
"""

from __future__ import annotations

import re
from typing import Final

from walshadow_core.api import PgType

_SAFE: Final = re.compile(r"[a-z_][a-z0-9_]*")
_WORDS: Final = """
    all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both case
    cast char character check coalesce collate collation column concurrently constraint create cross current_catalog
    current_date current_role current_schema current_time current_timestamp current_user dec decimal default deferrable
    desc distinct do else end except exists extract false fetch float for foreign freeze from full grant greatest group
    grouping having ilike in initially inner inout int integer intersect interval into is isnull join json json_array
    json_arrayagg json_exists json_object json_objectagg json_query json_scalar json_serialize json_table json_value
    lateral leading least left like limit localtime localtimestamp merge_action national natural nchar none normalize
    not notnull null nullif numeric offset on only or order out outer overlaps overlay placing position precision
    primary real references returning right row select session_user setof similar smallint some substring symmetric
    system_user table tablesample then time timestamp to trailing treat trim true union unique user using values
    varchar variadic verbose when where window with xmlattributes xmlconcat xmlelement xmlexists xmlforest
    xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable"""
_KEYWORDS: Final = frozenset(_WORDS.split())
"""Words that quote_identifier quotes, of the majors 15 to 18 together (a few came with 16 and 17)."""

_CATALOG: Final = "pg_catalog"
_VECTORS: Final = {"int2vector", "oidvector"}
"""Arrays with plain storage print under their own names."""

_HEADER: Final = 4
"""VARHDRSZ, which the typmods of character types and numeric count in."""

_SPELLINGS: Final = {
    "bool": "boolean", "float4": "real", "float8": "double precision", "int2": "smallint", "int4": "integer",
    "int8": "bigint", "varbit": "bit varying", "varchar": "character varying", "json": "json",
    "numeric": "numeric", "interval": "interval", "time": "time", "timetz": "time", "timestamp": "timestamp",
    "timestamptz": "timestamp",
}  # fmt: skip
_WITH_TYPMOD: Final = {"bit": "bit", "bpchar": "character"}
"""Without a typmod these print as the catalog names them, as the SQL name would mean a length of 1."""

_ZONES: Final = {
    "time": " without time zone", "timetz": " with time zone",
    "timestamp": " without time zone", "timestamptz": " with time zone",
}  # fmt: skip

_UNITS: Final = {"year": 2, "month": 1, "day": 3, "hour": 10, "minute": 11, "second": 12}
"""Bits of an interval's fields (``utils/timestamp.h``: INTERVAL_MASK of DTK numbers in ``utils/datetime.h``)."""
_FULL_RANGE: Final = 0x7FFF
_FULL_PRECISION: Final = 0xFFFF
_INTERVALS: Final = (
    "year", "month", "day", "hour", "minute", "second", "year to month", "day to hour", "day to minute",
    "day to second", "hour to minute", "hour to second", "minute to second",
)  # fmt: skip


def format_type(type_: PgType, typmod: int = -1) -> str:
    """The type's name as format_type prints it: ``numeric(10,2)``, ``integer[]``, ``public.mood``."""
    if type_.element is not None and not (type_.schema == _CATALOG and type_.name in _VECTORS):
        return _scalar(type_.element, typmod) + "[]"
    return _scalar(type_, typmod)


def quote_identifier(name: str) -> str:
    """An identifier in double quotes where the server's quote_identifier (``utils/adt/ruleutils.c``) puts them."""
    if _SAFE.fullmatch(name) and name not in _KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def _scalar(type_: PgType, typmod: int) -> str:
    if type_.schema != _CATALOG:
        qualified = f"{quote_identifier(type_.schema)}.{quote_identifier(type_.name)}"
        return qualified + (_of_extension(type_.name, typmod) if typmod >= 0 else "")
    spelling = _SPELLINGS.get(type_.name)
    if spelling is None and typmod >= 0:
        spelling = _WITH_TYPMOD.get(type_.name)
    name = quote_identifier(type_.name) if spelling is None else spelling
    zone = _ZONES.get(type_.name, "")
    return name + (_typmod(type_.name, typmod) if typmod >= 0 else "") + zone


def _typmod(name: str, typmod: int) -> str:
    """What the type's typmodout function gives, or the number in parentheses where it has none."""
    match name:
        case "numeric":
            if typmod < _HEADER:
                return ""
            packed = typmod - _HEADER
            return f"({packed >> 16 & 0xFFFF},{(packed & 0x7FF ^ 0x400) - 0x400})"
        case "varchar" | "bpchar":
            return f"({typmod - _HEADER})" if typmod > _HEADER else ""
        case "interval":
            return _interval(typmod)
        case _:
            return f"({typmod})"


def _interval(typmod: int) -> str:
    fields, precision = typmod >> 16 & _FULL_RANGE, typmod & _FULL_PRECISION
    words = "" if fields == _FULL_RANGE else _interval_fields(fields)
    return words + (f"({precision})" if precision != _FULL_PRECISION else "")


def _interval_fields(fields: int) -> str:
    order = list(_UNITS)
    for words in _INTERVALS:
        first, _, last = words.partition(" to ")
        units = order[order.index(first) : order.index(last or first) + 1]
        if fields == sum(1 << _UNITS[unit] for unit in units):
            return f" {words}"
    return ""


def _of_extension(name: str, typmod: int) -> str:
    """Types outside of pg_catalog have no typmodout function, but for PostGIS's."""
    if name in ("geometry", "geography"):
        return _geometry(typmod)
    return f"({typmod})"


_SHAPES: Final = (
    "Geometry", "Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon",
    "GeometryCollection", "CircularString", "CompoundCurve", "CurvePolygon", "MultiCurve", "MultiSurface",
    "PolyhedralSurface", "Triangle", "Tin",
)  # fmt: skip


def _geometry(typmod: int) -> str:
    """PostGIS packs the reference system (from bit 8 on, signed 21 bits), the shape (bits 2 to 7), and whether there
    are Z and M."""
    system = (typmod & 0x0FFFFF00) - (typmod & 0x10000000) >> 8
    shape = typmod >> 2 & 0x3F
    dimensions = ("Z" if typmod & 2 else "") + ("M" if typmod & 1 else "")
    if not (system or shape or dimensions):
        return ""
    name = _SHAPES[shape] if shape < len(_SHAPES) else "Unknown"
    return f"({name}{dimensions}{f',{system}' if system else ''})"
