"""``walshadow inspect page`` and ``inspect file``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.support import Run, database
from walshadow_core.pgformat.heap import PAGE_SIZE
from walshadow_core.testing.postgres import PostgresServer


@pytest.fixture
def table(pg_newest: PostgresServer, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The DSN of a database, and a copy of the file of its table t, of at least 4 pages."""
    with database(pg_newest) as db:
        with pg_newest.connect(db) as connection:
            connection.execute("create table t (id int primary key, note text, tags text[])")
            connection.execute(
                "insert into t select i, repeat('x', 90) || i, array['a', null] from generate_series(1, 300) i"
            )
            connection.execute("update t set note = null where id = 2")
            connection.execute("delete from t where id = 3")
            connection.execute(
                "begin; alter table t add extra int; insert into t values (1000, 'late', null, 5); rollback"
            )
            connection.execute("create table root (a int) partition by list (a)")
            connection.execute("checkpoint")
            row = connection.execute("select pg_relation_filepath('t')").fetchone()
        assert row is not None
        copy = tmp_path / "16387"
        copy.write_bytes((pg_newest.data / row[0]).read_bytes())
        assert copy.stat().st_size >= 4 * PAGE_SIZE
        yield pg_newest.dsn(db), copy


def test_a_page(table: tuple[str, Path], walshadow: Run) -> None:
    _, file = table
    shown = walshadow("inspect", "page", str(file), "--block", "0")
    assert shown.code == 0 and shown.err == ""
    assert "layout version" in shown.out and "8192, 4" in shown.out
    assert "XMIN_COMMITTED" in shown.out or "XMAX_INVALID" in shown.out
    (page,) = [walshadow("inspect", "page", str(file), "--block", "0", "--json").json]
    assert page["block"] == 0 and page["problems"] == [] and page["lines"][0]["natts"] == 3
    assert page["lines"][0]["ctid"] == [0, 1] and "HEAP_HASVARWIDTH" in page["lines"][0]["flags"]
    assert page["lines"][1]["state"] == "redirect" and "ctid" not in page["lines"][1], "pruned"


def test_decoded_rows(table: tuple[str, Path], walshadow: Run) -> None:
    dsn, file = table
    words = ("--source", dsn, "--table", "t")
    page = walshadow("inspect", "page", str(file), "--block", "0", *words, "--json").json
    assert page["rows"][0]["values"] == {"id": "1", "note": "x" * 90 + "1", "tags": "{a,NULL}"}
    assert [row["xmax"] != 0 for row in page["rows"] if row["values"]["id"] == "3"] == [True], "a deleted one"
    lines = [json.loads(line) for line in walshadow("inspect", "file", str(file), *words, "--json").out.splitlines()]
    rows = [row for page in lines for row in page["rows"]]
    assert len(rows) == 301
    assert [r["error"] for r in rows if r["error"]] == ["the tuple has more attributes than the table"]
    assert any(r["values"] and r["values"]["note"] is None for r in rows)
    shown = walshadow("inspect", "file", str(file), *words, "--first", "1", "--pages", "1")
    assert shown.code == 0 and "{a,NULL}" in shown.out and "tags" in shown.out


def test_a_file(table: tuple[str, Path], walshadow: Run) -> None:
    _, file = table
    shown = walshadow("inspect", "file", str(file))
    assert shown.code == 0
    assert len(shown.out.splitlines()) == 1 + file.stat().st_size // PAGE_SIZE
    file.write_bytes(file.read_bytes() + bytes(PAGE_SIZE))
    assert "never initialised" in walshadow("inspect", "file", str(file)).out


def test_a_damaged_page(table: tuple[str, Path], walshadow: Run) -> None:
    dsn, file = table
    content = bytearray(file.read_bytes())
    content[2 * PAGE_SIZE + 14 : 2 * PAGE_SIZE + 16] = b"\xff\xff"
    file.write_bytes(content)
    shown = walshadow("inspect", "file", str(file), "--source", dsn, "--table", "t")
    assert shown.code == 1
    assert "block 2: page header's bounds of the free space make no sense" in shown.err
    assert f"{file}: 1 damaged page\n" in shown.err
    assert walshadow("inspect", "page", str(file), "--block", "1").code == 0
    page = walshadow("inspect", "page", str(file), "--block", "2", "--json")
    assert page.code == 1 and page.json["upper"] == 0xFFFF
    assert any("bounds" in problem for problem in page.json["problems"])


def test_a_wrong_checksum(table: tuple[str, Path], walshadow: Run) -> None:
    """The newest major has checksums by default; the test's servers have them where it does."""
    _, file = table
    content = bytearray(file.read_bytes())
    content[PAGE_SIZE - 1] ^= 1
    content[8:10] = b"\x12\x34"
    file.write_bytes(content)
    shown = walshadow("inspect", "page", str(file), "--block", "0")
    assert shown.code == 1 and "block 0: its checksum is 0x3412 and should be 0x" in shown.err


def test_what_can_not_be(table: tuple[str, Path], walshadow: Run) -> None:
    dsn, file = table
    beyond = walshadow("inspect", "page", str(file), "--block", "4000")
    assert beyond.code == 1 and "no block 4000" in beyond.err
    assert walshadow("inspect", "page", str(file), "--block", "0", "--table", "t").code == 2
    assert (
        "no such table" in walshadow("inspect", "page", str(file), "--block", "0", "--source", dsn, "--table", "u").err
    )
    assert walshadow("inspect", "page", str(file), "--block", "0", "--source", dsn, "--table", "root").code == 2
    missing = walshadow("inspect", "file", str(file.parent / "nothing"))
    assert missing.code == 1 and "can't be read" in missing.err
    file.write_bytes(file.read_bytes()[:-1])
    cut = walshadow("inspect", "file", str(file))
    assert cut.code == 1 and "is truncated: 8191 of 8192 bytes" in cut.err
