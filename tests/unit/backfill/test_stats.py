"""What a load counts, its summary and its exit code."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.unit.backfill.made import relation
from walshadow_core.api import BackupEnd, BackupStart, Lsn
from walshadow_core.backfill.stats import LoadStats, TableStats


def _stats() -> LoadStats:
    return LoadStats([TableStats(relation("app.a", 1), "a"), TableStats(relation("app.b", 2), "b")])


def test_exit_codes() -> None:
    stats = _stats()
    assert stats.exit_code() == 0
    stats.refused = {"app.v": "it is a view"}
    assert stats.exit_code() == 3
    stats.refused = {}
    stats.tables[0].fail("torn")
    assert (stats.exit_code(), stats.all_failed) == (3, False)
    stats.tables[1].fail("torn")
    assert (stats.exit_code(), stats.all_failed) == (1, True)


def test_the_first_reason_counts() -> None:
    table = _stats().tables[0]
    table.fail("first")
    table.phase = "done"
    table.fail("second")
    assert table.error == "first"
    assert table.summary()["status"] == "failed"


def test_the_summary() -> None:
    stats = _stats()
    stats.start = BackupStart(Lsn.parse("A/28"), 3, 2**63 + 1, 180000)
    stats.end = BackupEnd(Lsn.parse("A/100"), 3)
    stats.tables[0].phase = "done"
    stats.tables[0].adjusted = {"d": 2}
    stats.refused = {"app.v": "it is a view"}
    found = json.loads(json.dumps(stats.summary()))
    assert (found["b_redo"], found["b_end"], found["timeline"]) == ("A/28", "A/100", 3)
    assert found["system_identifier"] == str(2**63 + 1)
    assert [t["status"] for t in found["tables"]] == ["done", "waiting", "refused"]
    assert found["tables"][0]["adjusted"] == {"d": 2}
    assert found["exact"] is False


def test_exact_needs_every_table() -> None:
    stats = _stats()
    assert stats.summary()["exact"] is True
    stats.tables[1].exact = False
    assert stats.summary()["exact"] is False
    stats.tables[1].exact = True
    stats.tables[1].fail("torn")
    assert stats.summary()["exact"] is False
    assert stats.tables[1].summary()["exact"] is False


def test_a_size_that_was_not_asked_for_again_stays() -> None:
    table = TableStats(replace(relation("app.a", 1), size_bytes=8192), "a")
    table.begin_again(replace(relation("app.a", 1), size_bytes=0))
    assert (table.size, table.passes) == (8192, 2)
    table.begin_again(replace(relation("app.a", 1), size_bytes=16384))
    assert (table.size, table.passes) == (16384, 3)
