"""One load of one table by one contender, in a process of its own; prints one JSON line.

The clock starts when everything is imported (kernels are code: they are loaded from their cache too) and stops when the rows are in the table and can be read. Every
contender writes into a ReplacingMergeTree of an embedded engine, or, with ``--to http://…``, of an engine in another process.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable
from functools import cache
from typing import Any

FAST_INSERT = {"optimize_on_insert": 0, "max_insert_threads": 2}


def client_of(url: str) -> Any:
    """A clickhouse-connect client with the database ``bench``."""
    import clickhouse_connect

    client = clickhouse_connect.get_client(dsn=url)
    client.command("CREATE DATABASE IF NOT EXISTS bench ENGINE = Atomic")
    return client


def create_target(client: Any, dsn: str, key: str) -> None:
    """A ReplacingMergeTree with the columns of the source, as ClickHouse itself maps them."""
    described = client.query(f"DESCRIBE TABLE {_postgresql(dsn)}").result_rows
    columns = ", ".join(f"`{r[0]}` {_not_null(r[1]) if r[0] == key else r[1]}" for r in described)
    client.command("DROP TABLE IF EXISTS bench.bench SYNC")
    client.command(f"CREATE TABLE bench.bench ({columns}) ENGINE = ReplacingMergeTree ORDER BY `{key}`")


def _not_null(kind: str) -> str:
    return kind.removeprefix("Nullable(").removesuffix(")") if kind.startswith("Nullable(") else kind


def _postgresql(dsn: str) -> str:
    from psycopg.conninfo import conninfo_to_dict

    p = conninfo_to_dict(dsn)
    return f"postgresql('{p['host']}:{p['port']}', '{p['dbname']}', 'bench', '{p['user']}', 'none')"


def walshadow(dsn: str, url: str, key: str, client: Any) -> dict[str, Any]:
    """``walshadow load --from base_backup``."""
    from walshadow_core.api import UsageError
    from walshadow_core.backfill.load import load, plan_tables
    from walshadow_core.backfill.options import LoadOptions
    from walshadow_core.backfill.recheck import SqlRecheck
    from walshadow_core.backfill.stats import LoadStats, TableStats
    from walshadow_core.catalog.sql import read_catalog

    plugins = _plugins()
    catalog = read_catalog(dsn, ["bench"])
    destination = plugins.destination(url, {})
    try:
        relation = catalog.relations[0]
        planned, refused = plan_tables(
            destination, [relation], {relation.oid: "bench"}, LoadOptions().decode, replace=True, choices={}
        )
        if refused:
            raise UsageError(str(refused))
        stats = LoadStats([TableStats(p.relation, p.plan.table) for p in planned])
        source = plugins.source("base_backup", {"dsn": dsn})
        result = load(
            source,
            destination,
            catalog.cluster,
            planned,
            stats,
            lambda status: plugins.resolver(status, {"resolver": "gate"}),
            lambda: SqlRecheck(lambda moment: read_catalog(dsn, ["bench"], seeing=moment).relations),
            LoadOptions(),
        )
        if stats.exit_code():
            raise RuntimeError(stats.tables[0].error)
        return {"stages": dict(result.seconds), "passes": stats.tables[0].passes, "exact": stats.tables[0].exact}
    finally:
        destination.close()


@cache
def _plugins() -> Any:
    """The plugins, loaded before the clock starts, as drivers are."""
    from walshadow_core.plugins import Plugins

    return Plugins.load()


def adbc(dsn: str, url: str, key: str, client: Any) -> dict[str, Any]:
    """ADBC's COPY read, batch by batch into an Arrow insert."""
    import adbc_driver_postgresql.dbapi as dbapi

    with dbapi.connect(_uri(dsn)) as conn, conn.cursor() as cursor:
        cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(64 << 20)})
        cursor.execute("SELECT * FROM bench")
        for batch in cursor.fetch_record_batch():
            client.insert_arrow("bench.bench", _table(batch), settings=FAST_INSERT)
    return {}


def connectorx(dsn: str, url: str, key: str, client: Any) -> dict[str, Any]:
    """ConnectorX in two partitions, then Arrow inserts."""
    import connectorx as cx

    table = cx.read_sql(
        _uri(dsn), "SELECT * FROM bench", return_type="arrow", partition_on=key, partition_num=2, protocol="binary"
    )
    for batch in table.to_batches(max_chunksize=500_000):
        client.insert_arrow("bench.bench", _table(batch), settings=FAST_INSERT)
    return {}


def postgresql_function(dsn: str, url: str, key: str, client: Any) -> dict[str, Any]:
    """ClickHouse reads Postgres itself."""
    client.command(f"INSERT INTO bench.bench SELECT * FROM {_postgresql(dsn)}", settings=FAST_INSERT)
    return {}


def _uri(dsn: str) -> str:
    from psycopg.conninfo import conninfo_to_dict

    p = conninfo_to_dict(dsn)
    return f"postgresql://{p['user']}@{p['host']}:{p['port']}/{p['dbname']}"


def _table(batch: Any) -> Any:
    """ADBC's numerics come as text in an extension type: ClickHouse wants the storage."""
    import pyarrow as pa

    columns = [c.storage if isinstance(c, pa.ExtensionArray) else c for c in batch.columns]
    return pa.Table.from_arrays(columns, names=batch.schema.names)


def decode_alone(dsn: str, url: str, key: str, client: Any) -> dict[str, Any]:
    """Heap file, already in the page cache, to Arrow batches: walk, gate and decoder in one thread."""
    from pathlib import Path

    import numpy as np
    import psycopg

    from walshadow_core.catalog.sql import read_catalog
    from walshadow_core.decode.table import TableDecoder
    from walshadow_core.decode.types import DecodeOptions
    from walshadow_core.pgformat.heap import PAGE_SIZE, PageWalker
    from walshadow_core.visibility.gate import Gate
    from walshadow_core.visibility.status import CopiedStatus

    relation = read_catalog(dsn, ["bench"]).relations[0]
    with psycopg.connect(dsn) as conn:
        row = conn.execute("select current_setting('data_directory'), pg_relation_filepath('bench')").fetchone()
    assert row is not None
    heap = Path(row[0], row[1])
    gate, walker = Gate(CopiedStatus()), PageWalker()
    decoder = TableDecoder(relation, DecodeOptions(), block_bytes=8 << 20)
    buffer = np.empty(128 * PAGE_SIZE, np.uint8)
    rows, started = 0, time.perf_counter()
    for segment in sorted(heap.parent.glob(f"{heap.name}*"), key=lambda p: (len(p.name), p.name)):
        if segment.name != heap.name and not segment.name.startswith(f"{heap.name}."):
            continue
        with segment.open("rb", buffering=0) as file:
            while length := file.readinto(buffer):  # type: ignore[attr-defined]
                walk = walker.walk(buffer[:length], 0)
                assert (gate.decide(walk.headers) == 1).all()
                rows += sum(b.num_rows for b in decoder.append(buffer[:length], walk.data))
    last = decoder.finish()
    rows += last.num_rows if last is not None else 0
    return {"rows": rows, "seconds": time.perf_counter() - started}


def adbc_alone(dsn: str, url: str, key: str, client: Any) -> dict[str, Any]:
    """ADBC's COPY to Arrow batches, and nothing after."""
    import adbc_driver_postgresql.dbapi as dbapi

    rows, started = 0, time.perf_counter()
    with dbapi.connect(_uri(dsn)) as conn, conn.cursor() as cursor:
        cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(64 << 20)})
        cursor.execute("SELECT * FROM bench")
        for batch in cursor.fetch_record_batch():
            rows += batch.num_rows
    return {"rows": rows, "seconds": time.perf_counter() - started}


LOADS = ("walshadow", "adbc", "connectorx", "postgresql()")
READS = ("decode alone", "adbc alone")

CONTENDERS: dict[str, Callable[[str, str, str, Any], dict[str, Any]]] = {
    "walshadow": walshadow,
    "adbc": adbc,
    "connectorx": connectorx,
    "postgresql()": postgresql_function,
    "decode alone": decode_alone,
    "adbc alone": adbc_alone,
}


def _import_all(name: str) -> None:
    import pyarrow  # noqa: F401

    if name.startswith("adbc"):
        import adbc_driver_postgresql.dbapi  # noqa: F401
    elif name == "connectorx":
        import connectorx  # noqa: F401
    elif name in ("walshadow", "decode alone"):
        import importlib

        from walshadow_core.cli.warmup import load_kernels

        load_kernels(_plugins())
        for module in (
            "walshadow_core.backfill.load",
            "walshadow_sink_clickhouse.destination",
            "walshadow_source_basebackup.source",
        ):
            importlib.import_module(module)


def _load(name: str, dsn: str, key: str, to: str | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="walshadow-bench-", ignore_cleanup_errors=True) as folder:
        engine = to or f"chdb://{folder}/engine"
        client = client_of(engine)
        client.command("DROP TABLE IF EXISTS bench.bench SYNC")
        if name != "walshadow":
            create_target(client, dsn, key)
        url = f"{engine.replace('http://', 'clickhouse://')}/bench" if to else f"{engine}?database=bench"
        started, cpu = time.perf_counter(), time.process_time()
        extra = CONTENDERS[name](dsn, url, key, client)
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        rows = client.query("SELECT count() FROM bench.bench").result_rows[0][0]
        return {"seconds": seconds, "cpu": cpu, "rows": rows, "peak_bytes": peak, **extra}


def main() -> None:
    """Parse, load, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("contender", choices=CONTENDERS)
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--to", help="an engine's URL (http://host:port) instead of an embedded one")
    args = parser.parse_args()
    _import_all(args.contender)
    if args.contender in READS:
        result = CONTENDERS[args.contender](args.dsn, "", args.key, None)
    else:
        result = _load(args.contender, args.dsn, args.key, args.to)
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
