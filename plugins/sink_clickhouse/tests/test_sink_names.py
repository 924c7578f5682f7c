"""Names of any kind are quoted right everywhere, on the real engine."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from walshadow_sink_clickhouse.quoting import identifier, literal, qualified

from walshadow_core.api import Lsn
from walshadow_core.testing.destination_contract import SIMPLE, make_batch, make_relation

# What Postgres allows in a name: anything but NUL, at most 63 bytes.
NAMES = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]) | st.sampled_from("`'\"\\.-/*#{}%$@ \n\t"),
    min_size=1,
    max_size=15,
)
HARD = ["select", "a.b", "a`b", "a\\", "\\`", "'", '"', "--x", "/*", "%s", "{x:Int8}", "ünï ☃", "new\nline", "#", " "]

_numbers = itertools.count()


@pytest.fixture
def connection(embedded):  # type: ignore[no-untyped-def]
    """One connection for many queries."""
    return embedded()._connection


def through_everything(open_it, table: str, column: str, database: str) -> None:  # type: ignore[no-untyped-def]
    """Every statement of a destination, with these names."""
    destination = open_it(database=database)
    base = make_relation(SIMPLE)
    second = replace(base.attributes[1], name=column)
    relation = replace(base, name=table, attributes=(base.attributes[0], second))
    arrays = [("id", pa.array([1, 2], pa.int64())), (column, pa.array(["x", None]))]
    for round_ in range(2):
        plan = destination.plan(relation, table)
        writer = destination.create_staging(plan)
        writer.write(make_batch(arrays))
        writer.finish()
        if round_ == 0:
            destination.rename(plan.staging, table)
        else:
            destination.exchange(plan.staging, table)
            assert destination.copy_back(plan.staging, table, Lsn(0)) == 2
            destination.drop(plan.staging)
    fingerprint = destination.fingerprint(table)
    assert fingerprint is not None and fingerprint[1] == (column, "Nullable(String)")
    name = qualified(database, table)
    found = destination._connection.rows(f"SELECT {identifier(column)} FROM {name} ORDER BY id, _lsn")
    assert found == [["x"], ["x"], [None], [None]]
    comment = destination._connection.rows(
        f"SELECT comment FROM system.tables WHERE database = {literal(database)} AND name = {literal(table)}"
    )
    assert comment == [[f"walshadow: loaded from app.{table}"]]
    destination.truncate(table)
    destination._connection.run(f"DROP DATABASE {identifier(database)}")
    destination.close()


@pytest.mark.parametrize("name", HARD)
def test_hard_names(embedded_anywhere, name: str) -> None:  # type: ignore[no-untyped-def]
    """Names that break a careless quoting, as table, column and database."""
    through_everything(embedded_anywhere, name, name, f"d{next(_numbers)}{name}".replace("\n", ""))


@pytest.mark.parametrize("name", ["".join(HARD[:8]), "".join(HARD[8:]), "select", " "])
def test_hard_names_over_http(http_anywhere, name: str) -> None:  # type: ignore[no-untyped-def]
    """All of them, several at once, and those that mean something to a client or in a URL."""
    through_everything(http_anywhere, name, name, f"d{next(_numbers)}{name}".replace("\n", ""))


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=NAMES, column=NAMES.filter(lambda n: n not in ("id", "_lsn", "_xid", "_commit_ts", "_is_deleted")))
def test_any_names(embedded_anywhere, table: str, column: str) -> None:  # type: ignore[no-untyped-def]
    """Whatever Postgres allows."""
    through_everything(embedded_anywhere, table, column, f"d{next(_numbers)}")


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_literal(connection, text: str) -> None:  # type: ignore[no-untyped-def]
    """A text literal is the text."""
    assert connection.rows(f"SELECT {literal(text)} AS {identifier(text or 'x')}") == [[text]]
