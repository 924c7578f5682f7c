"""Type names are read and printed; what holds what; what a user may choose."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from walshadow_sink_clickhouse.typenames import BadTypeName, TypeName, parse_type

from walshadow_core.api import HEX, Attribute, ColumnChoice, PgType, TableRefused, TypeCodec
from walshadow_core.testing.destination_contract import TYPES, TypeCase, make_batch, make_relation, numeric_typmod
from walshadow_core.testing.type_cases import INT4, PAIR


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("array(nullable(decimal(12,2)))", "Array(Nullable(Decimal(12, 2)))"),
        ("Decimal64( 4 )", "Decimal(18, 4)"),
        ("Decimal(5)", "Decimal(5, 0)"),
        ("Enum8('a\\'b'=1,'c,)' = -2)", "Enum8('a\\'b' = 1, 'c,)' = -2)"),
        ("Enum('a','b''c')", "Enum('a', 'b\\'c')"),
        ("Tuple(`a b` Nullable(Int8),c String)", "Tuple(`a b` Nullable(Int8), `c` String)"),
        ("Tuple(Int8,Array(String))", "Tuple(Int8, Array(String))"),
        ("JSON(max_dynamic_paths=3, a.b UInt32, SKIP REGEXP 'x,)')",) * 2,
        ("AggregateFunction(sum, Array(UInt64))",) * 2,
        ("DateTime64(6,'UTC')", "DateTime64(6, 'UTC')"),
        ("LowCardinality(Nullable(String))",) * 2,
        ("Tuple(null Int8)", "Tuple(`null` Int8)"),
    ],
)
def test_type_names(text: str, printed: str) -> None:
    assert str(parse_type(text)) == printed
    assert str(parse_type(printed)) == printed


@pytest.mark.parametrize(
    "text",
    ["", "Array", "Array(", "String)", "Enum8()", "Enum8('a'=1,'b')", "Decimal(", "Tuple(a Int8, String)", "Decimal64",
     "Nullable(A,B)", "'x'", "String String", "Array(String", "Enum8(a)"],
)  # fmt: skip
def test_texts_that_are_no_type_names(text: str) -> None:
    with pytest.raises(BadTypeName, match="is no ClickHouse type"):
        parse_type(text)


@given(st.text(alphabet="()`'\\, =a1-", max_size=20))
def test_any_text_is_a_type_name_or_is_not(text: str) -> None:
    try:
        found = parse_type(text)
    except BadTypeName:
        return
    assert parse_type(str(found)) == found


def test_the_shape_of_a_type_name() -> None:
    wrapped = parse_type("LowCardinality(Nullable(String))")
    assert wrapped.nullable and wrapped.low_cardinality and wrapped.bare == TypeName("String")
    assert (
        parse_type("Array(Nullable(Int8))").plain == "Array(Int8)" and not parse_type("Array(Nullable(Int8))").nullable
    )


CASES = {case.name: case for case in TYPES}
LABELS = "'sad' = 1, 'naïve \\'ok\\'' = 2, '' = 3"

HOLD: list[tuple[str, str, str, str]] = [
    ("numeric(12,2)", "Decimal(38,4)", "Nullable(Decimal(38, 4))", "own"),
    ("numeric(12,2)", "String", "Nullable(String)", "text"),
    ("numeric(12,2)", "Decimal128(4)", "Nullable(Decimal(38, 4))", "own"),
    ("numeric", "String", "Nullable(String)", "own"),
    ("integer", "Int64", "Nullable(Int64)", "own"),
    ("integer", "int256", "Nullable(Int256)", "own"),
    ("integer", "Decimal(12,2)", "Nullable(Decimal(12, 2))", "own"),
    ("integer", "LowCardinality(String)", "LowCardinality(Nullable(String))", "text"),
    ("integer", "hex", "Nullable(String)", "hex"),
    ("money", "Decimal(38,2)", "Nullable(Decimal(38, 2))", "own"),
    ("text", "LowCardinality(Nullable(String))", "LowCardinality(Nullable(String))", "own"),
    ("bytea", "String", "Nullable(String)", "own"),
    ("timestamp(3)", "DateTime64(3)", "Nullable(DateTime64(3))", "own"),
    ("timestamp", "DateTime64(8, 'Europe/Berlin')", "Nullable(DateTime64(8, 'Europe/Berlin'))", "own"),
    ("jsonb", "JSON", "Nullable(JSON)", "own"),
    ("json", "JSON(max_dynamic_paths=3)", "Nullable(JSON(max_dynamic_paths=3))", "own"),
    ("app.mood", f"Enum8({LABELS})", f"Nullable(Enum8({LABELS}))", "own"),
    ("app.mood", "String", "Nullable(String)", "own"),
    ("app.amount", "Int64", "Nullable(Int64)", "own"),
    ("integer[]", "Array(Nullable(Int64))", "Array(Nullable(Int64))", "own"),
    ("integer[]", "Array(Int32)", "Array(Int32)", "own"),
    ("integer[]", "String", "String", "text"),
    ("app.mood[]", "Array(String)", "Array(String)", "own"),
    ("integer[][]", "Array(Array(Nullable(Int32)))", "Array(Array(Nullable(Int32)))", "own"),
    ("vector(2)", "Array(Float64)", "Array(Float64)", "own"),
    ("app.pair", "Tuple(list Array(Int32), n Nullable(Int64), `a ``b\\\\` String)",
     "Tuple(`list` Array(Int32), `n` Nullable(Int64), `a \\`b\\\\` String)", "own"),
    ("app.pair", "Tuple(Int32, String, Array(Nullable(Int32)))", "Tuple(Int32, String, Array(Nullable(Int32)))", "own"),
    ("app.pair", "String", "String", "text"),
    ("app.pair, or NULL", "String", "Nullable(String)", "text"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "chosen", "landed", "form"), HOLD)
def test_types_that_hold(embedded: Any, name: str, chosen: str, landed: str, form: str) -> None:
    """The plan has the chosen type, the engine makes the table, and takes the values."""
    destination = embedded()
    case = CASES[name]
    column = case.column
    plan = destination.plan(make_relation([case]), "t", choices={column: ColumnChoice(chosen)})
    assert (plan.columns[1].type, plan.columns[1].form) == (landed, form)
    writer = destination.create_staging(plan)
    firm = "Nullable" not in landed and case.arrow == pa.list_(pa.int32())
    values = [[1, 2], []] if firm else list(case.values)
    if name == "app.pair":
        values = [{"n": 1, "a `b\\": "x", "list": [1]}]
    if name == "app.mood[]":
        values = [["sad"]]
    if chosen.startswith("JSON"):
        values = ['{"a": 1}']
    arrow = case.arrow if form == "own" else pa.string()
    array = pa.array(values if form == "own" else ["x"], arrow)
    writer.write(make_batch([("id", pa.array(range(len(array)), pa.int64())), (column, array)]))
    writer.finish()
    assert not any(writer.stats.adjusted.values())
    destination.rename(plan.staging, "t")
    again = destination.plan(make_relation([case]), "t", choices={column: ColumnChoice(chosen)})
    assert again.exists and again.columns[1].form == form
    destination.close()


REFUSED: list[tuple[str, str, str]] = [
    ("bigint", "Int32", "Int32 does not hold bigint (Int64)"),
    ("bigint", "UInt64", "UInt64 does not hold bigint (Int64)"),
    ("bigint", "Decimal(18,0)", "Decimal(18, 0) does not hold bigint (Int64)"),
    ("integer", "Float64", "Float64 does not hold integer (Int32)"),
    ("integer", "LowCardinality(Int32)", "LowCardinality is for String alone here"),
    ("numeric(12,2)", "Decimal(11,2)", "Decimal(11, 2) does not hold numeric(12,2) (Decimal(12, 2))"),
    ("numeric(12,2)", "Decimal(13,1)", "Decimal(13, 1) does not hold numeric(12,2)"),
    ("numeric", "Decimal(38,4)", "Decimal(38, 4) does not hold numeric (String); a numeric without precision may have"),
    ("text", "FixedString(5)", "FixedString(5) does not hold text (String)"),
    ("text", "JSON", "JSON does not hold text (String)"),
    ("timestamp", "DateTime64(3)", "DateTime64(3) does not hold timestamp (DateTime64(6, 'UTC'))"),
    ("timestamp", "DateTime", "DateTime does not hold timestamp"),
    ("date", "Date", "Date does not hold date (Date32)"),
    ("app.mood", "Enum8('sad' = 1)", "Enum8('sad' = 1) does not hold app.mood"),
    ("text", "Enum8('a' = 1)", "does not hold text"),
    ("integer[]", "Array(Nullable(Int16))", "Array(Nullable(Int16)) does not hold integer[] (Array(Nullable(Int32)))"),
    ("integer[]", "Array(Array(Int32))", "does not hold integer[]"),
    ("integer[]", "Int32", "Int32 does not hold integer[]"),
    ("app.pair", "Tuple(n Int32)", "does not hold app.pair"),
    ("app.pair", "Tuple(n Int32, other String, list Array(Int32))", "does not hold app.pair"),
    ("app.pair, or NULL", "Tuple(Int32, String, Array(Int32))", "a Tuple can't be NULL: --not-null for it, if it never is"),
    ("text", "Strin(", "'Strin(' is no ClickHouse type"),
    ("text", "Foo", "Foo does not hold text (String)"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "chosen", "words"), REFUSED)
def test_types_that_do_not_hold(embedded: Any, name: str, chosen: str, words: str) -> None:
    """Refused naming the column and both types."""
    destination = embedded()
    with pytest.raises(TableRefused) as refused:
        destination.plan(make_relation([CASES[name]]), "t", choices={CASES[name].column: ColumnChoice(chosen)})
    assert words in str(refused.value) and f"column '{CASES[name].column}'" in str(refused.value)
    destination.close()


def planned(destination: Any, case: TypeCase, **choice: Any) -> tuple[str, bool, str]:
    plan = destination.plan(make_relation([case]), "t", choices={case.column: ColumnChoice(**choice)})
    column = plan.columns[1]
    return column.type, column.nullable, column.form


def test_nullability(embedded: Any) -> None:
    """As chosen; a composite is a Tuple where it is never NULL; an array never is."""
    destination = embedded()
    number, firm = CASES["integer"], replace(CASES["integer"], not_null=True)
    assert planned(destination, number, nullable=False) == ("Int32", False, "own")
    assert planned(destination, firm, nullable=True) == ("Nullable(Int32)", True, "own")
    assert planned(destination, firm, type="Nullable(Int64)") == ("Nullable(Int64)", True, "own")
    pair = CASES["app.pair, or NULL"]
    assert (
        planned(destination, pair, nullable=False)[0].startswith("Tuple(") and planned(destination, pair)[2] == "text"
    )
    assert planned(destination, CASES["app.pair"], nullable=True) == ("Nullable(String)", True, "text")
    assert planned(destination, CASES["integer[]"], nullable=True) == ("Array(Nullable(Int32))", False, "own")
    for choice, words in (
        ({"type": "Nullable(Int32)", "nullable": False}, "it is not to be NULL"),
        ({"type": "Nullable(Int32)"}, "in the key"),
        ({"nullable": True}, "in the key"),
    ):
        column = "id" if words == "in the key" else number.column
        with pytest.raises(TableRefused, match=words):
            destination.plan(make_relation([number]), "t", choices={column: ColumnChoice(**choice)})
    destination.close()


def test_a_null_array_is_warned_of(embedded: Any) -> None:
    """Where it would lose its NULL, by name."""
    destination = embedded()
    nullable = replace(CASES["integer[]"], not_null=False)
    (warning,) = destination.plan(make_relation([nullable]), "t").warnings
    assert nullable.column in warning and "empty array" in warning
    for choice in (ColumnChoice(nullable=False), ColumnChoice("String")):
        assert not destination.plan(make_relation([nullable]), "t", choices={nullable.column: choice}).warnings
    destination.close()


@pytest.mark.parametrize("name", ["integer[]", "text"])
def test_null_where_none_was_to_be(embedded: Any, name: str) -> None:
    """A NULL that --not-null rules out fails the load; nothing else becomes of it."""
    from walshadow_core.api import DestinationError

    destination = embedded()
    case = replace(CASES[name], not_null=False)
    plan = destination.plan(make_relation([case]), "t", choices={case.column: ColumnChoice(nullable=False)})
    writer = destination.create_staging(plan)
    batch = make_batch([("id", pa.array([0, 1], pa.int64())), (case.column, pa.array([None, None], case.arrow))])
    with pytest.raises(DestinationError, match=f"'{case.column}' holds NULL"):
        writer.write(batch)
    writer.abort()
    destination.close()


def test_null_inside_where_none_was_to_be(embedded: Any) -> None:
    """ClickHouse would make 0 of a NULL in an Array(Int32) without a word."""
    from walshadow_core.api import DestinationError

    destination = embedded()
    case = CASES["integer[]"]
    plan = destination.plan(make_relation([case]), "t", choices={case.column: ColumnChoice("Array(Int32)")})
    writer = destination.create_staging(plan)
    with pytest.raises(DestinationError, match="holds NULL"):
        writer.write(make_batch([("id", pa.array([0], pa.int64())), (case.column, pa.array([[None]], case.arrow))]))
    writer.abort()
    destination.close()


def odd(codec: TypeCodec | None = None, **facts: Any) -> TypeCase:
    pg = PgType(99999, "app", "odd", "b", -1, "i", False, codec=codec, **facts)
    return TypeCase("app.odd", 99999, -1, pa.string(), ("x",), type=pg)


def test_types_that_nobody_knows(embedded: Any) -> None:
    """Refused with what helps; hex and, if the decoder can, text by choice; what is made of them likewise."""
    destination = embedded()
    case = odd()
    listed = replace(case, name="app.odd[]", type=PgType(99998, "app", "_odd", "b", -1, "i", False, element=case.type))
    field = replace(PAIR.fields[0], type=case.type)
    record = replace(case, name="app.rec", type=replace(PAIR, fields=(field,)))
    for one in (case, listed, record):
        with pytest.raises(TableRefused, match=f"of type {one.name.replace('[', '.')[:7]}.*--type for it with hex"):
            destination.plan(make_relation([one]), "t")
        assert planned(destination, one, type=HEX) == ("Nullable(String)", True, "hex")
        assert planned(destination, one, type="String") == ("Nullable(String)", True, "text")
    destination.close()


def test_types_of_plugins(embedded: Any) -> None:
    """As the plugin suggests, or by their Arrow form."""
    destination = embedded()

    def codec(arrow: pa.DataType, suggested: str | None = None) -> TypeCase:
        return odd(TypeCodec(arrow, lambda values: pa.nulls(len(values.offset), arrow), None, suggested))

    assert planned(destination, codec(pa.int16()))[0] == "Nullable(Int16)"
    assert planned(destination, codec(pa.decimal128(20, 3)))[0] == "Nullable(Decimal(20, 3))"
    assert planned(destination, codec(pa.list_(pa.float64())))[0] == "Array(Nullable(Float64))"
    assert planned(destination, codec(pa.string(), "IPv6"))[0] == "Nullable(IPv6)"
    assert planned(destination, codec(pa.string(), "LowCardinality(String)"))[0] == "Nullable(String)"
    with pytest.raises(TableRefused, match="suggests a wrong one"):
        planned(destination, codec(pa.string(), "IPv6("))
    plan = destination.plan(make_relation([codec(pa.string(), "IPv6")]), "t")
    writer = destination.create_staging(plan)
    writer.write(make_batch([("id", pa.array([0], pa.int64())), ("c_app_odd", pa.array(["::1"]))]))
    writer.finish()
    destination.rename(plan.staging, "t")
    assert destination.plan(make_relation([codec(pa.string(), "IPv6")]), "t").columns[1].form == "own"
    destination.close()


def test_a_table_that_is_there_has_the_last_word(embedded: Any) -> None:
    """Its types are taken without being asked for; what is chosen must be the same."""
    destination = embedded()
    case = replace(CASES["integer[]"], not_null=False)
    relation = make_relation([case])
    plan = destination.plan(relation, "t", choices={case.column: ColumnChoice("String")})
    destination.create_staging(plan).finish()
    destination.rename(plan.staging, "t")
    again = destination.plan(relation, "t")
    assert (again.columns[1].type, again.columns[1].form) == ("Nullable(String)", "text")
    for choice, words in (
        (ColumnChoice("Array(Int64)"), r"it is Nullable\(String\) there, Array\(Int64\) was chosen; alter the table"),
        (ColumnChoice(nullable=False), r"it is Nullable\(String\) there, which may be NULL"),
    ):
        with pytest.raises(TableRefused, match=words):
            destination.plan(relation, "t", choices={case.column: choice})
    destination.close()


def test_values_out_of_range_inside(embedded: Any) -> None:
    """The policy reaches into arrays and tuples: clamped, NULL, or refused."""
    day = PgType(1082, "pg_catalog", "date", "b", 4, "i", True)
    days = PgType(1182, "pg_catalog", "_date", "b", -1, "i", False, element=day)
    dated = Attribute(1, "d", 1082, "date", -1, 4, "i", True, "p", False, type=day)
    record = PgType(16500, "app", "dated", "c", -1, "d", False, fields=(dated,))
    raw = pa.array([2**31 - 1, None, 0, -(2**31)], pa.int32()).cast(pa.date32())
    lists = pa.ListArray.from_arrays(pa.array([0, 3, 4, 4, 4], pa.int32()), raw)
    cases = {
        "l": (TypeCase("date[]", 1182, -1, pa.list_(pa.date32()), (), type=days, not_null=True), lists, 2),
        "r": (
            TypeCase("app.dated", 16500, -1, pa.struct([("d", pa.date32())]), (), type=record, not_null=True),
            pa.StructArray.from_arrays([raw], ["d"]),
            2,
        ),
    }
    found: dict[tuple[str, str], list[Any]] = {}
    for policy in ("clamp", "null"):
        for name, (case, array, count) in cases.items():
            destination = embedded(out_of_range=policy)
            plan = destination.plan(make_relation([case]), f"{name}_{policy}")
            writer = destination.create_staging(plan)
            writer.write(make_batch([("id", pa.array(range(4), pa.int64())), (case.column, array)]))
            writer.finish()
            assert writer.stats.adjusted == {case.column: count}
            rows = destination._connection.rows(
                f"SELECT toString({case.column}) FROM {destination._name(plan.staging)} ORDER BY id"
            )
            found[name, policy] = [row[0] for row in rows]
            destination.close()
    high, low = "'2299-12-31'", "'1900-01-01'"
    assert found["l", "clamp"] == [f"[{high},NULL,'1970-01-01']", f"[{low}]", "[]", "[]"]
    assert found["l", "null"] == ["[NULL,NULL,'1970-01-01']", "[NULL]", "[]", "[]"]
    assert found["r", "clamp"] == [f"({high})", "(NULL)", "('1970-01-01')", f"({low})"]
    assert found["r", "null"] == ["(NULL)", "(NULL)", "('1970-01-01')", "(NULL)"]
    firm = embedded(out_of_range="null")
    case = cases["l"][0]
    with pytest.raises(TableRefused, match=f"can't be NULL: {case.column}"):
        firm.plan(make_relation([case]), "t", choices={case.column: ColumnChoice("Array(Date32)")})
    firm.close()


def test_left_out_of_a_table_that_is_there(embedded: Any) -> None:
    """A column of it that gets no values needs a DEFAULT, or to be Nullable."""
    destination = embedded()
    cases = [CASES["integer"], CASES["text"]]
    relation = replace(make_relation(cases), excluded=frozenset({2}))
    for table, choice in (("t", ColumnChoice()), ("firm", ColumnChoice(nullable=False))):
        plan = destination.plan(make_relation(cases), table, choices={"c_integer": choice})
        destination.create_staging(plan).finish()
        destination.rename(plan.staging, table)
    assert [c.name for c in destination.plan(relation, "t").columns] == ["id", "c_text"]
    with pytest.raises(TableRefused, match="'c_integer': it is left out and has no DEFAULT"):
        destination.plan(relation, "firm")
    destination.close()


def test_numeric_typmod_of_a_domain(embedded: Any) -> None:
    """A domain's own modifier counts, and that of what it is of."""
    destination = embedded()
    numeric = PgType(1700, "pg_catalog", "numeric", "b", -1, "i", False)
    amount = PgType(16600, "app", "money2", "d", -1, "i", False, base=numeric, base_typmod=numeric_typmod(12, 2))
    deep = PgType(16601, "app", "deep", "d", -1, "i", False, base=amount)
    listed = PgType(16602, "app", "list", "d", -1, "i", False, base=PgType(
        1007, "pg_catalog", "_int4", "b", -1, "i", False, element=INT4), base_dimensions=2)  # fmt: skip
    for kind, landed in ((deep, "Nullable(Decimal(12, 2))"), (listed, "Array(Array(Nullable(Int32)))")):
        assert planned(destination, TypeCase("app.x", kind.oid, -1, pa.string(), (), type=kind))[0] == landed
    destination.close()
