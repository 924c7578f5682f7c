"""After the warm-up, a load compiles nothing: every kernel has the signatures that a load asks for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from walshadow_core.testing.postgres import PostgresServer

SCRIPT = """
import sys
from pathlib import Path
from walshadow_core.cli.main import main
from walshadow_core.cli.warmup import load_kernels
from walshadow_core.plugins import Plugins

def signatures():
    found = {}
    for name, module in sorted(sys.modules.items()):
        if name.startswith(("walshadow_core.", "walshadow_sink_")):
            for key, value in vars(module).items():
                if hasattr(value, "signatures") and getattr(value, "__module__", "") == name:
                    found[f"{name}.{key}"] = list(value.signatures)
    return found

load_kernels(Plugins.load())
before = signatures()
code = main(["load", "--source", sys.argv[1], "--table", "every_kind", "--to", sys.argv[2], "--no-progress",
    *(f"--type=every_kind.{column}=String" for column in ("g", "n", "ae", "ak", "an", "aq", "v", "k"))])
after = signatures()
late = {k: v for k, v in after.items() if v != before.get(k) and v}
print("LATE", late)
assert not late, late
assert len(before) > 15
sys.exit(code)
"""


def test_a_load_after_the_warm_up_compiles_nothing(pg_newest: PostgresServer, tmp_path: Path) -> None:
    pg_newest.execute(
        """create table every_kind (id bigint primary key, a bool, b "char", c int2, d int4, e oid, f float4, g float8,
            h numeric(9,2), i numeric(18,4), j numeric(30,5), k numeric(60,5), l numeric, m text, n varchar(9), o char(9),
            p name, q bytea, r date, s time, t timetz, u timestamp(3), v timestamptz, w interval, x uuid, y json);
        insert into every_kind select i, i % 2 = 0, 'x', i, i, i, i, i, i, i, i, i, i / 7.0, 'é' || i, 'v', 'o', 'p', 'q',
            '2024-01-01', '12:00', '12:00+01', '2024-01-01', '2024-01-01', '1 day', gen_random_uuid(), '{}'
            from generate_series(1, 2000) i;
        create extension if not exists ltree; create extension if not exists cube; create extension if not exists vector;
        create extension if not exists hstore;
        alter table every_kind add aa inet default '::1', add ab cidr, add ac macaddr, add ad varbit, add ae money,
            add af point, add ag path, add ah pg_lsn, add ai tid, add aj xid8, add ak regclass, add al ltree,
            add am cube, add an vector, add ao halfvec, add ap jsonb, add aq int[], add ar float8[], add at inet[],
            add au jsonpath, add av tsvector, add aw tsquery, add ax pg_snapshot, add ay hstore;
        insert into every_kind (id, ab, ac, ad, ae, af, ag, ah, ai, aj, ak, al, am, an, ao, ap, aq, ar, at, au, av, aw, ax, ay) values
            (2001, '10/8', '08002b010203', '101', '1', '(1,2)', '[(1,2)]', '1/2', '(1,2)', '3', 'pg_class', 'a.b', '(1,2)',
            '[1,2]', '[1,2]', '[{"a": 1}]', '{1,null}', '{1.5}', '{1.2.3.4}', '$.a', 'a:1', 'a & b',
            '1:2:', 'a=>1');
        create type mood as enum ('sad'); create type pair as (x int, y text);
        alter table every_kind add ba mood, add bb pair not null default (1, 'a'), add bc pair, add bd int4range,
            add be nummultirange, add bf text[][], add bg mood[], add bh pair[], add bi int2vector, add bj bool[];
        insert into every_kind (id, ba, bc, bd, be, bf, bg, bh, bi, bj) values (2002, 'sad', (2, 'b'), '[1,2)', '{[1,2)}',
            '{{a,b},{c,NULL}}', '{sad}', '{"(1,a)"}', '1 2', '{t,NULL}');
        insert into every_kind (id) select i from generate_series(3001, 3100) i;
        alter table every_kind alter q set storage external;
        insert into every_kind (id, m, q) values (5000, repeat('compressed', 9000), convert_to(repeat('outside', 9000), 'UTF8'));
        insert into every_kind (id, r, u, v, h) values (4000, 'infinity', '-infinity', 'infinity', 'NaN')"""
    )
    try:
        ran = subprocess.run(
            [sys.executable, "-c", SCRIPT, pg_newest.dsn(), f"chdb://{tmp_path}/engine?database=warm"],
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        pg_newest.execute("drop table every_kind; drop type mood, pair; drop extension ltree, cube, vector, hstore")
    assert ran.returncode == 0, ran.stdout + ran.stderr
