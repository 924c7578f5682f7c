"""What `walshadow verify` compares: one canonical text per value, written for both sides in one table.

Each entry gives the Postgres expression and the ClickHouse expression that print the same text for the same
value, with ``{c}`` for the quoted column. For types with values that ClickHouse can't hold it also gives the Postgres
condition that is true for those, and what the ``clamp`` policy makes of them. The source's session settings are
pinned (``SOURCE_SETTINGS``), so that nobody's defaults matter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from walshadow_core.api import ColumnPlan, TableRefused
from walshadow_sink_clickhouse.quoting import identifier, literal

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


@dataclass(frozen=True)
class Canonical:
    """One type's expressions. ``beyond`` is a Postgres condition for values that ClickHouse can't hold,
    ``clamped`` the Postgres expression of what ``clamp`` makes of a value."""

    postgres: str
    clickhouse: str
    beyond: str | None = None
    clamped: str | None = None


def _text() -> Canonical:
    # concat() prints what the type's output function gives; a cast would cut the padding of bpchar.
    return Canonical("concat({c})", "toString({c})")


def _integer() -> Canonical:
    return Canonical("{c}::text", "toString({c})")


def _float(function: str, bits: int) -> Canonical:
    # The destination's may be wider by hand: cut back to the source's bits, which loses nothing.
    return Canonical(
        f"encode({function}({{c}}), 'hex')",
        f"leftPad(lower(hex(reinterpretAsUInt{bits}(toFloat{bits}({{c}})))), {bits // 4}, '0')",
    )


_LAST_NANOSECOND, _LAST = "2262-04-11 23:47:16.854775", "2299-12-31 23:59:59.999999"


def _moment(kind: str, digits: int, landed_digits: int) -> Canonical:
    """A timestamp with ``digits`` of a second, in a DateTime64 with ``landed_digits``; nanoseconds end in 2262. The
    bound is cut, not rounded, to the digits that are sent."""
    last = _LAST_NANOSECOND if landed_digits == 9 else _LAST
    cut = last[: len(last) - (6 - digits)].rstrip(".")
    low, high = f"{kind} '1900-01-01 00:00:00'", f"{kind} '{cut}'"
    return Canonical(
        "(extract(epoch from {c}) * 1000000)::bigint::text",
        "toString(toUnixTimestamp64Micro({c}))",
        beyond=f"({{c}} < {low} or {{c}} > {high})",
        clamped=f"least(greatest({{c}}, {low}), {high})",
    )


_LOW_DATE, _HIGH_DATE = "date '1900-01-01'", "date '2299-12-31'"

CANONICAL: Mapping[int, Canonical] = {
    16: Canonical("{c}::int::text", "toString(toUInt8({c}))"),  # bool
    17: Canonical("encode({c}, 'hex')", "lower(hex({c}))"),  # bytea
    18: Canonical("encode(charsend({c}), 'hex')", "leftPad(lower(hex(reinterpretAsUInt8({c}))), 2, '0')"),  # "char"
    19: _text(),  # name
    20: _integer(),  # int8
    21: _integer(),  # int2
    23: _integer(),  # int4
    25: _text(),  # text
    26: _integer(),  # oid
    114: _text(),  # json
    700: _float("float4send", 32),
    701: _float("float8send", 64),
    1042: _text(),  # bpchar
    1043: _text(),  # varchar
    1082: Canonical(  # date
        "({c} - date '1970-01-01')::text",
        "toString(toInt32({c}))",
        beyond=f"({{c}} < {_LOW_DATE} or {{c}} > {_HIGH_DATE})",
        clamped=f"least(greatest({{c}}, {_LOW_DATE}), {_HIGH_DATE})",
    ),
    1083: Canonical(  # time
        "trim_scale(extract(epoch from {c}))::text", "toString(toDecimal64({c}, 6))"
    ),
    1186: _text(),  # interval
    1266: _text(),  # timetz
    2950: Canonical("{c}::text", "toString({c})"),  # uuid
}
"""By type oid (``catalog/pg_type.dat``). Those whose expressions depend on where they land follow."""

NUMERIC = 1700
MOMENTS: Mapping[int, str] = {1114: "timestamp", 1184: "timestamptz"}
NUMERIC_AS_DECIMAL = Canonical(
    "trim_scale({c})::text", "toString({c})", beyond="({c} = 'NaN')", clamped="nullif({c}, 'NaN')"
)
NUMERIC_AS_TEXT = _text()


def canonical_of(column: ColumnPlan) -> Canonical:
    """The entry for one column. Raises TableRefused for a type that is not in the table."""
    attribute = column.attribute
    if attribute.type_oid == NUMERIC:
        return NUMERIC_AS_DECIMAL if "Decimal" in column.type else NUMERIC_AS_TEXT
    if attribute.type_oid in MOMENTS:
        found = re.search(r"DateTime64\((\d)", column.type)
        digits = attribute.typmod if 0 <= attribute.typmod <= 6 else 6
        return _moment(MOMENTS[attribute.type_oid], digits, int(found[1]) if found else 0)
    try:
        return CANONICAL[attribute.type_oid]
    except KeyError:
        raise TableRefused(f"column {attribute.name} of type {attribute.type_name} can't be compared yet") from None


def quote_postgres(name: str) -> str:
    """An identifier for Postgres."""
    return '"' + name.replace('"', '""') + '"'


def source_value(column: ColumnPlan, policy: str) -> str:
    """The Postgres expression of one value's canonical text, after what ``policy`` does; NULL stays NULL."""
    entry = canonical_of(column)
    name = quote_postgres(column.attribute.name)
    value = name
    if entry.beyond is not None and policy == "null":
        value = f"case when not {entry.beyond.replace('{c}', name)} then {name} end"
    elif entry.clamped is not None and policy == "clamp":
        value = f"case when {name} is not null then {entry.clamped.replace('{c}', name)} end"
    text = entry.postgres.replace("{c}", f"({value})")
    if entry.beyond is not None and policy == "error":
        # No load lets such a value through: it is printed as no other value is, and so differs.
        text = f"case when {entry.beyond.replace('{c}', name)} then concat('beyond ', {name}) else {text} end"
    return f"case when ({value}) is not null then {text} end"


def destination_value(column: ColumnPlan) -> str:
    """The ClickHouse expression of one value's canonical text; NULL stays NULL."""
    return canonical_of(column).clickhouse.replace("{c}", identifier(column.name))


def source_row(values: Sequence[str], encoding: str) -> str:
    """The Postgres expression that joins canonical texts to one, each with its length before it, N for NULL.
    ``encoding`` is the one that lengths are counted in: the database may have another than UTF-8."""
    parts = [f"coalesce(octet_length(convert_to({v}, '{encoding}')) || ':' || ({v}), 'N')" for v in values]
    return _joined(parts, "''")


def destination_row(values: Sequence[str]) -> str:
    """The ClickHouse expression of the same."""
    parts = [f"ifNull(concat(toString(length({v})), ':', {v}), 'N')" for v in values]
    return _joined(parts, "''")


def _joined(parts: Sequence[str], empty: str) -> str:
    # A function takes at most 100 arguments in Postgres; || has no such limit, and both sides have it.
    return " || ".join(parts) if parts else empty


def beyond_condition(column: ColumnPlan) -> str | None:
    """The Postgres condition for values of this column that ClickHouse can't hold."""
    beyond = canonical_of(column).beyond
    return None if beyond is None else beyond.replace("{c}", quote_postgres(column.attribute.name))


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
