"""What is sent to ClickHouse: types, with the Arrow types that they are made of and how values become bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from walshadow_sink_clickhouse.quoting import identifier

Encoding = Literal["fixed", "bool", "string", "uuid", "decimal", "date", "timestamp", "array", "tuple"]

MAX_DECIMAL_DIGITS = 76

DATE_BOUNDS = (-25567, 120529)
"""Days since 1970-01-01 of 1900-01-01 and 2299-12-31, the ends of Date32."""
TIMESTAMP_BOUNDS = (-2208988800000000, 10413791999999999)
"""Microseconds of 1900-01-01 00:00:00 and 2299-12-31 23:59:59.999999, the ends of DateTime64."""
NANOSECOND_BOUNDS = (-2208988800000000, 9223372036854775)
"""The same for DateTime64(9), whose nanoseconds end in 2262."""


@dataclass(frozen=True)
class ColumnType:
    """How the values of one type are sent.

    ``name`` is the ClickHouse type without Nullable, as a block names it. ``encoding`` says how Arrow values of one
    of the types ``arrow`` become its bytes, ``width`` bytes each (0: strings). ``precision`` and ``scale`` are
    those of a Decimal, ``scale`` also that of a DateTime64. ``limits`` are the least and greatest raw value (days,
    microseconds) that fit where it lands. ``labels`` are an enum's, ``json`` says that a string is JSON:
    what else than a String may hold it. ``parts`` are an array's element, or a tuple's elements.
    """

    name: str
    encoding: Encoding
    arrow: tuple[pa.DataType, ...] = ()
    width: int = 0
    precision: int = 0
    scale: int = 0
    limits: tuple[int, int] = (0, 0)
    labels: tuple[str, ...] = ()
    json: bool = False
    parts: tuple[Part, ...] = ()

    @property
    def can_be_out_of_range(self) -> bool:
        """Whether Postgres has values of it that ClickHouse has not."""
        return self.encoding in ("decimal", "date", "timestamp")

    def takes(self, arrow: pa.DataType) -> bool:
        """Whether values of this Arrow type can be sent as it."""
        if self.encoding == "array":
            return bool(pa.types.is_list(arrow)) and self.parts[0].type.takes(arrow.value_type)
        if self.encoding == "tuple":
            return (
                bool(pa.types.is_struct(arrow))
                and arrow.num_fields == len(self.parts)
                and all(part.type.takes(arrow[i].type) for i, part in enumerate(self.parts))
            )
        return arrow in self.arrow

    @property
    def arrow_words(self) -> str:
        """The Arrow type that is due, for people."""
        if self.encoding == "array":
            return f"list<{self.parts[0].type.arrow_words}>"
        if self.encoding == "tuple":
            return f"struct<{', '.join(part.type.arrow_words for part in self.parts)}>"
        return str(self.arrow[0])


@dataclass(frozen=True)
class Part:
    """A value inside of an array or a tuple. ``nullable``: it may come as NULL, which an array has no room for: it
    then becomes an empty one. ``name`` is that of a tuple's element."""

    type: ColumnType
    nullable: bool
    name: str = ""


def sent_name(kind: ColumnType, nullable: bool) -> str:
    """The type as a block names it; the server converts where the destination's is wider."""
    return f"Nullable({kind.name})" if nullable and kind.encoding not in ("array", "tuple") else kind.name


def landed_name(kind: ColumnType, nullable: bool) -> str:
    """The type that a table of ours gets for it: as it is sent, but that an enum's labels are kept once."""
    if kind.encoding == "array":
        return f"Array({_landed(kind.parts[0])})"
    if kind.encoding == "tuple":
        return _tuple_name((part.name, _landed(part)) for part in kind.parts)
    name = sent_name(kind, nullable)
    return f"LowCardinality({name})" if kind.labels else name


def _landed(part: Part) -> str:
    return landed_name(part.type, part.nullable)


def _tuple_name(elements: Iterable[tuple[str, str]]) -> str:
    return f"Tuple({', '.join(f'{identifier(name)} {kind}' for name, kind in elements)})"


STRING = ColumnType("String", "string", (pa.string(), pa.binary()))
JSON = ColumnType("String", "string", (pa.string(), pa.binary()), json=True)
BOOL = ColumnType("Bool", "bool", (pa.bool_(),), 1)
UUID = ColumnType("UUID", "uuid", (pa.binary(16),), 16)
DATE = ColumnType("Date32", "date", (pa.date32(),), 4, limits=DATE_BOUNDS)
TIME = ColumnType("Time64(6)", "fixed", (pa.time64("us"),), 8)


def number_type(arrow: pa.DataType) -> ColumnType:
    """Int8 to Int64, UInt8 to UInt64, Float32, Float64, out of Arrow's type of the same bytes."""
    family = "Float" if pa.types.is_floating(arrow) else "Int" if pa.types.is_signed_integer(arrow) else "UInt"
    return ColumnType(f"{family}{arrow.bit_width}", "fixed", (arrow,), arrow.byte_width)


def decimal_width(precision: int) -> int:
    """Bytes of a ClickHouse Decimal: Int32, Int64, Int128 or Int256, by its digits."""
    return 4 if precision <= 9 else 8 if precision <= 18 else 16 if precision <= 38 else 32


def decimal_type(precision: int, scale: int) -> ColumnType:
    """Decimal(precision, scale), out of Arrow's decimal128 up to 38 digits, decimal256 above."""
    arrow = pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
    width = decimal_width(precision)
    return ColumnType(f"Decimal({precision}, {scale})", "decimal", (arrow,), width, precision, scale)


def timestamp_type(digits: int) -> ColumnType:
    """DateTime64(digits, 'UTC'), out of microseconds."""
    arrow = (pa.timestamp("us"), pa.timestamp("us", "UTC"))
    return ColumnType(f"DateTime64({digits}, 'UTC')", "timestamp", arrow, 8, scale=digits, limits=TIMESTAMP_BOUNDS)


def enum_type(labels: Iterable[str]) -> ColumnType:
    """An enum's labels as strings."""
    return ColumnType("String", "string", (pa.string(), pa.binary()), labels=tuple(labels))


def array_type(element: Part) -> ColumnType:
    """Array(element)."""
    return ColumnType(f"Array({sent_name(element.type, element.nullable)})", "array", parts=(element,))


def tuple_type(parts: Iterable[Part]) -> ColumnType:
    """Tuple(name element, …)."""
    elements = tuple(parts)
    name = _tuple_name((part.name, sent_name(part.type, part.nullable)) for part in elements)
    return ColumnType(name, "tuple", parts=elements)


META_TYPES: tuple[tuple[str, ColumnType], ...] = (
    ("_lsn", number_type(pa.uint64())),
    ("_xid", number_type(pa.uint32())),
    ("_commit_ts", timestamp_type(6)),
    ("_is_deleted", BOOL),
)
"""The four columns after a table's own, in META_FIELDS' order."""
