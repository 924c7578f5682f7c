"""Which ClickHouse type a Postgres column lands in, and how its Arrow values become that type's bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from walshadow_core.api import Attribute, TableRefused

# Type oids, as catalog/pg_type.dat has them.
BOOL, BYTEA, CHAR, NAME, INT8, INT2, INT4, TEXT, OID = 16, 17, 18, 19, 20, 21, 23, 25, 26
JSON, FLOAT4, FLOAT8, BPCHAR, VARCHAR, DATE, TIME = 114, 700, 701, 1042, 1043, 1082, 1083
TIMESTAMP, TIMESTAMPTZ, INTERVAL, TIMETZ, NUMERIC, UUID = 1114, 1184, 1186, 1266, 1700, 2950

Encoding = Literal["fixed", "bool", "string", "uuid", "decimal", "date", "timestamp"]

MAX_DECIMAL_DIGITS = 76


@dataclass(frozen=True)
class ColumnType:
    """How one column is sent.

    ``name`` is the ClickHouse type without Nullable. ``encoding`` says how Arrow values of one of the types
    ``arrow`` become its bytes, ``width`` bytes each (0: strings). ``precision`` and ``scale`` are those of a
    Decimal, ``scale`` also that of a DateTime64.
    """

    name: str
    encoding: Encoding
    arrow: tuple[pa.DataType, ...]
    width: int = 0
    precision: int = 0
    scale: int = 0

    @property
    def can_be_out_of_range(self) -> bool:
        """Whether Postgres has values of it that ClickHouse has not."""
        return self.encoding in ("decimal", "date", "timestamp")


STRING = ColumnType("String", "string", (pa.string(), pa.binary()))

_SIMPLE: dict[int, ColumnType] = {
    BOOL: ColumnType("Bool", "bool", (pa.bool_(),), 1),
    CHAR: ColumnType("Int8", "fixed", (pa.int8(),), 1),
    INT2: ColumnType("Int16", "fixed", (pa.int16(),), 2),
    INT4: ColumnType("Int32", "fixed", (pa.int32(),), 4),
    INT8: ColumnType("Int64", "fixed", (pa.int64(),), 8),
    OID: ColumnType("UInt32", "fixed", (pa.uint32(),), 4),
    FLOAT4: ColumnType("Float32", "fixed", (pa.float32(),), 4),
    FLOAT8: ColumnType("Float64", "fixed", (pa.float64(),), 8),
    DATE: ColumnType("Date32", "date", (pa.date32(),), 4),
    TIME: ColumnType("Time64(6)", "fixed", (pa.time64("us"),), 8),
    UUID: ColumnType("UUID", "uuid", (pa.binary(16),), 16),
} | dict.fromkeys((TEXT, VARCHAR, BPCHAR, NAME, JSON, BYTEA, TIMETZ, INTERVAL), STRING)


def decimal_width(precision: int) -> int:
    """Bytes of a ClickHouse Decimal: Int32, Int64, Int128 or Int256, by its digits."""
    return 4 if precision <= 9 else 8 if precision <= 18 else 16 if precision <= 38 else 32


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


def decimal_type(precision: int, scale: int) -> ColumnType:
    """Decimal(precision, scale), out of Arrow's decimal128 up to 38 digits, decimal256 above."""
    arrow = pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
    width = decimal_width(precision)
    return ColumnType(f"Decimal({precision}, {scale})", "decimal", (arrow,), width, precision, scale)


def timestamp_type(digits: int) -> ColumnType:
    """DateTime64(digits, 'UTC'), out of microseconds."""
    arrow = (pa.timestamp("us"), pa.timestamp("us", "UTC"))
    return ColumnType(f"DateTime64({digits}, 'UTC')", "timestamp", arrow, 8, scale=digits)


def column_type(attribute: Attribute) -> ColumnType:
    """The type for one attribute. Raises TableRefused naming column and type."""
    oid, typmod = attribute.type_oid, attribute.typmod
    if oid in _SIMPLE:
        return _SIMPLE[oid]
    if oid in (TIMESTAMP, TIMESTAMPTZ):
        return timestamp_type(typmod if 0 <= typmod <= 6 else 6)
    if oid == NUMERIC:
        shape = numeric_shape(typmod)
        if shape is None or shape[0] > MAX_DECIMAL_DIGITS:
            return STRING
        return decimal_type(*shape)
    raise TableRefused(f"column {attribute.name!r} is of type {attribute.type_name}, which has no ClickHouse type here")


META_TYPES: tuple[tuple[str, ColumnType], ...] = (
    ("_lsn", ColumnType("UInt64", "fixed", (pa.uint64(),), 8)),
    ("_xid", ColumnType("UInt32", "fixed", (pa.uint32(),), 4)),
    ("_commit_ts", timestamp_type(6)),
    ("_is_deleted", _SIMPLE[BOOL]),
)
"""The four columns after a table's own, in META_FIELDS' order."""
