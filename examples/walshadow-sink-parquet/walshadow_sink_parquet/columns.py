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
)

_BY_OID: dict[int, pa.DataType] = {
    16: pa.bool_(),  # bool
    17: pa.binary(),  # bytea
    18: pa.int8(),  # "char"
    19: pa.string(),  # name
    20: pa.int64(),  # int8
    21: pa.int16(),  # int2
    23: pa.int32(),  # int4
    25: pa.string(),  # text
    26: pa.uint32(),  # oid
    114: pa.string(),  # json
    700: pa.float32(),  # float4
    701: pa.float64(),  # float8
    1042: pa.string(),  # bpchar
    1043: pa.string(),  # varchar
    1082: pa.date32(),  # date
    1083: pa.time64("us"),  # time
    1114: pa.timestamp("us"),  # timestamp
    1184: pa.timestamp("us", "UTC"),  # timestamptz
    1186: pa.string(),  # interval
    1266: pa.string(),  # timetz
    2950: pa.binary(16),  # uuid
}
"""Types without parameters, by the oids of pg_type.dat, which never change."""

_NUMERIC = 1700
_DAY_US = 86_400_000_000


def arrow_type(attribute: Attribute) -> pa.DataType | None:
    """The Arrow type that walshadow gives a column of this attribute, None for a type not known here."""
    if attribute.type_oid == _NUMERIC:
        return _numeric_type(attribute.typmod)
    return _BY_OID.get(attribute.type_oid)


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
