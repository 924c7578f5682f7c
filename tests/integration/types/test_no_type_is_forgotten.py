"""Every type of every major has a codec, in its own form and as text, or is on the list of those that have none."""

from __future__ import annotations

from tests.integration.support import database
from walshadow_core.api import TableRefused
from walshadow_core.catalog.sql import read_catalog
from walshadow_core.decode.columns import DecodeOptions
from walshadow_core.decode.types import codec_for
from walshadow_core.testing.postgres import PostgresServer

WITHOUT = {
    "pg_node_tree": "expressions of catalogs; no input function takes one",
    "aclitem": "privileges in catalogs; nobody keeps them in a table",
    "pg_ndistinct": "statistics of pg_statistic_ext_data",
    "pg_dependencies": "statistics of pg_statistic_ext_data",
    "pg_mcv_list": "statistics of pg_statistic_ext_data",
    "gtsvector": "keys of GiST indexes",
    "pg_brin_bloom_summary": "summaries of BRIN indexes",
    "pg_brin_minmax_multi_summary": "summaries of BRIN indexes",
    "lquery": "a query of ltree; --type …=hex has its bytes",
    "ltxtquery": "a query of ltree; --type …=hex has its bytes",
    "gbtreekey2": "keys of GiST indexes", "gbtreekey4": "keys of GiST indexes", "gbtreekey8": "keys of GiST indexes",
    "gbtreekey16": "keys of GiST indexes", "gbtreekey32": "keys of GiST indexes",
    "gbtreekey_var": "keys of GiST indexes", "ghstore": "keys of GiST indexes", "ltree_gist": "keys of GiST indexes",
}  # fmt: skip
"""What has no codec, and why."""

EXTENSIONS = ("hstore", "citext", "ltree", "cube", "vector")

TYPES = """
select format_type(t.oid, null), t.typname from pg_type t join pg_namespace n on n.oid = t.typnamespace
where t.typtype in ('b', 'e', 'r', 'm', 'd', 'c') and n.nspname in ('pg_catalog', 'public')
  and (t.typrelid = 0 or n.nspname = 'public') and t.typelem = 0 and t.typisdefined
union all
select format_type(t.oid, null), t.typname from pg_type t join pg_namespace n on n.oid = t.typnamespace
where t.typelem <> 0 and n.nspname in ('pg_catalog', 'public') and t.typsubscript = 'array_subscript_handler'::regproc
  and t.typelem in (select oid from pg_type where typrelid = 0 and typtype <> 'p')
order by 1"""


def test_every_type_has_a_codec(pg: PostgresServer) -> None:
    """A table with a column of each, arrays of each included; what is left out is left out for a reason."""
    with database(pg) as db:
        for extension in EXTENSIONS:
            if pg.execute("select from pg_available_extensions where name = %s", (extension,)):
                pg.execute(f"create extension {extension}", database=db)
        pg.execute("create type mood as enum ('sad', 'glad')", database=db)
        pg.execute("create type pair as (a int, b text)", database=db)
        pg.execute("create domain small as int check (value < 10)", database=db)
        pg.execute("create type textrange as range (subtype = text)", database=db)
        types = pg.execute(TYPES, database=db)
        columns = ", ".join(f"c{k} {name}" for k, (name, _) in enumerate(types))
        pg.execute(f"create table every_type ({columns})", database=db)
        [relation] = read_catalog(pg.dsn(db), ["every_type"]).relations
    assert len(relation.columns) == len(types) > 150
    without = set()
    for attribute, (_, internal) in zip(relation.columns, types, strict=True):
        for form in ("own", "text"):
            try:
                codec_for(attribute, "UTF8", DecodeOptions(), form)  # type: ignore[arg-type]
            except TableRefused as error:
                assert f'column "{attribute.name}" has type' in str(error)
                assert "hex" in str(error)
                without.add(internal.removeprefix("_"))
    known = {internal.removeprefix("_") for _, internal in types}
    assert without == set(WITHOUT) & known
