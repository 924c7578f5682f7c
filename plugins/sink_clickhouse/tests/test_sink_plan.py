"""Plans: what is made where there is nothing, and which tables made by hand are taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from walshadow_sink_clickhouse.quoting import literal

from walshadow_core.api import Attribute, DestinationError, RelationDescriptor, TableRefused
from walshadow_core.testing.destination_contract import (
    LSN,
    SIMPLE,
    TYPES,
    TypeCase,
    make_batch,
    make_relation,
    numeric_typmod,
    simple_batch,
)

META = "_lsn UInt64, _xid UInt32, _commit_ts DateTime64(6, 'UTC'), _is_deleted Bool"
REPLACING = "ENGINE = ReplacingMergeTree(_lsn, _is_deleted) ORDER BY id"


def by_hand(destination: Any, columns: str, rest: str = REPLACING, table: str = "t", meta: str = META) -> None:
    """Make a table as a person would."""
    connection = destination._connection
    connection.run(f"CREATE DATABASE IF NOT EXISTS {destination._database} ENGINE = Atomic")
    connection.run(f"CREATE TABLE {destination._name(table)} ({columns}, {meta}) {rest}")


def load(destination: Any, relation: RelationDescriptor, batch: pa.RecordBatch, **options: Any) -> list[list[Any]]:
    """Load and publish ``t``, as the core does; gives its rows."""
    plan = destination.plan(relation, "t", **options)
    writer = destination.create_staging(plan)
    writer.write(batch)
    writer.finish()
    if plan.exists:
        assert destination.fingerprint("t") == destination.fingerprint(plan.staging)
        destination.exchange("t", plan.staging)
        destination.drop(plan.staging)
    else:
        destination.rename(plan.staging, "t")
    rows: list[list[Any]] = destination._connection.rows(f"SELECT * FROM {destination._name('t')} ORDER BY ALL")
    return rows


def about(destination: Any, what: str, table: str = "t") -> Any:
    """A column of system.tables."""
    where = f"database = {literal(destination._database)} AND name = {literal(table)}"
    return destination._connection.rows(f"SELECT {what} FROM system.tables WHERE {where}")[0][0]


def test_type_map(embedded: Any) -> None:
    """Every type, as the README's table says; Nullable unless NOT NULL or in the key; ours in the comment."""
    expected = {
        "boolean": "Bool",
        '"char"': "Int8",
        "smallint": "Int16",
        "integer": "Int32",
        "bigint": "Int64",
        "oid": "UInt32",
        "real": "Float32",
        "double precision": "Float64",
        "date": "Date32",
        "time": "Time64(6)",
        "timestamp": "DateTime64(6, 'UTC')",
        "timestamp(3)": "DateTime64(3, 'UTC')",
        "timestamptz": "DateTime64(6, 'UTC')",
        "timestamptz(0)": "DateTime64(0, 'UTC')",
        "uuid": "UUID",
        "money": "Decimal(19, 2)",
        "xid8": "UInt64",
        "regclass": "UInt32",
        "app.amount": "Int32",
    }
    pair = "Tuple(n Nullable(Int32), `a \\`b\\\\` Nullable(String), list Array(Nullable(Int32)))"
    whole = {
        "app.mood": "LowCardinality(Nullable(String))",
        "app.mood[]": "Array(LowCardinality(Nullable(String)))",
        "app.pair": pair,
        "app.pair[]": "String",
        "boolean[]": "Array(Nullable(Bool))",
        "int2vector": "Array(Int16)",
        "integer[]": "Array(Nullable(Int32))",
        "integer[][]": "Array(Array(Nullable(Int32)))",
        "numeric(12,2)[]": "Array(Nullable(Decimal(12, 2)))",
        "text[]": "Array(Nullable(String))",
        "timestamp[]": "Array(Nullable(DateTime64(6, 'UTC')))",
        "vector(2)": "Array(Float32)",
    }
    expected |= {t.name: f"Decimal{t.name[7:].replace(',', ', ')}" for t in TYPES if t.name.startswith("numeric(")}
    destination = embedded()
    relation = make_relation(TYPES)
    firm = replace(relation.attributes[3], not_null=True)
    relation = replace(relation, attributes=(*relation.attributes[:3], firm, *relation.attributes[4:]))
    plan = destination.plan(relation, "t")
    destination.create_staging(plan).finish()
    destination.rename(plan.staging, "t")
    landed = dict(destination.fingerprint("t") or ())
    assert landed.pop("id") == "Int64" and landed[firm.name] == "Int16"
    for case in TYPES:
        if case.column != firm.name:
            usual = f"Nullable({expected.get(case.name, 'String')})"
            assert landed[case.column] == whole.get(case.name, usual), case.name
    assert about(destination, "comment") == "walshadow: loaded from app.orders"
    assert about(destination, "engine_full").startswith("ReplacingMergeTree(_lsn, _is_deleted) ORDER BY (id)")
    destination.close()


def test_without_key(embedded: Any) -> None:
    """A plain MergeTree, not sorted; a second plan of what is ours needs no --replace."""
    destination = embedded()
    relation = make_relation(SIMPLE, key=False)
    assert load(destination, relation, simple_batch([1, 1]))[1][1] == "row 1"
    assert about(destination, "engine_full").startswith("MergeTree ORDER BY tuple()")
    assert len(load(destination, relation, simple_batch([2]))) == 1
    destination.close()


def test_plan_changes_nothing(tmp_path_factory: Any) -> None:
    """An engine's directory that is not there is not made by a plan, nor is the default database taken for good."""
    from walshadow_sink_clickhouse.plugin import walshadow_destination

    path = tmp_path_factory.mktemp("dry") / "engine"
    destination = walshadow_destination(f"chdb://{path}?database=d", {})
    assert destination is not None and not destination.plan(make_relation(SIMPLE), "t").exists
    assert not path.exists()
    default = walshadow_destination(f"chdb://{path}", {})
    assert default is not None
    with pytest.raises(DestinationError, match=r"'default' has engine Overlay.*\?database=NAME"):
        default.plan(make_relation(SIMPLE), "t")


def test_database_engines(opened_anywhere: Any, database: str) -> None:
    """What can't swap atomically is refused by name, by plan and by staging."""
    destination = opened_anywhere(database=database)
    plan = destination.plan(make_relation(SIMPLE), "t")
    destination._connection.run(f"CREATE DATABASE {database} ENGINE = Memory")
    for attempt in (lambda: destination.plan(make_relation(SIMPLE), "t"), lambda: destination.create_staging(plan)):
        with pytest.raises(DestinationError, match=f"'{database}' has engine Memory, which can't swap"):
            attempt()
    destination.close()
    default = opened_anywhere(database="default")
    with pytest.raises(DestinationError, match="'default' has engine Overlay"):
        default.plan(make_relation(SIMPLE), "t")
    default.close()


def test_by_hand_is_kept(opened: Any) -> None:
    """Engine, order, partitions, codecs, TTL, defaults and comment stay through loads."""
    destination = opened()
    by_hand(
        destination,
        "id Int64 CODEC(Delta, ZSTD), c_text LowCardinality(Nullable(String)), loaded DateTime DEFAULT now(),"
        " double Int64 MATERIALIZED id * 2",
        "ENGINE = ReplacingMergeTree(_lsn, _is_deleted) PARTITION BY id % 200 ORDER BY (id, c_text)"
        " TTL toDateTime(_commit_ts) + INTERVAL 50 YEAR SETTINGS allow_nullable_key = 1 COMMENT 'a person''s words'",
    )
    before = about(destination, "create_table_query").partition(" COMMENT ")[0]
    relation = make_relation(SIMPLE)
    rows = load(destination, relation, simple_batch(range(150)))
    assert len(rows) == 150
    assert about(destination, "create_table_query").partition(" COMMENT ")[0] == before
    assert about(destination, "comment") == "a person's words walshadow: loaded from app.orders"
    load(destination, relation, simple_batch(range(3)))
    assert about(destination, "comment") == "a person's words walshadow: loaded from app.orders"
    doubled = destination._connection.rows(f"SELECT id, double, loaded > '2020-01-01' FROM {destination._name('t')}")
    assert sorted([int(v) for v in row] for row in doubled) == [[i, 2 * i, 1] for i in range(3)]
    destination.close()


WIDER = [
    (TypeCase("boolean", 16, -1, pa.bool_(), (True, False)), "UInt8", ["1", "0"]),
    (TypeCase('"char"', 18, -1, pa.int8(), (-128,)), "Int64", ["-128"]),
    (TypeCase("smallint", 21, -1, pa.int16(), (-(2**15),)), "Int32", ["-32768"]),
    (TypeCase("integer", 23, -1, pa.int32(), (2**31 - 1,)), "Int64", ["2147483647"]),
    (TypeCase("oid", 26, -1, pa.uint32(), (2**32 - 1,)), "Int64", ["4294967295"]),
    (TypeCase("real", 700, -1, pa.float32(), (1.5,)), "Float64", ["1.5"]),
    (TypeCase("numeric(9,2)", 1700, numeric_typmod(9, 2), pa.decimal128(9, 2), ()), "Decimal(40, 2)", []),
    (TypeCase("time", 1083, -1, pa.time64("us"), (1,)), "Time64(9)", ["00:00:00.000001000"]),
    (TypeCase("timestamp(3)", 1114, 3, pa.timestamp("us"), (1000,)), "DateTime64(9)", None),
    (TypeCase("text", 25, -1, pa.string(), ("é",)), "LowCardinality(String)", ["é"]),
]


@pytest.mark.parametrize(("case", "landed", "expected"), WIDER, ids=lambda x: x if isinstance(x, str) else "")
def test_wider_types(opened: Any, case: TypeCase, landed: str, expected: list[str] | None) -> None:
    """The allowed alternatives hold the values."""
    destination = opened()
    name = landed if "LowCardinality" not in landed else "LowCardinality(Nullable(String))"
    nullable = name if name.startswith("Low") else f"Nullable({name})"
    by_hand(destination, f"id Int64, {case.column} {nullable}")
    values = pa.array([*case.values, None], case.arrow)
    batch = make_batch([("id", pa.array(range(len(values)), pa.int64())), (case.column, values)])
    load(destination, make_relation([case]), batch)
    rows = destination._connection.rows(f"SELECT toString({case.column}) FROM {destination._name('t')} ORDER BY id")
    assert rows[-1] == [None]
    if expected is not None:
        assert [row[0] for row in rows[:-1]] == expected
    destination.close()


def test_firm_into_nullable(embedded: Any) -> None:
    """NOT NULL fits into a column that could be NULL; not the other way round."""
    destination = embedded()
    relation = make_relation(SIMPLE)
    firm = replace(relation, attributes=tuple(replace(a, not_null=True) for a in relation.attributes))
    by_hand(destination, "id Int64, c_text Nullable(String)")
    assert load(destination, firm, simple_batch([5]))[0][1] == "row 5"
    destination.drop("t")
    by_hand(destination, "id Int64, c_text String")
    with pytest.raises(TableRefused, match="column 'c_text': it may be NULL in the source, String may not; --not-null"):
        destination.plan(relation, "t")
    destination.close()


def refusal(destination: Any, cases: Sequence[TypeCase], **options: Any) -> str:
    with pytest.raises(TableRefused) as refused:
        destination.plan(make_relation(cases), "t", **options)
    return str(refused.value)


def test_what_does_not_fit_is_named(embedded: Any) -> None:
    """Every column at once, and the statement that adds what is missing."""
    destination = embedded()
    cases = [
        TypeCase("bigint", 20, -1, pa.int64(), ()),
        TypeCase("numeric(12,2)", 1700, numeric_typmod(12, 2), pa.decimal128(12, 2), ()),
        TypeCase("timestamp", 1114, -1, pa.timestamp("us"), ()),
        TypeCase("date", 1082, -1, pa.date32(), ()),
        TypeCase("text", 25, -1, pa.string(), ()),
        TypeCase("uuid", 2950, -1, pa.binary(16), ()),
    ]
    by_hand(
        destination,
        "id Int64, c_bigint Nullable(Int32), c_numeric_12_2_ Nullable(Decimal(12, 3)),"
        " c_timestamp Nullable(DateTime64(3)), c_date Nullable(Date), c_uuid UUID MATERIALIZED generateUUIDv4(),"
        " extra Int8, more Nullable(Int8)",
        meta="_lsn UInt64, _xid Int32, _is_deleted UInt8",
    )
    text = refusal(destination, cases)
    for words in (
        "column 'c_bigint': it is Nullable(Int32) there, which does not hold bigint (Int64)",
        "column 'c_numeric_12_2_': it is Nullable(Decimal(12, 3)) there, which does not hold numeric(12,2) (Decimal(12, 2))",
        "column 'c_timestamp': it is Nullable(DateTime64(3)) there",
        "column 'c_date': it is Nullable(Date) there",
        "column 'c_text' is missing",
        "column 'c_uuid': it is MATERIALIZED there and can't be written",
        "column '_xid': it is Int32 there, which does not hold UInt32",
        "column '_commit_ts' is missing",
        "column 'extra': it is not in the source and has no DEFAULT",
        f"; ALTER TABLE {destination._name('t')} ADD COLUMN `c_text` Nullable(String),"
        " ADD COLUMN `_commit_ts` DateTime64(6, 'UTC')",
    ):
        assert words in text
    assert "more" not in text and "'_lsn'" not in text and "'_is_deleted'" not in text
    destination._connection.run(f"{text.rpartition('; ')[2]}")
    assert "missing" not in refusal(destination, cases)
    destination.close()


def test_rows_of_others(opened: Any) -> None:
    """A table made by hand may be empty; its rows are replaced with --replace only; ours are ours after that."""
    destination = opened()
    by_hand(destination, "id Int64, c_text Nullable(String)")
    destination.plan(make_relation(SIMPLE), "t")
    destination._connection.run(f"INSERT INTO {destination._name('t')} (id) VALUES (1)")
    assert refusal(destination, SIMPLE).endswith("holds rows that walshadow did not load; --replace replaces them")
    load(destination, make_relation(SIMPLE), simple_batch([2]), replace=True)
    assert len(load(destination, make_relation(SIMPLE), simple_batch([3]))) == 1
    destination.close()


def test_name_of_staging_is_taken(embedded: Any) -> None:
    """A real table of that name is never dropped."""
    destination = embedded()
    by_hand(destination, "id Int64", table="t__wsstg")
    plan = replace(destination.plan(make_relation(SIMPLE), "other"), staging="t__wsstg")
    assert "t__wsstg" in refusal(destination, SIMPLE)
    with pytest.raises(TableRefused, match="is no staging table of walshadow"):
        destination.create_staging(plan)
    assert destination.fingerprint("t__wsstg")
    destination.close()


def test_other_engines(embedded: Any) -> None:
    """Views and logs are no destination."""
    destination = embedded()
    by_hand(destination, "id Int64, c_text Nullable(String)", "ENGINE = Log")
    assert "has engine Log" in refusal(destination, SIMPLE, replace=True)
    destination.close()


def test_materialized_views_are_warned_of(embedded: Any) -> None:
    """A swap does not fire them."""
    destination = embedded()
    by_hand(destination, "id Int64, c_text Nullable(String)")
    assert destination.plan(make_relation(SIMPLE), "t").warnings == ()
    destination._connection.run(
        f"CREATE MATERIALIZED VIEW {destination._name('mv')} ENGINE = Null AS SELECT id FROM {destination._name('t')}"
    )
    (warning,) = destination.plan(make_relation(SIMPLE), "t").warnings
    assert f"{destination._database}.mv" in warning and "does not fire" in warning
    destination.close()


def test_source_columns_that_can_not_land(embedded: Any) -> None:
    """Unknown types, all of them, and names that are ours."""
    destination = embedded()
    relation = make_relation(SIMPLE)
    strange = [Attribute(n, f"p{n}", 99999, "app.odd", -1, 16, "d", False, "p", False) for n in (3, 4)]
    with pytest.raises(
        TableRefused, match=r"app.orders: column 'p3': it is of type app.odd.*'p4': it is of type app.odd.*hex"
    ):
        destination.plan(replace(relation, attributes=(*relation.attributes, *strange)), "t")
    named = replace(relation.attributes[1], name="_lsn")
    with pytest.raises(TableRefused, match="named as walshadow's own: _lsn"):
        destination.plan(replace(relation, attributes=(relation.attributes[0], named)), "t")
    destination.close()


def test_the_key_in_its_order(embedded: Any) -> None:
    """ORDER BY is the key, in index order, whatever the order of columns."""
    relation = make_relation([TypeCase("text", 25, -1, pa.string(), ()), TypeCase("uuid", 2950, -1, pa.binary(16), ())])
    plan = embedded().plan(replace(relation, key=(3, 1)), "t")
    assert "ORDER BY (`c_uuid`, `id`)" in plan.create_sql and not plan.columns[2].nullable
    assert LSN and plan.columns[1].nullable


@pytest.mark.parametrize(
    ("rest", "key", "refused"),
    [
        ("ENGINE = ReplacingMergeTree(_lsn, _is_deleted) ORDER BY id", (1,), False),
        ("ENGINE = ReplacingMergeTree(_lsn, _is_deleted) ORDER BY (c_text, id)", (1,), False),
        ("ENGINE = ReplacingMergeTree(_lsn, _is_deleted) ORDER BY c_text", (1,), True),
        ("ENGINE = ReplacingMergeTree(_lsn, _is_deleted) ORDER BY id", (), True),
        ("ENGINE = SummingMergeTree ORDER BY c_text", (1,), True),
        ("ENGINE = MergeTree ORDER BY c_text", (1,), False),
        ("ENGINE = MergeTree ORDER BY c_text", (), False),
    ],
)
def test_an_order_that_would_make_one_row_of_several_is_refused(
    opened: Any, rest: str, key: tuple[int, ...], refused: bool
) -> None:
    destination = opened()
    by_hand(destination, "id Int64, c_text String", rest)
    made = make_relation(SIMPLE)
    relation = replace(made, key=key, attributes=tuple(replace(a, not_null=True) for a in made.attributes))
    if not refused:
        assert destination.plan(relation, "t").exists
        return
    with pytest.raises(TableRefused, match="would make one of several rows"):
        destination.plan(relation, "t")
