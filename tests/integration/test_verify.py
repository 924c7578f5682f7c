"""``walshadow verify`` finds what differs, all of it, and nothing else."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from walshadow_sink_clickhouse.engine import EngineProcess

from tests.conftest import MAJORS, EmbeddedClickHouse, Ran
from tests.integration.support import HasUrl, Run, assert_equal, database, load, with_peak
from walshadow_core.cli.main import main
from walshadow_core.testing.postgres import PostgresServer
from walshadow_core.verify import merge

SMALLEST_STEPS: dict[str, tuple[tuple[str, str], ...]] = {
    "bool": (("true", "false"), ("false", "null"), ("null", "false")),
    '"char"': (("'a'", "'b'"), ("''", "null"), ("'\\377'", "'\\376'")),
    "int2": (("32767", "32766"), ("0", "null")),
    "int4": (("-2147483648", "-2147483647"), ("null", "0")),
    "int8": (("9223372036854775807", "9223372036854775806"), ("9007199254740993", "9007199254740992")),
    "oid": (("4294967295", "4294967294"),),
    "float4": (
        ("1", "1.0000001"), ("0", "'-0'"), ("'NaN'", "'Infinity'"), ("1e-45", "0"), ("3.4028235e38", "3.4028233e38"),
        ("null", "'NaN'"), ("16777216", "16777218"),
    ),
    "float8": (
        ("0.1", "0.10000000000000002"), ("'-0'", "0"), ("'NaN'", "null"), ("5e-324", "0"),
        ("'-Infinity'", "-1.7976931348623157e308"),
    ),
    "numeric(10,2)": (("12345678.90", "12345678.91"), ("-0.01", "0"), ("0", "null"), ("'NaN'", "0")),
    "numeric(30,5)": (("1234567890123456789012345.00001", "1234567890123456789012345.00002"),),
    "numeric(76,20)": (("-" + "9" * 56 + "." + "9" * 20, "-" + "9" * 56 + "." + "9" * 19 + "8"),),
    "numeric(80,2)": (("9" * 78 + ".01", "9" * 78 + ".02"), ("'NaN'", "null")),
    "numeric(4,-2)": (("123400", "123500"),),
    "numeric(2,5)": (("0.00012", "0.00013"),),
    "numeric": (("1.1", "1.10"), ("1e200", "1e200 + 1"), ("'Infinity'", "'-Infinity'"), ("'NaN'", "null")),
    "text": (
        ("'abc'", "'abC'"), ("'abc'", "'abc '"), ("''", "null"), ("null", "''"), ("'N'", "null"), ("'é'", "U&'e\\0301'"),
        ("E'a\\nb'", "E'a\\r\\nb'"),
    ),
    "varchar(9)": (("'abc'", "'abc '"), ("''", "null")),
    "bpchar(5)": (("'ab'", "'ac'"), ("''", "null")),
    "bpchar": (("'ab '", "'ab'"),),
    "name": (("'n'", "'m'"),),
    "bytea": (("'\\x00ff'", "'\\x01ff'"), ("'\\x00'", "''"), ("''", "null"), ("'\\x80'", "'\\xc280'")),
    "date": (("'2024-02-28'", "'2024-02-29'"), ("'1900-01-01'", "'1900-01-02'"), ("'1970-01-01'", "null")),
    "time": (("'12:00:00.000001'", "'12:00:00.000002'"), ("'24:00:00'", "'00:00:00'"), ("'23:59:59.999999'", "'24:00'")),
    "timetz": (("'12:00+02'", "'11:00+01'"), ("'12:00:00+00'", "'12:00:00.000001+00'"), ("'24:00-03'", "'00:00-03'")),
    "timestamp": (
        ("'2024-02-29 12:00:00.000001'", "'2024-02-29 12:00:00.000002'"), ("'1969-12-31 23:59:59.999999'", "'1970-01-01'"),
        ("'1900-01-01 00:00:00.000001'", "'1900-01-01'"), ("'2299-12-31 23:59:59.999999'", "'2299-12-31 23:59:59.999998'"),
    ),
    "timestamptz": (("'2024-02-29 12:00+00'", "'2024-02-29 13:00:00.000001+01'"), ("'1969-12-31 23:59:59.5+00'", "null")),
    "timestamp(0)": (("'2024-02-29 12:00:00'", "'2024-02-29 12:00:01'"), ("'1969-12-31 23:59:59'", "'1970-01-01'")),
    "timestamp(3)": (("'2024-02-29 12:00:00.001'", "'2024-02-29 12:00:00.002'"),),
    "timestamptz(3)": (("'1969-12-31 23:59:59.999+00'", "'1970-01-01 00:00:00+00'"),),
    "interval": (
        ("'1 mon'", "'30 days'"), ("'1 day'", "'24:00:00'"), ("'00:00:00'", "'00:00:00.000001'"),
        ("'-1 day +1 mon'", "'-1 day -1 mon'"),
    ),
    "uuid": (("'61f0c404-5cb3-11e7-907b-a6006ad3dba0'", "'61f0c404-5cb3-11e7-907b-a6006ad3dba1'"),),
    "json": (("'{\"a\": 1}'", "'{\"a\":1}'"), ("'null'", "null"), ("'1'", "'1.0'")),
    "jsonb": (("'[1, 2]'", "'[2, 1]'"), ("'null'", "null"), ("'1'", "'1.0'"), ("'{\"a\": {}}'", "'{\"a\": []}'")),
    "mood": (("'sad'", "'ok'"), ("null", "'ok'")),
    "pair": (("(1, 'x')", "(1, null)"), ("(null, null)", "null"), ("(null, null)", "(null, '')")),
    "money": (("'0.01'::text::money", "'0.02'::text::money"), ("'-92233720368547758.08'::text::money", "null")),
    "xid8": (("'18446744073709551615'", "'18446744073709551614'"),),
    "regclass": (("'pg_class'", "'pg_type'"),),
    "inet": (("'10.0.0.1'", "'10.0.0.1/31'"), ("'::'", "'0.0.0.0'")),
    "bit(3)": (("B'101'", "B'100'"),),
    "int4range": (("'[1,2)'", "'[1,3)'"), ("'empty'", "null"), ("'(,)'", "'[0,)'")),
    "tsvector": (("'a:1'", "'a:1A'"),),
    "point": (("'(0.1,0)'", "'(0.10000000000000002,0)'"), ("'(0,0)'", "'(-0,0)'")),
    "int[]": (
        ("'{1,2}'", "'{2,1}'"), ("'{1}'", "'{1,NULL}'"), ("'{NULL}'", "'{0}'"), ("'{}'", "'{NULL}'"), ("'{12}'", "'{1,2}'"),
    ),
    "int[][]": (("'{{1,2}}'", "'{{1},{2}}'"), ("'{{1,2},{3,4}}'", "'{{1,2},{3,NULL}}'"), ("'{}'", "'{{1}}'")),
    "text[]": (("array['a,b']", "array['a', 'b']"), ("array['']", "'{}'"), ("array['N']", "array[null]"), ("array['1:x']", "array['x']")),
    "float8[]": (("'{0.1}'", "'{0.10000000000000002}'"), ("'{0}'", "'{-0}'"), ("'{NaN}'", "'{Infinity}'")),
    "date[]": (("'{2024-02-29}'", "'{2024-02-28}'"), ("'{1900-01-01}'", "'{1900-01-02,NULL}'")),
    "timestamp(3)[]": (("'{2024-02-29 12:00:00.001}'", "'{2024-02-29 12:00:00.002}'"),),
    "numeric(10,2)[]": (("'{1.50}'", "'{1.51}'"),),
    "mood[]": (("'{sad,ok}'", "'{ok,sad}'"),),
    "pair[]": (("array[(1, 'x')::pair]", "array[(1, 'y')::pair]"), ("null", "'{}'")),
    "int2vector": (("'1 2'", "'1 3'"),),
}  # fmt: skip
"""Per type: (value that is loaded, value that it is changed to afterwards)."""

STEPS = [(kind, *step) for kind, steps in SMALLEST_STEPS.items() for step in steps]
COLUMNS = {kind: f"c{number}" for number, kind in enumerate(SMALLEST_STEPS)}
ARRAYS = {kind for kind in SMALLEST_STEPS if kind.endswith("[]") and kind != "pair[]"} | {"int2vector"}
"""Types whose NULL lands as an empty array."""
NANS = sum("NaN" in value for value, _ in SMALLEST_STEPS["numeric(10,2)"])


def verify(run: Run, pg: PostgresServer, db: str, to: HasUrl, table: str, *words: str) -> Ran:
    """Compare; ``words`` are further words of the command line."""
    return run("verify", "--source", pg.dsn(db), "--to", to.url, "--table", table, "--json", *words)


def assert_changed(checked: Ran, *labels: str) -> None:
    """Exactly these keys were found, as changed."""
    assert checked.code == 4, checked.err
    found = checked.json
    assert (found["missing"], found["extra"], found["changed"]) == (0, 0, len(labels)), found
    assert [k["kind"] for k in found["keys"]] == ["changed"] * len(labels)
    assert {k["key"] for k in found["keys"]} == set(labels)
    assert found["equal"] is False


@dataclass
class Loaded:
    """A table ``t`` with a row per step, all NULL but for the value that the step starts from, and a copy of it."""

    pg: PostgresServer
    db: str
    to: EmbeddedClickHouse

    def change(self, *ids: int) -> None:
        """Take the steps of these rows."""
        for number in ids:
            kind, _, value = STEPS[number]
            self.pg.execute(f"update t set {COLUMNS[kind]} = {value} where id = {number}", database=self.db)

    def restore(self) -> None:
        """Have the rows as they were loaded."""
        self.pg.execute("truncate t; insert into t select * from kept", database=self.db)


@pytest.fixture(scope="module")
def loaded_once(server_of: Callable[[int], PostgresServer], engine_path: Path) -> Iterator[Loaded]:
    pg = server_of(MAJORS[-1])
    to = EmbeddedClickHouse(engine_path, f"t_{uuid.uuid4().hex[:12]}")
    with database(pg) as db:
        columns = ", ".join(f"{name} {kind}" for kind, name in COLUMNS.items())
        pg.execute("create type mood as enum ('sad', 'ok'); create type pair as (n int, t text)", database=db)
        pg.execute(f"create table t (id int primary key, {columns})", database=db)
        pg.execute(
            ";".join(
                f"insert into t (id, {COLUMNS[kind]}) values ({number}, {value})"
                for number, (kind, value, _) in enumerate(STEPS)
            ),
            database=db,
        )
        pg.execute("create table kept as select * from t", database=db)
        words = ("--source", pg.dsn(db), "--to", to.url, "--table", "t", "--no-progress")
        assert main(("load", *words)) == 0
        yield Loaded(pg, db, to)
    to.close()


@pytest.fixture
def every_type(loaded_once: Loaded) -> Iterator[Loaded]:
    """A table of every type, as it was loaded."""
    yield loaded_once
    loaded_once.restore()


def test_the_smallest_step_of_every_type_is_found(
    every_type: Loaded, walshadow: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row differs in one value by its smallest step, and each is found, in any company."""
    pg, db, to = every_type.pg, every_type.db, every_type.to
    before = assert_equal(walshadow, pg, db, to, "t")
    nulls = {COLUMNS[kind]: len(STEPS) - len(steps) for kind, steps in SMALLEST_STEPS.items() if kind in ARRAYS}
    assert before.json["adjusted"] == {COLUMNS["numeric(10,2)"]: NANS, **nulls}
    assert (before.json["source_rows"], before.json["destination_rows"]) == (len(STEPS), len(STEPS))
    monkeypatch.setattr(merge, "SHOWN", len(STEPS))
    every_type.change(*range(len(STEPS)))
    checked = verify(walshadow, pg, db, to, "t")
    found = {int(k["key"].removeprefix("id=")) for k in checked.json["keys"]}
    assert [step for number, step in enumerate(STEPS) if number not in found] == []
    assert_changed(checked, *(f"id={number}" for number in range(len(STEPS))))


@pytest.mark.parametrize(
    "kind", ["bool", "float8", "numeric(10,2)", "text", "bytea", "timestamp(3)", "interval", "json"]
)
def test_one_small_step_alone_is_found(every_type: Loaded, walshadow: Run, kind: str) -> None:
    number = next(n for n, step in enumerate(STEPS) if step[0] == kind)
    every_type.change(number)
    assert_changed(verify(walshadow, every_type.pg, every_type.db, every_type.to, "t"), f"id={number}")


def test_values_that_change_places_are_found(every_type: Loaded, walshadow: Run) -> None:
    """Counts and checksums don't depend on order, but a value belongs to its row and to its column."""
    pg, db, to = every_type.pg, every_type.db, every_type.to
    text, word = COLUMNS["text"], COLUMNS["varchar(9)"]
    first = next(n for n, step in enumerate(STEPS) if step[0] == "text")
    one, two, three = first, first + 2, first + 4
    pg.execute(
        f"update t set {text} = '' where id = {one}; update t set {text} = 'abc' where id = {two};"
        f"update t set {text} = null, {word} = 'N' where id = {three}",
        database=db,
    )
    assert_changed(verify(walshadow, pg, db, to, "t"), f"id={one}", f"id={two}", f"id={three}")


HOSTILE = {
    "datestyle": "'German, MDY'", "intervalstyle": "'iso_8601'", "timezone": "'Asia/Kolkata'",
    "extra_float_digits": "-5", "bytea_output": "'escape'", "search_path": "'x'", "client_encoding": "'latin1'",
    "standard_conforming_strings": "off", "backslash_quote": "on",
    "default_transaction_isolation": "'read committed'", "xmloption": "'document'", "lc_numeric": "'C'",
}  # fmt: skip


def test_a_roles_defaults_do_not_matter(every_type: Loaded, walshadow: Run) -> None:
    pg, db, to = every_type.pg, every_type.db, every_type.to
    role = f"r_{uuid.uuid4().hex[:12]}"
    pg.execute(f"create role {role} login; grant select on t to {role}", database=db)
    for name, value in HOSTILE.items():
        pg.execute(f"alter role {role} set {name} = {value}")
    dsn = pg.dsn(db, user=role)
    try:
        equal = walshadow("verify", "--source", dsn, "--to", to.url, "--table", "public.t", "--json")
        assert equal.code == 0, equal.err + equal.out
        every_type.change(1)
        assert_changed(walshadow("verify", "--source", dsn, "--to", to.url, "--table", "public.t", "--json"), "id=1")
    finally:
        pg.execute(f"drop owned by {role}; drop role {role}", database=db)


def test_rows_that_a_policy_hides_from_the_role_are_an_error(every_type: Loaded, walshadow: Run) -> None:
    pg, db, to = every_type.pg, every_type.db, every_type.to
    role = f"r_{uuid.uuid4().hex[:12]}"
    pg.execute(f"create role {role} login", database=db)
    dsn = pg.dsn(db, user=role)
    words = ("verify", "--source", dsn, "--to", to.url, "--table", "public.t")
    try:
        no_right = walshadow(*words)
        assert (no_right.code, no_right.err.count("\n")) == (1, 1)
        assert "GRANT SELECT" in no_right.err
        pg.execute(
            f"grant select on t to {role}; alter table t enable row level security;"
            f"create policy p on t to {role} using (id > 0)", database=db,
        )  # fmt: skip
        hidden = walshadow(*words)
        assert (hidden.code, hidden.err.count("\n")) == (1, 1)
        assert "row-level security" in hidden.err
    finally:
        pg.execute(
            f"drop policy if exists p on t; alter table t disable row level security; drop owned by {role};"
            f"drop role {role}", database=db,
        )  # fmt: skip


def test_missing_extra_and_changed_rows_are_counted_and_the_first_named(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    pg = pg_newest
    with database(pg) as db:
        pg.execute(
            "create table t (a int, b text, v int, primary key (b, a));"
            "insert into t select i % 100, 'k' || i / 100, i from generate_series(0, 4999) i",
            database=db,
        )
        assert load(walshadow, pg, db, clickhouse, "--table", "t").code == 0
        pg.execute(
            "update t set v = -1 where b = 'k3' and a = 7; delete from t where b = 'k4' and a in (8, 9);"
            "insert into t values (1000, 'new', 1)", database=db,
        )  # fmt: skip
        few = verify(walshadow, pg, db, clickhouse, "t")
        assert few.code == 4
        assert {(k["kind"], k["key"]) for k in few.json["keys"]} == {
            ("changed", "b=k3, a=7"), ("extra", "b=k4, a=8"), ("extra", "b=k4, a=9"), ("missing", "b=new, a=1000"),
        }  # fmt: skip
        assert (few.json["source_rows"], few.json["destination_rows"]) == (4999, 5000)
        pg.execute("update t set v = v + 1", database=db)
        many = verify(walshadow, pg, db, clickhouse, "t")
        assert (many.json["missing"], many.json["extra"], many.json["changed"]) == (1, 2, 4998)
        assert len(many.json["keys"]) == 20
        shown = walshadow("verify", "--source", pg.dsn(db), "--to", clickhouse.url, "--table", "t")
        assert shown.code == 4
        assert sum(line.startswith("  ") for line in shown.err.splitlines()) == 21
        assert "and 4,981 more" in shown.err


def test_a_table_without_a_key_compares_as_a_multiset(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    pg = pg_newest
    with database(pg) as db:
        pg.execute(
            "create table t (v text, n int); insert into t select 'same', 1 from generate_series(1, 30000);"
            "insert into t values (null, null), (null, null), ('x', null), ('', null)",
            database=db,
        )
        assert load(walshadow, pg, db, clickhouse, "--table", "t").code == 0
        assert_equal(walshadow, pg, db, clickhouse, "t")
        pg.execute(
            "delete from t where ctid = (select min(ctid) from t where v = 'same');"
            "insert into t values (null, null)", database=db,
        )  # fmt: skip
        checked = verify(walshadow, pg, db, clickhouse, "t")
        assert checked.code == 4
        assert {(k["kind"], k["key"]) for k in checked.json["keys"]} == {
            ("extra", "v=same, n=1"), ("missing", "v=NULL, n=NULL"),
        }  # fmt: skip
        assert (checked.json["missing"], checked.json["extra"], checked.json["changed"]) == (1, 1, 0)


def test_an_empty_table(pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run) -> None:
    with database(pg_newest) as db:
        pg_newest.execute("create table t (id int primary key); create table none ()", database=db)
        assert load(walshadow, pg_newest, db, clickhouse, "--table", "t").code == 0
        assert assert_equal(walshadow, pg_newest, db, clickhouse, "t").json["source_rows"] == 0
        missing = verify(walshadow, pg_newest, db, clickhouse, "none")
        assert missing.code == 1
        assert missing.err.count("\n") == 1
        pg_newest.execute("insert into t values (7)", database=db)
        checked = verify(walshadow, pg_newest, db, clickhouse, "t")
        assert checked.json["keys"] == [{"kind": "missing", "key": "id=7"}]


def test_columns_named_as_what_the_queries_name(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    names = (
        "k",
        "r",
        "l",
        "rows",
        "t",
        "key_digest",
        "row_digest",
        "key_label",
        "final",
        "1",
        "{c}",
        "({c})",
        "%s",
        "x'y",
    )
    with database(pg_newest) as db:
        columns = ", ".join(f'"{name}" int' for name in names)
        pg_newest.execute(
            f"create table t (id int, {columns}, primary key (k, key_digest, id));"
            f"insert into t select {', '.join('i' for _ in range(len(names) + 1))} from generate_series(1, 50) i",
            database=db,
        )
        assert load(walshadow, pg_newest, db, clickhouse, "--table", "t").code == 0
        assert_equal(walshadow, pg_newest, db, clickhouse, "t")
        pg_newest.execute("update t set r = r + 1 where id = 4", database=db)
        assert_changed(verify(walshadow, pg_newest, db, clickhouse, "t"), "k=4, key_digest=4, id=4")


def test_as_many_columns_as_a_table_can_have(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    with database(pg_newest) as db:
        columns = ", ".join(f"c{i} int2" for i in range(1599))
        pg_newest.execute(
            f"create table t (id int primary key, {columns}); insert into t (id, c7) values (1, 2)", database=db
        )
        assert load(walshadow, pg_newest, db, clickhouse, "--table", "t").code == 0
        assert_equal(walshadow, pg_newest, db, clickhouse, "t")
        pg_newest.execute("update t set c1598 = 0", database=db)
        assert_changed(verify(walshadow, pg_newest, db, clickhouse, "t"), "id=1")


MOMENTS = (
    "-infinity", "infinity", "0001-01-01 BC", "4713-01-01 BC", "1899-12-31", "1899-12-31 23:59:59.999999",
    "1900-01-01", "1900-01-01 00:00:00.000001", "2262-04-11 23:47:16.854775", "2262-04-11 23:47:16.854776",
    "2299-12-31", "2299-12-31 23:59:59", "2299-12-31 23:59:59.999999", "2299-12-31 23:59:59.5", "2300-01-01",
    "5000-01-01", "294276-12-31 23:59:59", "2024-02-29 12:00:00.123456",
)  # fmt: skip
MOMENT_COLUMNS = {
    "d": "date", "z": "timestamptz", "z0": "timestamptz(0)", "t": "timestamp",
    **{f"t{p}": f"timestamp({p})" for p in range(7)},
}  # fmt: skip


def _moments(pg: PostgresServer, db: str) -> None:
    """A row per moment, in every column, rounded as Postgres does; a NaN in every third; and a row of NULLs."""
    columns = ", ".join(f"{name} {kind}" for name, kind in MOMENT_COLUMNS.items())
    pg.execute(f"create table m (id int primary key, {columns}, n numeric(5,2), wide numeric(50,3))", database=db)
    for number, value in enumerate(MOMENTS):
        moments = ", ".join(f"'{value}'::timestamp" for _ in MOMENT_COLUMNS)
        nan = "'NaN'" if number % 3 == 0 else "1.25"
        pg.execute(f"insert into m values ({number}, {moments}, {nan}, {nan})", database=db)
    pg.execute(f"insert into m values ({len(MOMENTS)})", database=db)


@pytest.mark.parametrize("policy", ["clamp", "null"])
def test_values_that_the_policy_changed_are_no_differences(
    pg: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, policy: str
) -> None:
    option = ("--to-option", f"out_of_range={policy}")
    with database(pg) as db:
        _moments(pg, db)
        done = load(walshadow, pg, db, clickhouse, "--table", "m", *option)
        assert done.code == 0, done.err
        checked = assert_equal(walshadow, pg, db, clickhouse, "m", *option)
        assert checked.json["adjusted"] == done.json["tables"][0]["adjusted"]
        assert checked.json["adjusted"]["n"] == checked.json["adjusted"]["wide"] == 6
        assert set(checked.json["adjusted"]) == {*MOMENT_COLUMNS, "n", "wide"}
        assert f"public.m.t3: {checked.json['adjusted']['t3']:,} values" in checked.err
        other = ("--to-option", f"out_of_range={'null' if policy == 'clamp' else 'clamp'}")
        assert verify(walshadow, pg, db, clickhouse, "m", *other).code == 4
        pg.execute("update m set t3 = '2299-12-31 23:59:59.998' where t3 = 'infinity'", database=db)
        checked = verify(walshadow, pg, db, clickhouse, "m", *option)
        assert_changed(checked, f"id={MOMENTS.index('infinity')}")


def test_under_the_error_policy_a_value_out_of_range_is_a_difference(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    option = ("--to-option", "out_of_range=error")
    with database(pg_newest) as db:
        pg_newest.execute(
            "create table m (id int primary key, d date, t timestamp(3), n numeric(5,2), keep timestamptz);"
            "insert into m values (1, '2299-12-31', '2299-12-31 23:59:59.999', 1, 'epoch'), (2, '2024-01-01', null, 2, null)",
            database=db,
        )
        assert load(walshadow, pg_newest, db, clickhouse, "--table", "m", *option).code == 0
        assert assert_equal(walshadow, pg_newest, db, clickhouse, "m", *option).json["adjusted"] == {}
        for change in ("d = 'infinity'", "t = '-infinity'", "n = 'NaN'", "d = '2300-01-01'"):
            pg_newest.execute(f"create table kept as select * from m; update m set {change} where id = 1", database=db)
            checked = verify(walshadow, pg_newest, db, clickhouse, "m", *option)
            assert_changed(checked, "id=1")
            assert checked.json["adjusted"] == {}
            pg_newest.execute("delete from m; insert into m select * from kept; drop table kept", database=db)


BY_HAND = {
    "b": ("bool", "UInt8", "true", "false"),
    "c": ('"char"', "Int16", "'\\377'", "'\\376'"),
    "i": ("int2", "Int64", "-3", "-4"),
    "o": ("oid", "Int64", "4294967295", "4294967294"),
    "f": ("float4", "Float64", "0.1", "0.10000001"),
    "n": ("numeric(10,2)", "Decimal(76, 2)", "1.10", "1.11"),
    "s": ("text", "LowCardinality(Nullable(String))", "'word'", "'word '"),
    "w": ("time", "Time64(9)", "'24:00'", "'23:59:59.999999'"),
    "t0": ("timestamp(0)", "DateTime64(6, 'Asia/Tokyo')", "'infinity'", "'2299-12-31 23:59:58'"),
    "t3": ("timestamp(3)", "DateTime64(9, 'UTC')", "'infinity'", "'2262-04-11 23:47:16.853'"),
    "t6": ("timestamp", "DateTime64(9)", "'2299-01-01'", "'2262-04-11 23:47:16.854774'"),
    "z": ("timestamptz(4)", "DateTime64(6)", "'-infinity'", "'1900-01-01 00:00:00.0001+00'"),
}
"""Per column: type at the source, type of the table made by hand, value, and its smallest step."""


@pytest.mark.parametrize("engine", ["ReplacingMergeTree(_lsn) ORDER BY id", "MergeTree ORDER BY tuple()"])
def test_a_table_made_by_hand_with_wider_types(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, engine: str
) -> None:
    pg, name = pg_newest, clickhouse.database
    with database(pg) as db:
        columns = ", ".join(f"{c} {source}" for c, (source, _, _, _) in BY_HAND.items())
        pg.execute(f"create table t (id text primary key, {columns}); insert into t (id) values ('none')", database=db)
        for column, (_, _, value, _) in BY_HAND.items():
            pg.execute(f"insert into t (id, {column}) values ('{column}', {value})", database=db)
        there = ", ".join(
            f"{c} {kind if 'Nullable' in kind else f'Nullable({kind})'}" for c, (_, kind, _, _) in BY_HAND.items()
        )
        clickhouse.client.command(f"CREATE DATABASE {name} ENGINE = Atomic")
        clickhouse.client.command(
            f"CREATE TABLE {name}.t ({there}, seen DateTime DEFAULT now(), id String, _lsn UInt64, _xid UInt32,"
            f" _commit_ts DateTime64(6, 'UTC'), _is_deleted Bool) ENGINE = {engine}",
            settings={"enable_time_time64_type": 1},
        )
        done = load(walshadow, pg, db, clickhouse, "--table", "t")
        assert done.code == 0, done.err
        checked = assert_equal(walshadow, pg, db, clickhouse, "t")
        assert checked.json["adjusted"] == done.json["tables"][0]["adjusted"] == {"t0": 1, "t3": 1, "t6": 1, "z": 1}
        for column, (_, _, _, step) in BY_HAND.items():
            pg.execute(f"update t set {column} = {step} where id = '{column}'", database=db)
        assert_changed(verify(walshadow, pg, db, clickhouse, "t"), *(f"id={column}" for column in BY_HAND))


def test_one_table_at_a_time(pg_newest: PostgresServer, walshadow: Run, clickhouse: EmbeddedClickHouse) -> None:
    """The last of two would be the only one that is compared."""
    checked = verify(walshadow, pg_newest, "postgres", clickhouse, "a", "--table", "b")
    assert (checked.code, checked.out) == (2, "")
    assert "--table was given 2 times; verify compares one table" in checked.err


def test_the_destination_is_read_as_a_reader_sees_it(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    pg, name = pg_newest, clickhouse.database
    with database(pg) as db:
        pg.execute(
            "create table t (id int primary key, v text); insert into t select i, 'v' from generate_series(1, 9) i",
            database=db,
        )
        assert load(walshadow, pg, db, clickhouse, "--table", "t").code == 0

        def version(id: int, value: str, lsn: str, deleted: str) -> None:
            clickhouse.client.command(f"INSERT INTO {name}.t SELECT {id}, '{value}', {lsn}, 0, now64(6), {deleted}")

        last = str(2**63)
        version(1, "older", "1", "false")
        version(2, "older and gone", "1", "true")
        version(10, "was there", "5", "false")
        version(10, "", last, "true")
        assert_equal(walshadow, pg, db, clickhouse, "t")
        version(3, "newer", last, "false")
        version(4, "v", last, "false")
        version(5, "", last, "true")
        version(11, "of nobody", last, "false")
        checked = verify(walshadow, pg, db, clickhouse, "t")
        assert checked.code == 4
        assert {(k["kind"], k["key"]) for k in checked.json["keys"]} == {
            ("changed", "id=3"), ("missing", "id=5"), ("extra", "id=11"),
        }  # fmt: skip
        pg.execute(
            "update t set v = 'newer' where id = 3; delete from t where id = 5; insert into t values (11, 'of nobody')",
            database=db,
        )
        assert_equal(walshadow, pg, db, clickhouse, "t")


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_databases_of_other_encodings(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run, encoding: str
) -> None:
    pg = pg_newest
    option = ("--invalid-text", "bytes") if encoding == "SQL_ASCII" else ()
    with database(pg, f"encoding '{encoding}' template template0 lc_collate 'C' lc_ctype 'C'") as db:
        with pg.connect(db, client_encoding=encoding) as conn:
            conn.execute("create table t (k text primary key, v varchar(9), b bpchar(4), n name, j json)")
            conn.execute(rb"insert into t values (E'\xe9', E'\xe8', E'\xe7', E'\xe6', E'[\x22\xe5\x22]')")
            conn.execute(rb"insert into t values ('plain', null, 'x', '', '1')")
        done = load(walshadow, pg, db, clickhouse, "--table", "t", *option)
        assert done.code == 0, done.err
        assert_equal(walshadow, pg, db, clickhouse, "t")
        for column in ("v", "b", "n"):
            with pg.connect(db, client_encoding=encoding) as conn:
                conn.execute("create table kept as select * from t")
                conn.execute(b"update t set " + column.encode() + rb" = E'\xf8' where k <> 'plain'")
                checked = verify(walshadow, pg, db, clickhouse, "t")
                conn.execute("delete from t; insert into t select * from kept; drop table kept")
            assert_changed(checked, "k=é" if encoding == "LATIN1" else "k=\\351")
        assert_equal(walshadow, pg, db, clickhouse, "t")


@dataclass
class Served:
    """A database behind HTTP."""

    url: str


def test_over_http(pg_newest: PostgresServer, walshadow: Run, tmp_path: Path) -> None:
    pg = pg_newest
    with database(pg) as db, EngineProcess(tmp_path / "engine") as engine:
        pg.execute(
            "create table t (id int primary key, v text, k bytea);"
            "insert into t select i, 'v' || i, int4send(i) from generate_series(1, 50000) i", database=db,
        )  # fmt: skip
        to = Served(engine.url("shop"))
        assert load(walshadow, pg, db, to, "--table", "t").code == 0
        assert_equal(walshadow, pg, db, to, "t")
        pg.execute("update t set v = 'w40000' where id = 40000; delete from t where id = 3", database=db)
        checked = verify(walshadow, pg, db, to, "t")
        assert checked.code == 4
        assert {(k["kind"], k["key"]) for k in checked.json["keys"]} == {("extra", "id=3"), ("changed", "id=40000")}


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["different", "alike"])
def test_memory_does_not_grow_with_the_differences(pg_newest: PostgresServer, tmp_path: Path, rows: str) -> None:
    """A million rows that all differ, keyed; and a million copies of one row, without a key."""

    def peak_mib(db: str, url: str, table: str) -> float:
        words = ("verify", "--source", pg_newest.dsn(db), "--to", url, "--table", table, "--json")
        ran, peak = with_peak(*words)
        assert ran.code == 4, ran.err
        found = ran.json
        assert (found["changed"] or found["missing"]) == found["source_rows"]
        return peak

    with database(pg_newest) as db, EngineProcess(tmp_path / "engine") as engine:
        url = engine.url("big")
        for table, count in (("few", 1000), ("many", 1_000_000)):
            if rows == "different":
                make = (
                    f"(id int primary key, v int); insert into {table} select i, i from generate_series(1, {count}) i"
                )
                change = f"update {table} set v = v + 1"
            else:
                make = f"(id int, v int); insert into {table} select 1, 1 from generate_series(1, {count}) i"
                change = f"update {table} set v = 2"
            pg_newest.execute(f"create table {table} {make}", database=db)
            words = ("--source", pg_newest.dsn(db), "--to", url, "--table", table, "--no-progress")
            assert main(("load", *words)) == 0
            pg_newest.execute(change, database=db)
        few, many = (peak_mib(db, url, table) for table in ("few", "many"))
        print(f"peak: {few:.0f} MiB for 1,000 rows, {many:.0f} MiB for 1,000,000")
        assert many < few + 120
