"""Which file of a backup is walked, collected or skipped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.backfill.made import relation
from walshadow_core.api import RelFileLocator
from walshadow_core.backfill.routing import Route, Router, Use
from walshadow_core.visibility.status import CopiedStatus


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("global/pg_control", Route(Use.CONTROL)),
        ("base/5/16384", Route(Use.WALK, 0, 0)),
        ("base/5/16384.12", Route(Use.WALK, 0, 12)),
        ("base/5/16385", Route(Use.WALK, 1, 0)),
        ("base/6/16384", Route(Use.SKIP)),
        ("base/5/16384_fsm", Route(Use.SKIP)),
        ("base/5/16384_vm", Route(Use.SKIP)),
        ("base/5/16384_init", Route(Use.SKIP)),
        ("base/5/16386", Route(Use.SKIP)),
        ("base/5/t3_16384", Route(Use.SKIP)),
        ("base/5/pg_filenode.map", Route(Use.SKIP)),
        ("pg_tblspc/70000/PG_18_202506291/5/16384", Route(Use.SKIP)),
        ("pg_xact/0000", Route(Use.STATUS)),
        ("pg_multixact/offsets/0001", Route(Use.STATUS)),
        ("pg_multixact/members/0001", Route(Use.STATUS)),
        ("pg_subtrans/0000", Route(Use.SKIP)),
        ("backup_label", Route(Use.SKIP)),
    ],
)
def test_route(path: str, route: Route, tmp_path: Path) -> None:
    status = CopiedStatus(folder=tmp_path)
    try:
        relations = [relation("app.a", 16384), relation("app.b", 16385)]
        assert Router(relations, status).route(path) == route
    finally:
        status.close()


def test_leaves_and_their_toast_relations(tmp_path: Path) -> None:
    status = CopiedStatus(folder=tmp_path)
    leaves = (relation("app.one", 16385), relation("app.two", 16386))
    leaves = (leaves[0], replace(leaves[1], toast_locator=RelFileLocator(1663, 5, 16390)))
    root = replace(relation("app.root", 16384), kind="p", leaves=leaves)
    try:
        router = Router([relation("app.a", 16383), root], status)
        assert router.route("base/5/16384") == Route(Use.SKIP), "a root has no file"
        assert router.route("base/5/16385.2") == Route(Use.WALK, 1, 2, 0)
        assert router.route("base/5/16386") == Route(Use.WALK, 1, 0, 1)
        assert router.route("base/5/16390") == Route(Use.CHUNKS, 1, 0, 1)
    finally:
        status.close()
