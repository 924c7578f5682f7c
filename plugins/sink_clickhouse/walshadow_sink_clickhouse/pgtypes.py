"""How the types of Postgres are sent: which ColumnType each becomes, or none.

By oid where Postgres itself has the type (``catalog/pg_type.dat``), by name where an extension brings it, and by
kind where users make it.
"""

from __future__ import annotations

import pyarrow as pa

from walshadow_core.api import Attribute, PgType
from walshadow_sink_clickhouse.typemap import (
    BOOL,
    DATE,
    JSON,
    MAX_DECIMAL_DIGITS,
    STRING,
    TIME,
    UUID,
    ColumnType,
    Part,
    array_type,
    decimal_type,
    enum_type,
    number_type,
    timestamp_type,
    tuple_type,
)

NUMERIC, TIMESTAMP, TIMESTAMPTZ = 1700, 1114, 1184
INT2VECTOR, OIDVECTOR = 22, 30

MONEY = decimal_type(19, 2)
_UINT32 = number_type(pa.uint32())

_STRINGS = (
    17,  # bytea
    19,  # name
    25,  # text
    27,  # tid
    142,  # xml
    600,  # point
    601,  # lseg
    602,  # path
    603,  # box
    604,  # polygon
    628,  # line
    650,  # cidr
    718,  # circle
    774,  # macaddr8
    829,  # macaddr
    869,  # inet
    1042,  # bpchar
    1043,  # varchar
    1186,  # interval
    1266,  # timetz
    1560,  # bit
    1562,  # varbit
    1790,  # refcursor
    2970,  # txid_snapshot
    3220,  # pg_lsn
    3614,  # tsvector
    3615,  # tsquery
    4072,  # jsonpath
    5038,  # pg_snapshot
)
OIDS = (
    24,  # regproc
    2202,  # regprocedure
    2203,  # regoper
    2204,  # regoperator
    2205,  # regclass
    2206,  # regtype
    3734,  # regconfig
    3769,  # regdictionary
    4089,  # regnamespace
    4096,  # regrole
    4191,  # regcollation
)
"""Types whose value is the oid of something."""

_SIMPLE: dict[int, ColumnType] = {
    16: BOOL,  # bool
    18: number_type(pa.int8()),  # "char"
    20: number_type(pa.int64()),  # int8
    21: number_type(pa.int16()),  # int2
    23: number_type(pa.int32()),  # int4
    26: _UINT32,  # oid
    28: _UINT32,  # xid
    29: _UINT32,  # cid
    114: JSON,  # json
    700: number_type(pa.float32()),  # float4
    701: number_type(pa.float64()),  # float8
    790: MONEY,  # money
    1082: DATE,  # date
    1083: TIME,  # time
    2950: UUID,  # uuid
    3802: JSON,  # jsonb
    5069: number_type(pa.uint64()),  # xid8
    # Vectors have no NULL in them.
    INT2VECTOR: array_type(Part(number_type(pa.int16()), False)),
    OIDVECTOR: array_type(Part(_UINT32, False)),
    **dict.fromkeys(_STRINGS, STRING),
    **dict.fromkeys(OIDS, _UINT32),
}

_FLOATS = array_type(Part(number_type(pa.float32()), False))
EXTENSION_TYPES: dict[str, ColumnType] = {
    **dict.fromkeys(("hstore", "citext", "ltree", "cube", "geometry", "geography"), STRING),
    "vector": _FLOATS,
    "halfvec": _FLOATS,
}


def type_of(attribute: Attribute) -> PgType:
    """The type of a column; a simple one where the catalog was not asked."""
    a = attribute
    return a.type or PgType(a.type_oid, "pg_catalog", a.type_name, "b", a.length, a.alignment, a.by_value)


def undressed(pg: PgType, typmod: int, dimensions: int) -> tuple[PgType, int, int]:
    """What a domain is of, at any depth, with its type modifier and dimensions; other types as they are."""
    while pg.base is not None:
        pg, typmod, dimensions = pg.base, pg.base_typmod, pg.base_dimensions
    return pg, typmod, dimensions


def own_type(pg: PgType, typmod: int, dimensions: int) -> ColumnType | None:
    """How values of a type are sent in their own form; None if its name says nothing here, or if ClickHouse has no
    type that holds them: such values can be sent as text."""
    pg, typmod, dimensions = undressed(pg, typmod, dimensions)
    if pg.codec is not None:
        return arrow_type(pg.codec.arrow)
    if pg.element is not None and pg.oid not in _SIMPLE:
        return _array(own_type(pg.element, typmod, 0), dimensions)
    match pg.kind:
        case "e":
            return enum_type(label for _, label in pg.labels)
        case "c":
            return _tuple(pg)
        case "r" | "m":
            return STRING
    if pg.schema != "pg_catalog":
        return EXTENSION_TYPES.get(pg.name)
    if pg.oid in (TIMESTAMP, TIMESTAMPTZ):
        return timestamp_type(timestamp_digits(typmod))
    if pg.oid == NUMERIC:
        shape = numeric_shape(typmod)
        return STRING if shape is None or shape[0] > MAX_DECIMAL_DIGITS else decimal_type(*shape)
    return _SIMPLE.get(pg.oid)


def suggested_type(pg: PgType) -> str | None:
    """What a plugin that decodes a type says that it should be at the destination."""
    codec = undressed(pg, -1, 0)[0].codec
    return codec.suggested_type if codec is not None else None


def is_known(pg: PgType) -> bool:
    """Whether values of a type can be sent, if only as text."""
    pg, _, _ = undressed(pg, -1, 0)
    if pg.codec is not None:
        return pg.codec.text is not None or arrow_type(pg.codec.arrow) is not None
    if pg.element is not None and pg.oid not in _SIMPLE:
        return is_known(pg.element)
    if pg.kind == "c":
        return all(is_known(type_of(field)) for field in live_fields(pg))
    if pg.kind in ("r", "m"):
        inner = pg.subtype if pg.subtype is not None else pg.range
        return inner is None or is_known(inner)
    return own_type(pg, -1, 0) is not None


def live_fields(pg: PgType) -> tuple[Attribute, ...]:
    """A composite's fields that are not dropped."""
    return tuple(field for field in pg.fields if not field.dropped)


def timestamp_digits(typmod: int) -> int:
    """Digits of a second that timestamp(typmod) has."""
    return typmod if 0 <= typmod <= 6 else 6


def numeric_shape(typmod: int) -> tuple[int, int] | None:
    """Digits and scale that hold every value of numeric with this typmod (``utils/adt/numeric.c``), None for
    plain numeric. A negative scale needs that many digits more; a scale above the precision needs only itself."""
    if typmod < 4:
        return None
    precision = (typmod - 4) >> 16 & 0xFFFF
    scale = ((typmod - 4 & 0x7FF) ^ 1024) - 1024
    if scale < 0:
        return precision - scale, 0
    return max(precision, scale), scale


def _array(element: ColumnType | None, dimensions: int) -> ColumnType | None:
    """Arrays in arrays, as many as declared. An element that can't be Nullable leaves no room for NULL."""
    if element is None or element.encoding in ("array", "tuple"):
        return None
    made = array_type(Part(element, True))
    for _ in range(1, dimensions):
        made = array_type(Part(made, False))
    return made


def _tuple(pg: PgType) -> ColumnType | None:
    """A field may be NULL whatever it is, so none may be a tuple. Tuple() does not exist, nor an element ``null``."""
    parts: list[Part] = []
    for field in live_fields(pg):
        kind = own_type(type_of(field), field.typmod, field.dimensions)
        if kind is None or kind.encoding == "tuple" or field.name.lower() == "null" or field.name.isdigit():
            return None
        parts.append(Part(kind, True, field.name))
    return tuple_type(parts) if parts else None


def arrow_type(arrow: pa.DataType) -> ColumnType | None:
    """How values of an Arrow type that a plugin's codec gives are sent."""
    if pa.types.is_integer(arrow) or pa.types.is_float32(arrow) or pa.types.is_float64(arrow):
        return number_type(arrow)
    if pa.types.is_decimal128(arrow) or pa.types.is_decimal256(arrow):
        made = decimal_type(arrow.precision, arrow.scale) if arrow.scale >= 0 else None
        return made if made is not None and made.takes(arrow) else None
    if pa.types.is_list(arrow):
        return _array(arrow_type(arrow.value_type), 1)
    for known in (BOOL, STRING, UUID, DATE, TIME, timestamp_type(6)):
        if known.takes(arrow):
            return known
    return None
