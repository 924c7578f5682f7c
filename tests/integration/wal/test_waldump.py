"""Our reading of the WAL against pg_waldump's, record by record, over all that a server writes."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.conftest import MAJORS
from tests.integration.support import Run
from tests.integration.work import lock_and_update_at_once, run
from walshadow_core.api import Lsn
from walshadow_core.testing.postgres import PostgresServer, find_binaries

EVERYTHING = """
create table t (id int primary key, a text, b int4range, c int[], p point, j jsonb);
insert into t select i, repeat('x', i % 300), int4range(i, i + 5), array[i, i + 1], point(i, i),
  jsonb_build_object('k', i) from generate_series(1, 3000) i;
create index on t using hash (a);
create index on t using gin (c);
create index on t using gin (j);
create index on t using gist (b);
create index on t using spgist (p);
create index on t using brin (id);
create index on t (a);
update t set a = 'y' || a, c = c || 7 where id % 3 = 0;
delete from t where id % 5 = 0;
begin; update t set a = 'rolled back'; rollback;
begin; insert into t (id) values (100001); savepoint s; insert into t (id) values (100002); rollback to s;
  insert into t (id) values (100003); commit;
begin; select * from t where id = 1 for update; select * from t where id = 2 for share; commit;
insert into t (id) values (1) on conflict (id) do update set a = 'conflict';
checkpoint;
update t set a = a || 'z' where id % 2 = 0;
vacuum t;
vacuum (freeze, analyze) t;
delete from t where id > 1500;
vacuum t;
cluster t using t_pkey;
reindex table t;
alter table t add column n numeric(10, 2) default 1.5;
alter table t alter column a type varchar(2000);
truncate t;
create table toasted (v text); alter table toasted alter v set storage external;
insert into toasted select repeat(md5(i::text), 500) from generate_series(1, 20) i;
create sequence s; select nextval('s') from generate_series(1, 100);
select lo_from_bytea(0, 'large object');
create materialized view m as select * from toasted; refresh materialized view m;
create role somebody; create schema x; drop schema x; drop role somebody;
begin; insert into t (id) values (5); prepare transaction 'one'; commit prepared 'one';
begin; insert into t (id) values (6); prepare transaction 'two'; rollback prepared 'two';
select pg_logical_emit_message(true, 'walshadow', repeat('m', 50000));
select pg_logical_emit_message(false, 'walshadow', 'short');
create unlogged table u (i int); insert into u values (1);
create database other strategy wal_log; create database another strategy file_copy; drop database other;
select pg_create_restore_point('here');
select pg_switch_wal();
create table parts (i int) partition by range (i); create table part1 partition of parts for values from (0) to (10);
insert into parts select i from generate_series(0, 9) i;
drop table toasted, t cascade;
select pg_current_xact_id();
checkpoint;
"""

CASES = [
    *[pytest.param(major, "off", id=f"pg{major}") for major in MAJORS],
    *[
        pytest.param(major, "pglz", id=f"pg{major}-pglz", marks=[] if major == MAJORS[-1] else [pytest.mark.slow])
        for major in MAJORS
    ],
    # Not every build has these; Debian's has.
    pytest.param(MAJORS[0], "lz4", id=f"pg{MAJORS[0]}-lz4", marks=pytest.mark.slow),
    pytest.param(MAJORS[0], "zstd", id=f"pg{MAJORS[0]}-zstd", marks=pytest.mark.slow),
]
LINE = re.compile(
    r"rmgr: (\S+)\s+len \(rec/tot\):\s*(\d+)/\s*(\d+), tx:\s*(\d+), lsn: ([0-9A-F/]+), prev ([0-9A-F/]+), desc: (.*)"
)
BLOCK = re.compile(r"blkref #(\d+): rel (\d+)/(\d+)/(\d+)(?: (?:fork )?(fsm|vm|init))? blk (\d+)( FPW| \(FPW\))?")


def run_everything(server: PostgresServer) -> None:
    """Each statement by itself, then several clients at once, multixacts and all."""
    run(server, EVERYTHING)
    run(
        server,
        "create table acc (id int primary key, n int); insert into acc select i, 0 from generate_series(1, 50) i;",
    )
    lock_and_update_at_once(server, "acc", 60)


def lsn(text: str) -> str:
    """Without leading zeros, as Lsn prints it."""
    return str(Lsn.parse(text))


def dumped(major: int, folder: Path, first: str, last: str) -> list[tuple[Any, ...]]:
    """What pg_waldump prints, field by field; the name of the type is the beginning of the last one."""
    binaries = find_binaries(major)
    assert binaries is not None
    out = subprocess.run(
        [binaries / "pg_waldump", "-p", str(folder), "-s", first, "-e", last],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    records = []
    for line in out.stdout.splitlines():
        match = LINE.match(line)
        assert match, line
        blocks = [
            (int(b[1]), int(b[2]), int(b[3]), int(b[4]), b[5] or "main", int(b[6]), b[7] is not None)
            for b in BLOCK.finditer(match[7])
        ]
        sizes = int(match[2]), int(match[3])
        records.append((match[1], *sizes, int(match[4]), lsn(match[5]), lsn(match[6]), blocks, match[7]))
    return records


@pytest.mark.parametrize(("major", "compression"), CASES)
def test_every_record_is_what_pg_waldump_says(major: int, compression: str, walshadow: Run) -> None:
    """Resource manager, type, lengths, transaction, LSNs, and every block reference with its image."""
    settings = {
        "wal_level": "logical", "max_prepared_transactions": "5", "track_commit_timestamp": "on", "wal_keep_size": "'1GB'",
    }  # fmt: skip
    with PostgresServer(major, settings=settings) as server:
        try:
            server.execute(f"alter system set wal_compression = '{compression}'")
        except psycopg.Error as error:
            pytest.skip(f"this server's build has no {compression}: {error}")
        server.execute("select pg_reload_conf()")
        run_everything(server)
        server.stop()
        folder = server.data / "pg_wal"
        files = sorted(f for f in folder.iterdir() if re.fullmatch("[0-9A-F]{24}", f.name))
        done = walshadow("inspect", "wal", "--json", *map(str, files))
        assert done.code == 0, done.err
        ours = [json.loads(line) for line in done.out.splitlines()]
        theirs = dumped(major, folder, ours[0]["lsn"], ours[-1]["lsn"])
        if compression == "off":
            assert {"Heap", "Heap2", "Btree", "Hash", "Gin", "Gist", "SPGist", "BRIN", "Sequence", "XLOG",
                    "Transaction", "Storage", "Database", "Standby", "MultiXact", "LogicalMessage", "RelMap"
                    } <= {r["rmgr"] for r in ours}  # fmt: skip
    assert len(ours) == len(theirs) + 1, "-e names the record at which pg_waldump stops"
    for our, their in zip(ours, theirs, strict=False):
        blocks = [
            (b["id"], b["tablespace"], b["database"], b["relation"], b["fork"], b["block"], b["image_bytes"] > 0)
            for b in our["blocks"]
        ]
        assert (
            our["rmgr"], our["length"] - our["image_bytes"], our["length"], our["xid"], our["lsn"], our["previous"],
            blocks,
        ) == their[:-1]  # fmt: skip
        assert their[-1].startswith(our["type"]), (our, their)
