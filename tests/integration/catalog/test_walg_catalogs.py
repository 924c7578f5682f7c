"""Catalogs out of backups that wal-g made: the tables and columns are those that the source had."""

from __future__ import annotations

import lzma
from functools import cache
from pathlib import Path

import pytest

from tests.integration.catalog.backups import MadeBackup, MadeSource, of_tars
from walshadow_core.api import RelationDescriptor
from walshadow_core.catalog.files.read import Asked, read_backup
from walshadow_core.catalog.sql import CatalogSnapshot

FOLDER = Path(__file__).parents[2] / "fixtures" / "walg_catalogs"
FIXTURES = sorted(path.name.removesuffix(".tar.xz") for path in FOLDER.glob("*.tar.xz"))

TABLES = {
    "shop.orders": ["id bigint", "customer integer", "status text", "amount numeric(12,2)", "note text",
                    "created timestamp with time zone", "tags text[]", "doc jsonb", "channel text"],
    "shop.items": ["order_id bigint", "line integer", "sku character varying(20)", "qty smallint",
                   "price double precision"],
    "shop.log": ["at timestamp without time zone", "what text"],
    "shop.part": ["id integer", "region text", "v bigint"],
    'shop."Weird ""name"" é"': ["id integer", "Ünï col text", "select date"],
    "shop.bystander": ["id integer", "filler text"],
}  # fmt: skip
KEYS = [("id",), ("order_id", "line"), (), ("id",), ("id",), ("id",)]


@cache
def backup_of(fixture: str) -> MadeBackup:
    major = int(fixture[-2:])
    return of_tars([lzma.decompress((FOLDER / f"{fixture}.tar.xz").read_bytes())], major * 10000)


def read(fixture: str, database: str, tables: list[str]) -> CatalogSnapshot:
    return read_backup(MadeSource([backup_of(fixture)]), Asked(database, tables)).snapshot


def shown(relation: RelationDescriptor) -> list[str]:
    return [f"{a.name} {a.type_name}" for a in relation.columns]


def test_every_major_is_here() -> None:
    assert {name[-2:] for name in FIXTURES} == {"15", "16", "17", "18"}


@pytest.mark.parametrize("fixture", FIXTURES)
def test_tables_and_columns(fixture: str) -> None:
    snapshot = read(fixture, "app", list(TABLES))
    assert snapshot.refused == ()
    assert [shown(r) for r in snapshot.relations] == list(TABLES.values())
    assert [r.key_names for r in snapshot.relations] == KEYS
    orders, items, log, part, *_ = snapshot.relations
    assert len(orders.attributes) == 10 and [a.number for a in orders.attributes if a.dropped] == [9]
    assert {a.name: a.missing for a in orders.columns if a.missing is not None} == {"channel": b"web"}
    assert orders.toast_locator is not None and orders.toast_oid
    assert (items.locator.tablespace != 1663) == fixture.startswith("tablespace")
    assert log.replica_identity == "f"
    assert part.kind == "p" and [leaf.name for leaf in part.leaves] == ["part_a", "part_b"]
    assert {r.encoding for r in snapshot.relations} == {"UTF8"} and snapshot.cluster.database == "app"


@pytest.mark.parametrize("fixture", FIXTURES)
def test_another_database_has_a_table_of_the_same_name(fixture: str) -> None:
    snapshot = read(fixture, "other", ["shop.orders", "shop.items"])
    assert [shown(r) for r in snapshot.relations] == [["id integer", "other_thing text"]]
    assert [r.name for r in snapshot.refused] == ["shop.items"]
