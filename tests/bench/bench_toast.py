"""How long a table of compressed values takes to load, beside its twin of the same values uncompressed.

    python tests/bench/bench_toast.py [--mib N] [--repeat N] [--major N] [--method pglz|lz4] [--place inline|outside]
                                      [--value BYTES] [--check]

Each of the twins is alone in a cluster of its own, and is loaded in turn, by the program in a process of its own, into
an embedded ClickHouse. ``--mib`` is the size of the values uncompressed. ``--check`` exits with 1 where the compressed
one takes more than 3 times as long.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack

from walshadow_core.testing.postgres import PostgresServer, available_majors

BAR = 3.0
STORAGES = {"inline": ("main", "plain"), "outside": ("extended", "external")}

MAKE = """
    create table t (id int8 not null, v text not null);
    alter table t alter v set storage {storage}, alter v set compression {method};
    insert into t select g, (
      select left(string_agg(jsonb_build_object('id', g * 100 + k, 'name', 'customer ' || (g * 7919 + k * 31) % 5000,
        'amount', (g * 37 + k * 101) % 100000 / 100.0, 'note', md5((g * k % 1000)::text), 'paid', k % 2 = 0)::text, ','),
        {value}) from generate_series(1, {value} / 100) k
    ) from generate_series(1, {rows}) g;
    vacuum freeze t
"""

LOAD = """
import sys
from walshadow_core.cli.main import main
sys.exit(main(["load", "--source", sys.argv[1], "--table", "t", "--to", sys.argv[2], "--json", "--no-progress"]))
"""


def load(server: PostgresServer) -> float:
    """Seconds of one load."""
    with tempfile.TemporaryDirectory(prefix="walshadow-bench-") as folder:
        words = [sys.executable, "-c", LOAD, server.dsn(), f"chdb://{folder}/engine?database=bench"]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1])["seconds"])


def main() -> int:
    """Print seconds of each run, and the ratio of the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--value", type=int, default=4000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--major", type=int, default=available_majors()[-1])
    parser.add_argument("--method", choices=("pglz", "lz4"), default="pglz")
    parser.add_argument("--place", choices=tuple(STORAGES), default="inline")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    rows = (options.mib << 20) // options.value
    seconds: dict[str, list[float]] = {storage: [] for storage in STORAGES[options.place]}
    with ExitStack() as stack:
        servers = {}
        for storage in seconds:
            server = servers[storage] = stack.enter_context(PostgresServer(options.major))
            for statement in MAKE.format(storage=storage, rows=rows, **vars(options)).split(";"):
                server.execute(statement)
            server.execute("checkpoint")
            sizes = "select pg_relation_size('t'), pg_table_size('t'), sum(pg_column_size(v)), sum(length(v)) from t"
            own, whole, stored, raw = (int(x) for x in server.execute(sizes)[0])
            print(
                f"{storage}: {own >> 20} MiB of rows, {(whole - own) >> 20} MiB beside them, values {raw / stored:.2f} : 1"
            )
        for _ in range(options.repeat + 1):
            for storage, server in servers.items():
                seconds[storage].append(load(server))
    (compressed, uncompressed) = (statistics.median(runs[1:]) for runs in seconds.values())
    for storage, runs in seconds.items():
        print(f"{storage}: {' '.join(f'{s:.2f}' for s in runs[1:])} s")
    ratio = compressed / uncompressed
    print(
        f"{options.method} {options.place}: {compressed:.2f} s to {uncompressed:.2f} s: {ratio:.2f} times (bar: {BAR})"
    )
    return 1 if options.check and ratio > BAR else 0


if __name__ == "__main__":
    sys.exit(main())
