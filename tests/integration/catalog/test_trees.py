"""Partition roots and inheritance trees: leaves, keys, and what the user is told."""

from __future__ import annotations

from tests.integration.catalog.support import Database
from walshadow_core.api import RelationDescriptor
from walshadow_core.catalog.sql import read_catalog

_ROOT = """
    create table root (id int not null, region text not null, at date not null, note text) partition by list (region);
    create table north partition of root for values in ('n');
    create table south (junk int, note text, at date not null, region text not null, id int not null);
    alter table south drop column junk; alter table root attach partition south for values in ('s');
    create table rest partition of root default partition by range (at);
    create table rest_old partition of rest for values from (minvalue) to ('2024-01-01') partition by hash (id);
    create table rest_old_0 partition of rest_old for values with (modulus 2, remainder 0);
    create table rest_old_1 partition of rest_old for values with (modulus 2, remainder 1);
    create table rest_new partition of rest default;"""


def _names(relation: RelationDescriptor) -> list[str]:
    return [leaf.name for leaf in relation.leaves]


def test_a_root_has_its_leaves_at_any_depth(db: Database) -> None:
    db.execute(_ROOT + "insert into root select g, 'n', '2024-01-01' from generate_series(1, 3000) g")
    root = db.one("root")
    assert (root.kind, root.locator.number, root.toast_oid, root.key, root.system) == ("p", 0, 0, (), ())
    assert _names(root) == ["north", "south", "rest_old_0", "rest_old_1", "rest_new"]
    assert [leaf.leaves for leaf in root.leaves] == [()] * 5 and root.stored == root.leaves
    assert [leaf.oid for leaf in root.leaves] == sorted(leaf.oid for leaf in root.leaves)
    assert root.size_bytes == sum(leaf.size_bytes for leaf in root.leaves) > 0
    south = root.leaves[1]
    assert south == db.one("south"), "a leaf is the descriptor of the table alone"
    assert [(a.number, a.name) for a in south.columns] == [(2, "note"), (3, "at"), (4, "region"), (5, "id")]
    assert _names(db.one("rest")) == ["rest_old_0", "rest_old_1", "rest_new"]
    assert db.one("north").leaves == () and db.one("north").stored == (db.one("north"),)


def test_a_key_of_the_root_holds_over_all_leaves(db: Database) -> None:
    db.execute(_ROOT + "alter table root add primary key (region, at, id)")
    root = db.one("root")
    assert root.key_names == ("region", "at", "id") and root.system == ()
    assert db.catalog("root").notices[root.oid] == ()


def test_a_key_that_only_the_leaves_have(db: Database) -> None:
    db.execute(_ROOT)
    leaves = ("north", "south", "rest_old_0", "rest_old_1", "rest_new")
    for leaf in leaves:
        assert db.one("root").key == (), "one leaf has no key yet"
        db.execute(f"alter table {leaf} add primary key (id)")
    root = db.one("root")
    assert root.key_names == ("id", "tableoid") and root.key == (1, -6)
    assert [a.name for a in root.columns] == ["id", "region", "at", "note", "tableoid"]
    assert any("tableoid joins it" in notice for notice in db.catalog("root").notices[root.oid])
    db.execute("alter table north drop constraint north_pkey, add primary key (id, at)")
    root = db.one("root")
    assert root.key == () == root.system
    assert any("no key" in notice for notice in db.catalog("root").notices[root.oid])


def test_a_root_without_leaves_and_one_that_is_detached(db: Database) -> None:
    db.execute("create table empty (a int primary key, b text) partition by range (a)")
    empty = db.one("empty")
    assert (empty.leaves, empty.stored, empty.size_bytes, empty.key_names) == ((), (), 0, ("a",))
    db.execute(_ROOT + "alter table root detach partition rest")
    assert _names(db.one("root")) == ["north", "south"]
    assert _names(db.one("rest")) == ["rest_old_0", "rest_old_1", "rest_new"]


def test_a_root_and_its_leaf_are_not_loaded_both(db: Database) -> None:
    db.execute(_ROOT)
    snapshot = db.catalog("south", "root", "rest_new", "rest")
    assert snapshot.relations == ()
    reasons = dict(snapshot.refused)
    assert reasons.keys() == {"south", "root", "rest_new", "rest"}
    assert all("rows in common" in reason for reason in reasons.values())
    assert "south and root" in reasons["south"]
    assert [r.name for r in db.catalog("south", "rest").relations] == ["south", "rest"]


def test_inheritance(db: Database) -> None:
    db.execute("""create table parent (id int primary key, x text not null);
        create table child (y int, primary key (id)) inherits (parent);
        create table grandchild (z int, primary key (id)) inherits (child);
        create table other (id int primary key, own int, x text not null); alter table other inherit parent;
        insert into other values (1, 2, 'x')""")
    snapshot = db.catalog("parent")
    (alone,) = snapshot.relations
    assert alone.leaves == () and alone.key_names == ("id",)
    (notice,) = snapshot.notices[alone.oid]
    assert "public.child, public.grandchild, public.other" in notice and "--with-children" in notice
    snapshot = read_catalog(db.dsn(), ["parent", "other"], with_children=True)
    assert [name for name, _ in snapshot.refused] == ["parent", "other"]
    (tree,) = read_catalog(db.dsn(), ["parent"], with_children=True).relations
    assert tree.kind == "r" and _names(tree) == ["parent", "child", "grandchild", "other"]
    assert tree.leaves[0] == alone and tree.locator == alone.locator
    assert tree.key_names == ("id", "tableoid") and [a.name for a in tree.columns] == ["id", "x", "tableoid"]
    assert tree.size_bytes == sum(leaf.size_bytes for leaf in tree.leaves)
    db.execute("create table plain (a int primary key)")
    (plain,) = read_catalog(db.dsn(), ["plain"], with_children=True).relations
    assert plain == db.one("plain") and plain.leaves == ()


def test_children_may_have_nulls_where_the_parent_has_none(db: Database) -> None:
    no_inherit = "no inherit" if db.server.major >= 18 else ""
    db.execute(f"create table parent (a int not null {no_inherit})")
    db.execute("create table child () inherits (parent)")
    if not no_inherit:
        db.execute("alter table child alter a drop not null")
    db.execute("insert into child values (null)")
    (tree,) = read_catalog(db.dsn(), ["parent"], with_children=True).relations
    assert [leaf.attributes[0].not_null for leaf in tree.leaves] == [True, False]
    assert not tree.attributes[0].not_null


def test_a_temporary_child_is_nobody_elses(db: Database) -> None:
    db.execute("create table parent (a int)")
    with db.server.connect(db.name) as other:
        other.execute("create temporary table child () inherits (parent)")
        (tree,) = read_catalog(db.dsn(), ["parent"], with_children=True).relations
        assert tree.leaves == ()
        assert db.catalog("parent").notices[tree.oid][0].startswith("public.parent: it has no key")


def test_a_partition_that_is_being_detached_is_left_out(db: Database) -> None:
    db.execute("""create table root (a int primary key) partition by range (a);
        create table one partition of root for values from (0) to (10);
        create table two partition of root for values from (10) to (20)""")
    with db.server.connect(db.name, autocommit=False) as holder:
        holder.execute("select * from root").fetchall()
        with db.server.connect(db.name) as detacher:
            detacher.execute("set statement_timeout = '300ms'")
            try:
                detacher.execute("alter table root detach partition two concurrently")
            except Exception as error:
                assert "statement timeout" in str(error)
        assert db.value("select count(*) from pg_inherits where inhdetachpending") == 1
        assert _names(db.one("root")) == ["one"]


def test_materialized_views_and_tables_that_cannot_be_followed(db: Database) -> None:
    db.execute("""create table t (a int not null, b int); create materialized view m as select 1 as a;
        create table n (a int primary key); alter table n replica identity nothing;
        create table f (a int not null unique); alter table f replica identity full;
        create table good (a int primary key)""")
    snapshot = db.catalog("t", "m", "n", "f", "good")
    assert snapshot.refused == ()
    told = {r.name: snapshot.notices[r.oid] for r in snapshot.relations}
    assert "it has no key (REPLICA IDENTITY DEFAULT)" in told["t"][0]
    assert "REFRESH" in told["m"][0] and snapshot.relations[1].kind == "m"
    assert "logs no old keys" in told["n"][0]
    assert told["f"] == () == told["good"]
