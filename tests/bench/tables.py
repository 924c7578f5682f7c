"""The tables of the benchmark: one each in a cluster that holds little else."""

from __future__ import annotations

from dataclasses import dataclass

_SHORT_ROWS = ("narrow", "pgbench_accounts")


@dataclass(frozen=True)
class BenchTable:
    """A table to load: how it is made, its key, and for ConnectorX a column to partition on."""

    name: str
    sql: str
    key: str
    rows: int


def _wide(rows: int) -> str:
    kinds = [
        ("int", "((i * {n}) % 1000003)::int"),
        ("bigint", "i::bigint * {n}"),
        ("double precision", "i / {n}.0"),
        ("timestamptz", "timestamptz '2024-01-01 00:00+00' + i * interval '{n} seconds'"),
        ("boolean", "i % {n} = 0"),
        ("numeric(12,2)", "(i % 100000) / {n}.0"),
        ("text", "'value ' || (i % ({n} * 100))"),
        ("date", "date '2000-01-01' + ((i * {n}) % 9000)::int"),
        ("smallint", "((i * {n}) % 30000)::smallint"),
        ("real", "i / {n}.0"),
    ]
    columns, values = [], []
    for n in range(59):
        kind, value = kinds[n % len(kinds)]
        value = value.format(n=n + 2)
        columns.append(f"c{n} {kind}")
        values.append(f"case when i % 10 <> {n % 10} then {value} end" if n % 4 == 3 else value)
    return (
        f"create table bench (id bigint primary key, {', '.join(columns)});"
        f"insert into bench select i, {', '.join(values)} from generate_series(1::bigint, {rows}) i"
    )


def bench_tables(rows: int) -> list[BenchTable]:
    """The four tables of the benchmark, ``rows`` rows each."""
    narrow = (
        "create table bench (id bigint primary key, customer text, amount numeric(12,2), created timestamptz, note text,"
        " paid boolean);"
        "insert into bench select i, 'customer ' || i % 50000, (i % 1000000) / 100.0,"
        " timestamptz '2024-01-01 00:00+00' + i * interval '1 second',"
        " case when i % 3 = 0 then 'note number ' || i end, i % 2 = 0"
        f" from generate_series(1::bigint, {rows}) i"
    )
    text = (
        "create table bench (id bigint primary key, title text not null, body text, tags text, author varchar(40));"
        "insert into bench select i, 'Title of article number ' || i, repeat('Lorem ipsum dolor sit amet. ', 5 + (i % 12)::int),"
        " 'tag' || i % 40 || ',tag' || i % 7, 'author ' || i % 1000"
        f" from generate_series(1::bigint, {rows}) i"
    )
    pgbench = (
        "create table bench (aid int primary key, bid int, abalance int, filler char(84));"
        f"insert into bench select i, 1 + i / 100000, 0, '' from generate_series(1, {rows}) i"
    )
    return [
        BenchTable("narrow", narrow, "id", rows),
        BenchTable("wide", _wide(rows), "id", rows),
        BenchTable("text", text, "id", rows),
        BenchTable("pgbench_accounts", pgbench, "aid", rows),
    ]


def sized_tables(rows: int) -> list[BenchTable]:
    """The same, those of short rows with three times the rows: their heaps are then about as large as the others', and
    what a load costs once weighs as it does there."""
    more = {table.name: table for table in bench_tables(3 * rows)}
    return [more[table.name] if table.name in _SHORT_ROWS else table for table in bench_tables(rows)]
