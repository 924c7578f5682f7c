"""The types that the contract of a destination tries, with values, as the decoder gives them."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from walshadow_core.api import (
    DATE_INFINITY,
    DATE_NEG_INFINITY,
    DECIMAL_NAN_128,
    DECIMAL_NAN_256,
    TIMESTAMP_INFINITY,
    TIMESTAMP_NEG_INFINITY,
    Attribute,
    PgType,
    TablePlan,
)


@dataclass(frozen=True)
class TypeCase:
    """One type that the decoder gives: Postgres's name, oid and typmod, Arrow's type, and values; ``texts`` are these
    as the type's output function prints them, for a destination that wants them so. ``type`` is given where the oid
    does not tell. ``not_null`` is the column's."""

    name: str
    oid: int
    typmod: int
    arrow: pa.DataType
    values: tuple[Any, ...]
    texts: tuple[str, ...] = ()
    type: PgType | None = None
    dimensions: int = 0
    not_null: bool = False

    @property
    def column(self) -> str:
        """A name for a column of this type."""
        return "c_" + "".join(c if c.isalnum() else "_" for c in self.name)

    def as_wanted(self, plan: TablePlan) -> TypeCase:
        """The case in the form that the plan wants for its column."""
        form = next(c.form for c in plan.columns if c.name == self.column)
        return self if form == "own" else replace(self, arrow=pa.string(), values=self.texts)


def numeric_typmod(precision: int, scale: int) -> int:
    """The typmod of numeric(precision, scale)."""
    return (precision << 16 | scale & 0x7FF) + 4


def _utc(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC)  # type: ignore[misc,arg-type]


_TEXTS = ("", "a", "naïve ☃ 𝄞", "quote ' \" ` \\ \t\n", "x" * 127, "y" * 128, "z" * 20_000)

INT4 = PgType(23, "pg_catalog", "int4", "b", 4, "i", True)
TEXT = PgType(25, "pg_catalog", "text", "b", -1, "i", False)


def _user(oid: int, name: str, kind: str, **facts: Any) -> PgType:
    """A varlena type; one that is not Postgres's own is in a schema of the user's."""
    return PgType(oid, "app" if oid >= 16384 else "pg_catalog", name, kind, -1, "i", False, **facts)


MOOD = _user(16400, "mood", "e", labels=((16401, "sad"), (16399, "naïve 'ok'"), (16398, "")))
AMOUNT = _user(16402, "amount", "d", base=INT4)
PAIR = _user(
    16410,
    "pair",
    "c",
    fields=(
        Attribute(1, "n", 23, "integer", -1, 4, "i", True, "p", False, type=INT4),
        Attribute(2, "........pg.dropped.2........", 0, "-", -1, 4, "i", True, "p", False, dropped=True),
        Attribute(3, "a `b\\", 25, "text", -1, -1, "i", False, "x", False, type=TEXT),
        Attribute(
            4, "list", 1007, "integer[]", -1, -1, "i", False, "x", False, dimensions=1,
            type=_user(1007, "_int4", "b", element=INT4),
        ),
    ),
)  # fmt: skip
PAIR_ARROW = pa.struct([("n", pa.int32()), ("a `b\\", pa.string()), ("list", pa.list_(pa.int32()))])

TYPES: tuple[TypeCase, ...] = (
    TypeCase("boolean", 16, -1, pa.bool_(), (True, False)),
    TypeCase('"char"', 18, -1, pa.int8(), (0, 127, -128)),
    TypeCase("smallint", 21, -1, pa.int16(), (0, 2**15 - 1, -(2**15))),
    TypeCase("integer", 23, -1, pa.int32(), (0, 2**31 - 1, -(2**31))),
    TypeCase("bigint", 20, -1, pa.int64(), (0, 2**63 - 1, -(2**63))),
    TypeCase("oid", 26, -1, pa.uint32(), (0, 2**32 - 1)),
    TypeCase("real", 700, -1, pa.float32(), (0.0, 1.5, math.inf, -math.inf, math.nan)),
    TypeCase("double precision", 701, -1, pa.float64(), (0.0, 5e-324, 1.7e308, math.inf, -math.inf, math.nan)),
    TypeCase("numeric", 1700, -1, pa.string(), ("0", "NaN", "-1.500", "Infinity", "9" * 100)),
    *(
        TypeCase(
            f"numeric({p},{s})",
            1700,
            numeric_typmod(p, s),
            pa.decimal128(p, s) if p <= 38 else pa.decimal256(p, s),
            tuple(
                decimal.Decimal(sign * n).scaleb(-s, decimal.Context(100))
                for sign in (1, -1)
                for n in (0, 1, 10**p - 1)
            ),
        )
        for p, s in ((9, 2), (12, 2), (18, 18), (19, 0), (38, 10), (39, 5), (76, 30))
    ),
    TypeCase("text", 25, -1, pa.string(), _TEXTS),
    TypeCase("character varying(30000)", 1043, 30004, pa.string(), _TEXTS),
    TypeCase("character(5)", 1042, 9, pa.string(), ("abc  ", "     ")),
    TypeCase("name", 19, -1, pa.string(), ("pg_class",)),
    TypeCase("json", 114, -1, pa.string(), ('{"a": [1, 2,  3]}', "null")),
    TypeCase("bytea", 17, -1, pa.binary(), (b"", b"\x00\xff", bytes(range(256)))),
    TypeCase("date", 1082, -1, pa.date32(), (dt.date(1970, 1, 1), dt.date(1900, 1, 1), dt.date(2299, 12, 31))),
    TypeCase("time", 1083, -1, pa.time64("us"), (dt.time(0), dt.time(23, 59, 59, 999999))),
    TypeCase("time with time zone", 1266, -1, pa.string(), ("23:59:59.999999+02",)),
    TypeCase("interval", 1186, -1, pa.string(), ("1 year 2 mons -3 days +04:05:06.7",)),
    TypeCase(
        "timestamp",
        1114,
        -1,
        pa.timestamp("us"),
        (dt.datetime(1970, 1, 1), dt.datetime(1900, 1, 1, 0, 0, 0, 1), dt.datetime(2299, 12, 31, 23, 59, 59, 999999)),
    ),
    TypeCase("timestamp(3)", 1114, 3, pa.timestamp("us"), (dt.datetime(1969, 12, 31, 23, 59, 59, 999000),)),
    TypeCase("timestamptz", 1184, -1, pa.timestamp("us", "UTC"), (_utc(1970, 1, 1), _utc(2024, 2, 29, 1, 2, 3, 4))),
    TypeCase("timestamptz(0)", 1184, 0, pa.timestamp("us", "UTC"), (_utc(1950, 1, 1, 0, 0, 1),)),
    TypeCase("uuid", 2950, -1, pa.binary(16), (bytes(16), bytes(range(16)), b"\xff" * 16)),
    TypeCase("money", 790, -1, pa.decimal128(19, 2), (decimal.Decimal("-92233720368547758.08"),)),
    TypeCase("xid8", 5069, -1, pa.uint64(), (0, 2**64 - 1)),
    TypeCase("regclass", 2205, -1, pa.uint32(), (1259,)),
    TypeCase("jsonb", 3802, -1, pa.string(), ('{"a": [1, null]}', "[]", "null")),
    TypeCase("inet", 869, -1, pa.string(), ("10.0.0.1", "::1/64")),
    TypeCase("app.mood", 16400, -1, pa.string(), ("sad", "naïve 'ok'", ""), type=MOOD),
    TypeCase("app.amount", 16402, -1, pa.int32(), (-7,), type=AMOUNT),
    TypeCase("int4range", 3904, -1, pa.string(), ("[1,5)", "empty"), type=_user(3904, "int4range", "r", subtype=INT4)),
    TypeCase("hstore", 16404, -1, pa.string(), ('"a"=>NULL',), type=_user(16404, "hstore", "b")),
    TypeCase(
        "vector(2)", 16406, 2, pa.list_(pa.float32()), ([0.5, -1.5], []), ("[0.5,-1.5]", "[]"),
        _user(16406, "vector", "b"), 0, True,
    ),
    TypeCase("int2vector", 22, -1, pa.list_(pa.int16()), ([1, 2], []), not_null=True),
    TypeCase(
        "integer[]", 1007, -1, pa.list_(pa.int32()), ([], [1, None, -(2**31)], [None]), ("{}", "{1,NULL,-1}", "{NULL}"),
        _user(1007, "_int4", "b", element=INT4), 1, True,
    ),
    TypeCase(
        "text[]", 1009, -1, pa.list_(pa.string()), (["a", None, ""], [], ["é" * 200]), ("{a,NULL,\"\"}", "{}", "{b}"),
        _user(1009, "_text", "b", element=TEXT), 0, True,
    ),
    TypeCase(
        "boolean[]", 1000, -1, pa.list_(pa.bool_()), ([True, None], [False] * 9), ("{t,NULL}", "{f}"),
        _user(1000, "_bool", "b", element=PgType(16, "pg_catalog", "bool", "b", 1, "c", True)), 1, True,
    ),
    TypeCase(
        "numeric(12,2)[]", 1231, numeric_typmod(12, 2), pa.list_(pa.decimal128(12, 2)),
        ([decimal.Decimal("-9999999999.99"), None],), ("{-9999999999.99,NULL}",),
        _user(1231, "_numeric", "b", element=PgType(1700, "pg_catalog", "numeric", "b", -1, "i", False)), 1, True,
    ),
    TypeCase(
        "timestamp[]", 1115, -1, pa.list_(pa.timestamp("us")), ([dt.datetime(1970, 1, 1, 0, 0, 1), None],),
        ("{\"1970-01-01 00:00:01\",NULL}",),
        _user(1115, "_timestamp", "b", element=PgType(1114, "pg_catalog", "timestamp", "b", 8, "d", True)), 1, True,
    ),
    TypeCase(
        "integer[][]", 1007, -1, pa.list_(pa.list_(pa.int32())), ([[1, None], [3, 4]], [], [[5]]),
        ("{{1,NULL},{3,4}}", "{}", "{{5}}"), _user(1007, "_int4", "b", element=INT4), 2, True,
    ),
    TypeCase(
        "app.mood[]", 16408, -1, pa.list_(pa.string()), (["sad", None], ["sad", "sad"]), ("{sad,NULL}", "{sad,sad}"),
        _user(16408, "_mood", "b", element=MOOD), 1, True,
    ),
    TypeCase(
        "app.pair", 16410, -1, PAIR_ARROW,
        ({"n": 1, "a `b\\": "x", "list": [1, None]}, {"n": None, "a `b\\": None, "list": []}),
        ("(1,x,\"{1,NULL}\")", "(,,{})"), PAIR, 0, True,
    ),
    TypeCase("app.pair, or NULL", 16410, -1, PAIR_ARROW,
        ({"n": 1, "a `b\\": "x", "list": [1]},), ("(1,x,{1})",), PAIR),
    TypeCase(
        "app.pair[]", 16412, -1, pa.list_(PAIR_ARROW), ([{"n": 1, "a `b\\": "x", "list": [1]}],), ("{\"(1,x,{1})\"}",),
        _user(16412, "_pair", "b", element=PAIR), 1, True,
    ),
)  # fmt: skip
"""Every Arrow type of the decoder, with values that Postgres has and every destination should hold."""

SENTINELS: tuple[TypeCase, ...] = (
    TypeCase("date", 1082, -1, pa.date32(), (DATE_INFINITY, DATE_NEG_INFINITY)),
    TypeCase("timestamp", 1114, -1, pa.timestamp("us"), (TIMESTAMP_INFINITY, TIMESTAMP_NEG_INFINITY)),
    TypeCase("numeric(12,2)", 1700, numeric_typmod(12, 2), pa.decimal128(12, 2), (DECIMAL_NAN_128,)),
    TypeCase("numeric(50,2)", 1700, numeric_typmod(50, 2), pa.decimal256(50, 2), (DECIMAL_NAN_256,)),
)
"""Raw values (api: Values that Postgres has and Arrow has no room for)."""
