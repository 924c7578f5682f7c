"""How fast a heap file becomes Arrow, stage by stage, on one thread.

    python tests/bench/bench_decode.py [--rows N] [--repeat N] [--major N] [--table orders|accounts|wide|text|jsonb]

Makes the table in a throw-away server, reads its heap file after a checkpoint, and decodes it in buffers of
1 MiB as a load does. Times are CPU seconds of the thread, the best of the repeats.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

from walshadow_core.api import Bytes, RelationDescriptor
from walshadow_core.catalog.sql import read_catalog
from walshadow_core.decode import table
from walshadow_core.decode.columns import DecodeOptions
from walshadow_core.decode.deform import deform
from walshadow_core.decode.warmup import warmup
from walshadow_core.pgformat.heap import PAGE_SIZE, PageWalker
from walshadow_core.testing.postgres import PostgresServer, available_majors

BUFFER = 1 << 20

TABLES = {
    "orders": """
        create table t(id int8 not null, customer text not null, amount numeric(12,2), created timestamptz not null,
                       note text, paid bool not null);
        insert into t select g, 'customer ' || (g::int8 * 7919 % 100000), (g::int8 * 37 % 1000000) / 100.0,
          timestamptz '2024-01-01 00:00Z' + g * interval '1.5s',
          case when g % 3 > 0 then 'note for order ' || g || repeat('x', g % 20) end, g % 2 = 0
        from generate_series(1, {rows}) g""",
    "accounts": """
        create table t(aid int4 not null, bid int4, abalance int4, filler char(84));
        insert into t select g, g / 100000 + 1, 0, '' from generate_series(1, {rows}) g""",
    "wide": "create table t(" + ", ".join(
        f"i{k} int4, l{k} int8, f{k} float8, n{k} numeric(10,2), t{k} text, b{k} bool" for k in range(10)
    ) + "); insert into t select " + ", ".join(
        f"g + {k}, g::int8 * {k}, g / 3.0, (g % 10000) / 100.0, 'v' || g % 1000, g % {k + 2} = 0" for k in range(10)
    ) + " from generate_series(1, {rows} / 10) g",
    "text": """
        create table t(id int8, a text, b text, c text);
        insert into t select g, repeat(md5(g::text), 1 + g % 5), repeat('x', g % 200), md5((g + 1)::text)
        from generate_series(1, {rows}) g""",
    "jsonb": """
        create table t(id int8, j jsonb);
        insert into t select g, jsonb_build_object('id', g, 'customer', 'customer ' || g % 1000, 'amount', g / 100.0,
          'paid', g % 2 = 0, 'note', null, 'tags', jsonb_build_array('a', 'b"' || g % 7), 'at', timestamp '2024-01-01' + g * interval '1s',
          'address', jsonb_build_object('street', repeat('street ', 1 + g % 5), 'no', g % 100))
        from generate_series(1, {rows}) g""",
}  # fmt: skip


def make(sql: str, major: int) -> tuple[Bytes, RelationDescriptor]:
    """The heap file of the table that the SQL makes, and its descriptor."""
    with PostgresServer(major) as server:
        server.execute(sql)
        server.execute("vacuum freeze t")
        server.execute("checkpoint")
        relation = read_catalog(server.dsn(), ["t"]).relations[0]
        path = server.execute("select pg_relation_filepath('t')")[0][0]
        return np.fromfile(server.data / path, np.uint8), relation


def timed(seconds: dict[str, float], stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, its CPU time added to the stage's."""

    def call(*args: Any) -> Any:
        began = time.thread_time()
        result = function(*args)
        seconds[stage] += time.thread_time() - began
        return result

    return call


def decode(pages: Bytes, relation: RelationDescriptor, stages: dict[str, float] | None) -> int:
    """Decode all of it; gives the rows. With ``stages``, times them (which takes a little time itself)."""
    walker = PageWalker(BUFFER // PAGE_SIZE)
    decoder = table.TableDecoder(relation, DecodeOptions())
    walk = walker.walk
    if stages is not None:
        walk = timed(stages, "walk", walk)
        for builder, attribute in zip(decoder._builders, relation.columns, strict=True):
            name = f"build {attribute.name} {attribute.type_name}" if len(relation.columns) < 10 else "build"
            builder.append = timed(stages, name, builder.append)  # type: ignore[method-assign]
            builder.finish = timed(stages, "finish", builder.finish)  # type: ignore[method-assign]
    rows = 0
    for start in range(0, pages.size, BUFFER):
        buf = pages[start : start + BUFFER]
        rows += sum(batch.num_rows for batch in decoder.append(buf, walk(buf, start // PAGE_SIZE).data))
    last: pa.RecordBatch | None = decoder.finish()
    return rows + (last.num_rows if last is not None else 0)


def main() -> None:
    """Print rows/s of the whole and nanoseconds per row of each stage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--major", type=int, default=available_majors()[-1])
    parser.add_argument("--table", choices=sorted(TABLES), action="append")
    options = parser.parse_args()
    warmup()
    for name in options.table or list(TABLES):
        pages, relation = make(TABLES[name].replace("{rows}", str(options.rows)), options.major)
        rows, best = 0, float("inf")
        stages: dict[str, float] = {}
        for _ in range(options.repeat):
            began = time.thread_time()
            rows = decode(pages, relation, None)
            best = min(best, time.thread_time() - began)
            now: dict[str, float] = defaultdict(float)
            with mock.patch.object(table, "deform", timed(now, "deform", deform)):
                decode(pages, relation, now)
            stages = {stage: min(spent, stages.get(stage, spent)) for stage, spent in now.items()}
        print(f"{name}: {rows} rows, {pages.size / 1e6:.0f} MB: {rows / best / 1e6:.2f} M rows/s, "
              f"{pages.size / best / 1e6:.0f} MB/s")  # fmt: skip
        stages["Python in between"] = max(0.0, best - sum(stages.values()))
        for stage, spent in stages.items():
            print(f"  {stage:40} {spent / rows * 1e9:7.1f} ns/row  {spent / best:4.0%}")


if __name__ == "__main__":
    main()
