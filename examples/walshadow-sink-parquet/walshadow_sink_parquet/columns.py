"""How a column lands: the Arrow type by the Postgres type, and what to do with values that Parquet can't hold."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from walshadow_core.api import (
    DATE_INFINITY,
    DATE_NEG_INFINITY,
    TIMESTAMP_INFINITY,
    TIMESTAMP_NEG_INFINITY,
    Attribute,
    PgType,
)


def _list(element: pa.DataType) -> pa.DataType:
    """A list as a Parquet file names its parts."""
    return pa.list_(pa.field("element", element))


_BY_OID: dict[int, pa.DataType] = {
    16: pa.bool_(),  # bool
    17: pa.binary(),  # bytea
    18: pa.int8(),  # "char"
    20: pa.int64(),  # int8
    21: pa.int16(),  # int2
    22: _list(pa.int16()),  # int2vector
    23: pa.int32(),  # int4
    26: pa.uint32(),  # oid
    28: pa.uint32(),  # xid
    29: pa.uint32(),  # cid
    30: _list(pa.uint32()),  # oidvector
    700: pa.float32(),  # float4
    701: pa.float64(),  # float8
    790: pa.decimal128(19, 2),  # money
    1082: pa.date32(),  # date
    1083: pa.time64("us"),  # time
    1114: pa.timestamp("us"),  # timestamp
    1184: pa.timestamp("us", "UTC"),  # timestamptz
    2950: pa.binary(16),  # uuid
    5069: pa.uint64(),  # xid8
}
"""Types without parameters, by the oids of pg_type.dat, which never change."""

_STRINGS = frozenset((
    19, 25, 27, 114, 142, 600, 601, 602, 603, 604, 628, 650, 718, 774, 829, 869, 1042, 1043, 1186, 1266, 1560, 1562,
    1790, 2970, 3220, 3614, 3615, 3802, 4072, 5038,
))  # fmt: skip
"""Types that come as Postgres prints them: name, text, tid, json, xml, point, lseg, path, box, polygon, line, cidr,
circle, macaddr8, macaddr, inet, char(n), varchar, interval, timetz, bit, varbit, refcursor, txid_snapshot, pg_lsn,
tsvector, tsquery, jsonb, jsonpath, pg_snapshot."""

_OIDS = frozenset((24, 2202, 2203, 2204, 2205, 2206, 3734, 3769, 4089, 4096, 4191))
"""Types whose value is an oid: regproc, regprocedure, regoper, regoperator, regclass, regtype, regconfig,
regdictionary, regnamespace, regrole, regcollation."""

_BY_NAME: dict[str, pa.DataType] = {
    **dict.fromkeys(("hstore", "citext", "ltree", "cube", "geometry", "geography"), pa.string()),
    **dict.fromkeys(("vector", "halfvec"), _list(pa.float32())),
}
"""Types of extensions."""

_NUMERIC = 1700
_DAY_US = 86_400_000_000


def arrow_type(attribute: Attribute) -> pa.DataType | None:
    """The Arrow type that walshadow gives a column of this attribute, None for a type not known here."""
    a = attribute
    known = a.type or PgType(a.type_oid, "pg_catalog", a.type_name, "b", a.length, a.alignment, a.by_value)
    return _arrow_type(known, a.typmod, a.dimensions)


def _arrow_type(pg: PgType, typmod: int, dimensions: int) -> pa.DataType | None:
    while pg.base is not None:
        pg, typmod, dimensions = pg.base, pg.base_typmod, pg.base_dimensions
    if pg.codec is not None:
        return pg.codec.arrow
    if pg.oid in _BY_OID:
        return _BY_OID[pg.oid]
    if pg.oid in _OIDS:
        return pa.uint32()
    if pg.oid in _STRINGS or pg.kind in "erm":
        return pa.string()
    if pg.oid == _NUMERIC:
        return _numeric_type(typmod)
    if pg.element is not None:
        made = _arrow_type(pg.element, typmod, 0)
        for _ in range(max(dimensions, 1)):
            made = made and _list(made)
        return made
    if pg.kind == "c":
        return _struct_type(pg)
    return _BY_NAME.get(pg.name) if pg.kind == "b" and pg.schema != "pg_catalog" else None


def _struct_type(pg: PgType) -> pa.DataType | None:
    fields = [(f.name, _arrow_type(f.type, f.typmod, f.dimensions)) for f in pg.fields if f.type is not None]
    return pa.struct(fields) if fields and all(made is not None for _, made in fields) else None


def _numeric_type(typmod: int) -> pa.DataType:
    """numeric(p, s): precision in the upper half of typmod - 4, scale in its lower 11 bits, signed."""
    if typmod < 4:
        return pa.string()
    precision = (typmod - 4) >> 16 & 0xFFFF
    scale = ((typmod - 4 & 0x7FF) ^ 0x400) - 0x400
    precision, scale = (precision - scale, 0) if scale < 0 else (max(precision, scale), scale)
    if precision <= 38:
        return pa.decimal128(precision, scale)
    return pa.decimal256(precision, scale) if precision <= 76 else pa.string()


def holds_out_of_range(type_: pa.DataType) -> bool:
    """Whether lists and structs of this type can hold, at any depth, values that Parquet can't."""
    inner = [type_.field(i).type for i in range(type_.num_fields)]
    return any(can_be_out_of_range(t) or holds_out_of_range(t) for t in inner)


def can_be_out_of_range(type_: pa.DataType) -> bool:
    """Whether columns of this type can hold values that Parquet can't."""
    return bool(
        pa.types.is_date32(type_)
        or pa.types.is_timestamp(type_)
        or pa.types.is_time64(type_)
        or pa.types.is_decimal(type_)
    )


def out_of_range(column: pa.Array) -> NDArray[np.bool_] | None:
    """Which values of ``column`` Parquet can't hold: one bool per value, None if there is none. A NULL is no
    such value, whatever its bytes are."""
    type_ = column.type
    if not can_be_out_of_range(type_) or len(column) == 0:
        return None
    words = _raw_words(column)
    if pa.types.is_date32(type_):
        found = (words[:, 0] == DATE_INFINITY) | (words[:, 0] == DATE_NEG_INFINITY)
    elif pa.types.is_timestamp(type_):
        found = (words[:, 0] == TIMESTAMP_INFINITY) | (words[:, 0] == TIMESTAMP_NEG_INFINITY)
    elif pa.types.is_time64(type_):
        found = words[:, 0] >= _DAY_US
    else:
        # DECIMAL_NAN_128 and DECIMAL_NAN_256: the sign bit and nothing else.
        found = (words[:, -1] == np.iinfo(np.int64).min) & ~words[:, :-1].any(axis=1)
    if column.null_count:
        found &= column.is_valid().to_numpy(zero_copy_only=False)
    return found if found.any() else None


def without(column: pa.Array, values: NDArray[np.bool_]) -> pa.Array:
    """``column`` with NULL where ``values`` is true."""
    return pc.if_else(pa.array(values), pa.scalar(None, column.type), column)


def _raw_words(column: pa.Array) -> NDArray[np.int64]:
    """The raw values as an array of shape (rows, words per value), low word first."""
    word = np.int32 if column.type.bit_width == 32 else np.int64
    words_per_value = max(1, column.type.bit_width // 64)
    words = np.frombuffer(column.buffers()[1], word).reshape(-1, words_per_value)
    return words[column.offset : column.offset + len(column)].astype(np.int64, copy=False)
