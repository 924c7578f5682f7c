"""What `walshadow verify` compares: the form (forms.py) of every type, and the parts of both sides' queries.

The source's session settings are pinned (``SOURCE_SETTINGS``), so that nobody's defaults matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from walshadow_core.api import HEX, ColumnPlan, PgType
from walshadow_sink_clickhouse.forms import (
    Asked,
    Form,
    List,
    Record,
    Single,
    place,
    quote_postgres,
)
from walshadow_sink_clickhouse.pgtypes import (
    INT2VECTOR,
    NUMERIC,
    OIDS,
    OIDVECTOR,
    TIMESTAMP,
    TIMESTAMPTZ,
    live_fields,
    timestamp_digits,
    type_of,
    undressed,
)
from walshadow_sink_clickhouse.quoting import identifier, literal
from walshadow_sink_clickhouse.typenames import TypeName, parse_type

SOURCE_SETTINGS: Mapping[str, str] = {
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "timezone": "UTC",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "search_path": "pg_catalog",
    "standard_conforming_strings": "on",
    # A policy that hides rows from this role is an error, not a difference.
    "row_security": "off",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "transaction_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}
"""Settings of the source session; one that its version does not have (transaction_timeout before 17) is left out."""


class NotComparable(Exception):
    """Why a column's values can't be compared."""


# concat() prints what the type's output function gives; a cast would cut the padding of bpchar.
_TEXT = Single("concat({c})", "toString({c})")
# A composite whose fields are all NULL "is null", and is not.
_RECORD = replace(_TEXT, present="num_nulls({c}) = 0")
_INTEGER = Single("{c}::text", "toString({c})")
_OID = Single("{c}::oid::text", "toString({c})")


def _float(function: str, bits: int) -> Single:
    # The destination's may be wider by hand: cut back to the source's bits, which loses nothing.
    return Single(
        f"encode({function}({{c}}), 'hex')",
        f"leftPad(lower(hex(reinterpretAsUInt{bits}(toFloat{bits}({{c}})))), {bits // 4}, '0')",
    )


_LAST_NANOSECOND, _LAST = "2262-04-11 23:47:16.854775", "2299-12-31 23:59:59.999999"


def _moment(kind: str, digits: int, landed_digits: int) -> Single:
    """A timestamp with ``digits`` of a second, in a DateTime64 with ``landed_digits``; nanoseconds end in 2262. The
    bound is cut, not rounded, to the digits that are sent."""
    last = _LAST_NANOSECOND if landed_digits == 9 else _LAST
    cut = last[: len(last) - (6 - digits)].rstrip(".")
    low, high = f"{kind} '1900-01-01 00:00:00'", f"{kind} '{cut}'"
    return Single(
        "(extract(epoch from {c}) * 1000000)::bigint::text",
        "toString(toUnixTimestamp64Micro({c}))",
        out_of_range=f"({{c}} < {low} or {{c}} > {high})",
        clamped=f"least(greatest({{c}}, {low}), {high})",
    )


_LOW_DATE, _HIGH_DATE = "date '1900-01-01'", "date '2299-12-31'"
_FLOAT4, _FLOAT8 = _float("float4send", 32), _float("float8send", 64)

_BY_OID: Mapping[int, Form] = {
    16: Single("{c}::int::text", "toString(toUInt8({c}))"),  # bool
    17: Single("encode({c}, 'hex')", "lower(hex({c}))"),  # bytea
    18: Single("encode(charsend({c}), 'hex')", "leftPad(lower(hex(reinterpretAsUInt8({c}))), 2, '0')"),  # "char"
    20: _INTEGER,  # int8
    21: _INTEGER,  # int2
    23: _INTEGER,  # int4
    26: _INTEGER,  # oid
    28: _INTEGER,  # xid
    29: _INTEGER,  # cid
    700: _FLOAT4,
    701: _FLOAT8,
    790: Single("trim_scale({c}::numeric)::text", "toString({c})"),  # money
    1082: Single(  # date
        "({c} - date '1970-01-01')::text",
        "toString(toInt32({c}))",
        out_of_range=f"({{c}} < {_LOW_DATE} or {{c}} > {_HIGH_DATE})",
        clamped=f"least(greatest({{c}}, {_LOW_DATE}), {_HIGH_DATE})",
    ),
    1083: Single("trim_scale(extract(epoch from {c}))::text", "toString(toDecimal64({c}, 6))"),  # time
    2950: Single("{c}::text", "toString({c})"),  # uuid
    5069: _INTEGER,  # xid8
    INT2VECTOR: List(_INTEGER, cast="::int2[]"),
    OIDVECTOR: List(_INTEGER, cast="::oid[]"),
    **dict.fromkeys(OIDS, _OID),
}
"""By type oid (``catalog/pg_type.dat``); others are text on both sides, or depend on where they land."""

_FLOATS = List(_FLOAT4, cast="::real[]")
_BOOL = 16
_CAST = Single("{c}::text", "toString({c})")
"""Of a bool, whose cast to text prints another than its output function."""
_BY_NAME: Mapping[str, Form] = {"vector": _FLOATS, "halfvec": _FLOATS}
_MOMENTS: Mapping[int, str] = {TIMESTAMP: "timestamp", TIMESTAMPTZ: "timestamptz"}
_DECIMAL = Single("trim_scale({c})::text", "toString({c})", out_of_range="({c} = 'NaN')", clamped="nullif({c}, 'NaN')")


def form_of(column: ColumnPlan) -> Form:
    """How the values of one column are printed. Raises NotComparable."""
    if column.form == HEX:
        raise NotComparable("nothing at the source prints the bytes that are stored")
    landed = parse_type(column.type)
    attribute = column.attribute
    if column.form == "text":
        return _text(undressed(type_of(attribute), -1, 0)[0])
    return _form(type_of(attribute), attribute.typmod, attribute.dimensions, landed)


def _text(pg: PgType) -> Form:
    if pg.oid == _BOOL:
        return _CAST
    if pg.oid in OIDS:
        return _OID
    if _has_names(pg):
        raise NotComparable("there are oids in it, for which the source prints names")
    return _RECORD if pg.kind == "c" else _TEXT


def _has_names(pg: PgType) -> bool:
    """Whether values of a type print names for oids, somewhere inside of them."""
    pg = undressed(pg, -1, 0)[0]
    inner = [type_of(field) for field in live_fields(pg)] + [t for t in (pg.element, pg.subtype, pg.range) if t]
    return pg.oid in OIDS or any(_has_names(t) for t in inner)


def _form(pg: PgType, typmod: int, dimensions: int, landed: TypeName) -> Form:
    pg, typmod, dimensions = undressed(pg, typmod, dimensions)
    bare = landed.bare
    if pg.codec is not None:
        raise NotComparable(f"a plugin decodes its type {pg.name}")
    if bare.name == "JSON":
        raise NotComparable("the JSON type does not keep the text")
    if pg.oid in _BY_OID:
        return _BY_OID[pg.oid]
    if pg.element is not None:
        depth = max(dimensions, 1)
        for _ in range(depth):
            bare = bare.bare.parts[0]
        element = _form(pg.element, typmod, 0, bare)
        assert isinstance(element, Single), "what has parts is no element of an Array"
        return List(element, depth)
    if pg.kind == "c":
        fields = live_fields(pg)
        names = bare.names or (None,) * len(fields)
        parts = dict(zip(bare.names or (f.name for f in fields), bare.parts, strict=True))
        return Record([
            (f.name, place(f.name if names[i] is not None else None, i + 1),
             _form(type_of(f), f.typmod, f.dimensions, parts[f.name]))
            for i, f in enumerate(fields)
        ])  # fmt: skip
    if pg.kind == "b" and pg.schema != "pg_catalog":
        return _BY_NAME.get(pg.name, _TEXT)
    if pg.oid in _MOMENTS:
        digits = int(bare.words[0]) if bare.name == "DateTime64" else 0
        return _moment(_MOMENTS[pg.oid], timestamp_digits(typmod), digits)
    return _DECIMAL if pg.oid == NUMERIC and bare.name == "Decimal" else _TEXT


def beyond_comparison(column: ColumnPlan) -> str | None:
    """Why a column can't be compared, None if it can."""
    try:
        form_of(column)
    except NotComparable as error:
        return str(error)
    return None


def source_value(column: ColumnPlan, asked: Asked) -> str:
    """The Postgres expression of one value's canonical text, after what the policy does."""
    return form_of(column).source(quote_postgres(column.attribute.name), asked)


def destination_value(column: ColumnPlan) -> str:
    """The ClickHouse expression of one value's canonical text."""
    return form_of(column).destination(identifier(column.name))


def adjusted_condition(column: ColumnPlan, policy: str) -> str | None:
    """The Postgres condition for values of this column that a load changes: those that the policy does, and NULL
    where only an array can be."""
    name = quote_postgres(column.attribute.name)
    form = form_of(column)
    beyond = form.beyond(name) if policy != "error" else None
    empties = f"{name} is null" if isinstance(form, List) and not column.attribute.not_null else None
    return " or ".join(c for c in (empties, beyond) if c is not None) or None


def key_columns(columns: Sequence[ColumnPlan], key: Sequence[int]) -> tuple[ColumnPlan, ...]:
    """The columns of the key in index order; all of them for a table without one."""
    by_number: Mapping[int, ColumnPlan] = {c.attribute.number: c for c in columns}
    return tuple(by_number[n] for n in key) or tuple(columns)


_LABEL_COLUMNS, _LABEL_LENGTH = 8, 60


def source_label(columns: Sequence[ColumnPlan]) -> str:
    """The Postgres expression of a printable key."""
    parts = [
        f"{_postgres_literal(c.attribute.name + '=')} || "
        f"case when {name} is null then 'NULL' else left(concat({name}), {_LABEL_LENGTH}) end"
        for c in columns[:_LABEL_COLUMNS]
        for name in (quote_postgres(c.attribute.name),)
    ]
    return " || ', ' || ".join(parts) if parts else "''"


def destination_label(columns: Sequence[ColumnPlan]) -> str:
    """The ClickHouse expression of a printable key."""
    parts = [
        f"concat({literal(c.name + '=')}, ifNull(leftUTF8(toString({identifier(c.name)}), {_LABEL_LENGTH}), 'NULL'))"
        for c in columns[:_LABEL_COLUMNS]
    ]
    return " || ', ' || ".join(parts) if parts else "''"


def _postgres_literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
