"""Values that ClickHouse can't hold: clamped, made NULL, refused, counted; on the real engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from walshadow_core.api import DATE_INFINITY, DECIMAL_NAN_128, TIMESTAMP_INFINITY, DestinationError, TableRefused
from walshadow_core.testing.destination_contract import TypeCase, make_batch, make_relation, numeric_typmod, raw_array

DAY = 86_400_000_000
LOWEST, HIGHEST = -2208988800000000, 10413791999999999

CASES: dict[str, tuple[TypeCase, tuple[str, ...], int]] = {
    "date": (
        TypeCase("date", 1082, -1, pa.date32(), (DATE_INFINITY, -DATE_INFINITY - 1, -25568, -25567, 120529, 120530)),
        ("2299-12-31", "1900-01-01", "1900-01-01", "1900-01-01", "2299-12-31", "2299-12-31"),
        4,
    ),
    "timestamp": (
        TypeCase(
            "timestamp",
            1114,
            -1,
            pa.timestamp("us"),
            (TIMESTAMP_INFINITY, -TIMESTAMP_INFINITY - 1, LOWEST - 1, LOWEST, HIGHEST, HIGHEST + 1),
        ),
        (
            "2299-12-31 23:59:59.999999",
            "1900-01-01 00:00:00.000000",
            "1900-01-01 00:00:00.000000",
            "1900-01-01 00:00:00.000000",
            "2299-12-31 23:59:59.999999",
            "2299-12-31 23:59:59.999999",
        ),
        4,
    ),
    "timestamp(2)": (
        TypeCase("timestamp(2)", 1114, 2, pa.timestamp("us"), (TIMESTAMP_INFINITY, 10000)),
        ("2299-12-31 23:59:59.99", "1970-01-01 00:00:00.01"),
        1,
    ),
    **{
        f"numeric({p},2)": (
            TypeCase(
                f"numeric({p},2)",
                1700,
                numeric_typmod(p, 2),
                pa.decimal128(p, 2) if p <= 38 else pa.decimal256(p, 2),
                (DECIMAL_NAN_128 if p <= 38 else -(2**255), 150, -150),
            ),
            ("", "1.5", "-1.5"),
            1,
        )
        for p in (9, 18, 38, 76)
    },
}


def written(open_it: Any, case: TypeCase, policy: str) -> tuple[list[Any], dict[str, int]]:
    destination = open_it(out_of_range=policy)
    plan = destination.plan(make_relation([case]), "t")
    writer = destination.create_staging(plan)
    array = raw_array(case)
    ids = pa.array(range(len(array)), pa.int64())
    try:
        writer.write(make_batch([("id", ids), (case.column, array)]))
        writer.finish()
        rows = destination._connection.rows(
            f"SELECT toString({case.column}) FROM {destination._name(plan.staging)} ORDER BY id"
        )
        return [row[0] for row in rows], writer.stats.adjusted
    except DestinationError:
        writer.abort()
        raise
    finally:
        destination.close()


@pytest.mark.parametrize("name", CASES)
def test_clamp(embedded: Any, name: str) -> None:
    """The nearest bound; a NaN becomes NULL."""
    case, expected, count = CASES[name]
    found, adjusted = written(embedded, case, "clamp")
    assert found == [*(v or None for v in expected), None]
    assert adjusted == {case.column: count}


@pytest.mark.parametrize("name", CASES)
def test_null(embedded: Any, name: str) -> None:
    """NULL, and values that fit stay."""
    case, expected, count = CASES[name]
    found, adjusted = written(embedded, case, "null")
    fits = [True, True] if count == 4 else [True] * (len(expected) - count)
    assert sum(v is not None for v in found) == len(fits) and found.count(None) == count + 1
    assert adjusted == {case.column: count}


@pytest.mark.parametrize("name", CASES)
def test_error(embedded: Any, name: str) -> None:
    """An error that names the column and the setting."""
    case, _, count = CASES[name]
    with pytest.raises(DestinationError, match=rf"'{case.column}' has {count} value.*out_of_range"):
        written(embedded, case, "error")


def test_null_slots_do_not_count(embedded: Any) -> None:
    """What lies under a NULL is no value."""
    case = CASES["timestamp"][0]
    array = raw_array(replace(case, values=(TIMESTAMP_INFINITY,) * 9))
    hidden = pa.Array.from_buffers(array.type, 10, [pa.py_buffer(bytes(2)), array.buffers()[1]])
    destination = embedded(out_of_range="error")
    plan = destination.plan(make_relation([case]), "t")
    writer = destination.create_staging(plan)
    writer.write(make_batch([("id", pa.array(range(10), pa.int64())), (case.column, hidden)]))
    writer.finish()
    assert not writer.stats.adjusted
    destination.close()


def test_not_null_columns(embedded: Any) -> None:
    """null is refused before the load, naming each column that can't be NULL and may need to; NaN under clamp
    is an error when it comes."""
    cases = [CASES[name][0] for name in ("date", "numeric(18,2)")]
    cases.append(TypeCase("text", 25, -1, pa.string(), ()))
    relation = make_relation(cases)
    strict = replace(relation, attributes=tuple(replace(a, not_null=True) for a in relation.attributes))
    with pytest.raises(TableRefused, match=r"can't be NULL: c_date, c_numeric_18_2_;") as refused:
        embedded(out_of_range="null").plan(strict, "t")
    assert "c_text" not in str(refused.value)
    destination = embedded()
    plan = destination.plan(strict, "t")
    writer = destination.create_staging(plan)
    nan = pa.Array.from_buffers(
        pa.decimal128(18, 2), 1, [None, pa.py_buffer(DECIMAL_NAN_128.to_bytes(16, "little", signed=True))]
    )
    arrays = [pa.array([1], pa.int64()), pa.array([1], pa.int32()).cast(pa.date32()), nan, pa.array(["x"])]
    with pytest.raises(DestinationError, match=r"c_numeric_18_2_.*NaN"):
        writer.write(make_batch(list(zip([c.name for c in plan.columns], arrays, strict=True))))
    writer.abort()
    assert destination.fingerprint(plan.staging) is None
    destination.close()


def test_nanoseconds_end_earlier(embedded: Any) -> None:
    """A hand-made DateTime64(9) holds less than the six digits that come; others hold all."""
    case = CASES["timestamp"][0]
    for digits, last in ((9, "2262-04-11 23:47:16.854775000"), (7, "2299-12-31 23:59:59.9999990")):
        destination = embedded()
        relation = make_relation([case])
        if destination.fingerprint("seed") is None:
            destination.create_staging(destination.plan(relation, "seed")).finish()
        destination._connection.run(
            f"CREATE TABLE {destination._name(f't{digits}')} (id Int64, {case.column} Nullable(DateTime64({digits}, 'UTC')),"
            " _lsn UInt64, _xid UInt32, _commit_ts DateTime64(6, 'UTC'), _is_deleted UInt8)"
            " ENGINE = MergeTree ORDER BY id"
        )
        plan = destination.plan(relation, f"t{digits}")
        writer = destination.create_staging(plan)
        array = raw_array(replace(case, values=(HIGHEST + 1,)))
        writer.write(make_batch([("id", pa.array([1, 2], pa.int64())), (case.column, array)]))
        writer.finish()
        rows = destination._connection.rows(
            f"SELECT toString({case.column}) FROM {destination._name(plan.staging)} ORDER BY id"
        )
        assert rows == [[last], [None]]
        destination.close()


def test_time_of_day_24(embedded: Any) -> None:
    """24:00:00 is a time of Postgres, and of Time64."""
    case = TypeCase("time", 1083, -1, pa.time64("us"), (np.int64(DAY),))
    assert written(embedded, case, "error")[0] == ["24:00:00.000000", None]
