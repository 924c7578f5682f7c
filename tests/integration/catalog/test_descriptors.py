"""Every field of a descriptor against what the server says by other means."""

from __future__ import annotations

import os
import uuid

from tests.integration.catalog.support import Database
from walshadow_core.api import RelFileLocator


def _every_type(major: int) -> str:
    virtual = ", v int generated always as (a + 1) virtual" if major >= 18 else ""
    return f"""
        create table everything (a int not null, b bool, c "char", d int2, e int8, f oid, g float4, h float8,
          i numeric, j numeric(10,2), k numeric(3,-2), l text, m varchar(10), n bpchar, o char(7), p name, q bytea,
          r date, s time(3), t timetz, u timestamp, w timestamptz(0), x interval day to second, y uuid, z json,
          aa jsonb, ab int[], ac int generated always as (a * 2) stored{virtual}, "Zürich ""x"" ." text,
          primary key (l, a))"""


def test_every_field(db: Database) -> None:
    db.execute(_every_type(db.server.major))
    db.execute("insert into everything (a, l) select g, repeat('x', 100) from generate_series(1, 1000) g")
    relation = db.one("everything")
    row = db.execute("""
        select 'everything'::regclass::oid::int8, pg_relation_filepath('everything'), relkind, relpersistence,
          relreplident, reltoastrelid::int8, pg_relation_filepath(reltoastrelid),
          pg_relation_size('everything') from pg_class where oid = 'everything'::regclass""")[0]
    oid, path, kind, persistence, identity, toast, toast_path, size = row
    database = db.catalog().cluster.database_oid
    assert (relation.oid, relation.database, relation.schema, relation.name) == (
        oid, db.name, "public", "everything")  # fmt: skip
    assert relation.locator == RelFileLocator(1663, database, int(path.rpartition("/")[2]))
    assert relation.toast_locator == RelFileLocator(1663, database, int(toast_path.rpartition("/")[2]))
    assert (relation.kind, relation.persistence, relation.replica_identity) == (kind, persistence, identity)
    assert (relation.toast_oid, relation.size_bytes, relation.encoding) == (toast, size, "UTF8")
    assert size > 0 and relation.key_names == ("l", "a")
    expected = db.execute("""
        select attnum, attname, atttypid::int8, format_type(atttypid, atttypmod), atttypmod, attlen, attalign,
          attbyval, attstorage, attnotnull, attisdropped, attgenerated
        from pg_attribute where attrelid = 'everything'::regclass and attnum > 0 order by attnum""")
    assert [(a.number, a.name, a.type_oid, a.type_name, a.typmod, a.length, a.alignment, a.by_value, a.storage,
             a.not_null, a.dropped, a.generated) for a in relation.attributes] == expected  # fmt: skip
    assert all(a.missing is None for a in relation.attributes)
    assert {a.generated for a in relation.attributes} == {"", "s"} | ({"v"} if db.server.major >= 18 else set())


def test_a_table_without_toast_and_without_columns(db: Database) -> None:
    db.execute("create table narrow (a int); create table none ()")
    assert db.one("narrow").toast_oid == 0 and db.one("narrow").toast_locator is None
    assert db.one("none").attributes == () == db.one("none").key
    assert db.one("none").size_bytes == 0


def test_a_rewritten_table_has_its_new_file(db: Database) -> None:
    db.execute("create table t (a int, x text); insert into t select g from generate_series(1, 99) g")
    before = db.one("t")
    db.execute("vacuum full t")
    after = db.one("t")
    assert after.oid == before.oid and after.locator != before.locator
    assert after.toast_locator != before.toast_locator and after.toast_oid == before.toast_oid
    assert after.locator.number == db.value("select pg_relation_filenode('t')::int8")


def test_dropped_columns_leave_no_gap(db: Database) -> None:
    db.execute("""create table t (a int, b text, c numeric(9,1) not null default 1, d int);
        insert into t values (1); alter table t add e text default 'e', add f int;
        alter table t drop column b, drop column c, drop column e""")
    relation = db.one("t")
    assert [a.number for a in relation.attributes] == [1, 2, 3, 4, 5, 6]
    assert [a.dropped for a in relation.attributes] == [False, True, True, False, True, False]
    assert [a.name for a in relation.columns] == ["a", "d", "f"]
    layout = db.execute("select attlen, attalign from pg_attribute where attrelid = 't'::regclass and attnum > 0 "
                        "order by attnum")  # fmt: skip
    assert [(a.length, a.alignment) for a in relation.attributes] == layout
    assert all(a.missing is None and a.type_name == "" for a in relation.attributes if a.dropped)


def test_a_tablespace(db: Database) -> None:
    server = db.server
    assert server.root is not None
    space = f"space_{uuid.uuid4().hex[:8]}"
    folder = server.root / space
    folder.mkdir()
    os.chown(folder, server.data.stat().st_uid, server.data.stat().st_gid)
    db.execute(f"create tablespace {space} location '{folder}'")
    try:
        db.execute(f"create table here (x text); create table there (x text) tablespace {space}")
        oid = db.value("select oid::int8 from pg_tablespace where spcname = %s", (space,))
        snapshot = db.catalog("here", "there")
        here, there = snapshot.relations
        assert snapshot.cluster.tablespaces[oid] == str(folder)
        assert here.locator.tablespace == 1663 and there.locator.tablespace == oid
        assert there.toast_locator is not None and there.toast_locator.tablespace == oid
        db.execute("drop table there")
        server.execute(f"alter database {db.name} set tablespace {space}")
        moved = db.one("here")
        assert moved.locator.tablespace == oid, "the database's own tablespace stands for 0"
        assert f"pg_tblspc/{oid}/" in db.value("select pg_relation_filepath('here')")
    finally:
        server.execute(f"alter database {db.name} set tablespace pg_default")
        server.execute(f"drop tablespace {space}")
