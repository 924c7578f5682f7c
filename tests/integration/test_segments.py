"""Segments of a relation's file, and files that are damaged or not there: block numbers are right, and a table that
can't be read fails alone, naming file and block."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest

from tests.conftest import MAJORS, EmbeddedClickHouse
from tests.integration.catalog.backups import MadeFile
from tests.integration.support import Run, assert_equal, database, load
from walshadow_core.api import (
    Backup,
    BackupEnd,
    BackupFile,
    BackupPart,
    BackupRequest,
    BackupStart,
    Lsn,
    RelationDescriptor,
    SourceError,
)
from walshadow_core.backfill.load import load as load_tables
from walshadow_core.backfill.load import plan_tables
from walshadow_core.backfill.options import LoadOptions
from walshadow_core.backfill.recheck import SqlRecheck
from walshadow_core.backfill.stats import LoadStats, TableStats
from walshadow_core.catalog.sql import CatalogSnapshot, read_catalog
from walshadow_core.decode.columns import DecodeOptions
from walshadow_core.pgformat.heap import PAGE_SIZE
from walshadow_core.pgformat.relpath import relation_path
from walshadow_core.plugins import Plugins
from walshadow_core.testing.postgres import PostgresServer

SEGMENT_BLOCKS = 16
SEGMENT = SEGMENT_BLOCKS * PAGE_SIZE


@dataclass
class Part:
    """All files."""

    content: Sequence[MadeFile]
    name: str = "folder"
    paths: frozenset[str] | None = None
    bytes_read: int = 0

    @property
    def size(self) -> int:
        return sum(f.size for f in self.content)

    def files(self) -> Iterator[BackupFile]:
        for file in self.content:
            yield file
            self.bytes_read += file.size


@dataclass
class FolderBackup:
    """An open backup."""

    start: BackupStart
    part: Part

    def parts(self) -> Sequence[BackupPart]:
        return (self.part,)

    def end(self) -> BackupEnd:
        return BackupEnd(self.start.b_redo, self.start.timeline)


@dataclass
class FolderSource:
    """A BackupSource over the data directory of a server at rest, with segments of SEGMENT_BLOCKS blocks. ``change``
    may alter the list of files."""

    pg: PostgresServer
    relations: Sequence[RelationDescriptor]
    change: Callable[[list[MadeFile]], list[MadeFile]] = field(default=lambda files: files)

    def preflight(self) -> None:
        """Nothing is in the way."""

    @contextmanager
    def open(self, request: BackupRequest) -> Iterator[Backup]:
        redo, timeline, identifier = self.pg.execute(
            "select redo_lsn::text, timeline_id, system_identifier from pg_control_checkpoint(), pg_control_system()"
        )[0]
        yield FolderBackup(BackupStart(Lsn.parse(redo), timeline, identifier, 0), Part(self.change(self.files())))

    def files(self) -> list[MadeFile]:
        """The tables' files in segments, transaction status, and pg_control at last."""
        found: list[MadeFile] = []
        for relation in self.relations:
            path = relation_path(relation.locator)
            content = (self.pg.data / path).read_bytes()
            for segment, at in enumerate(range(0, max(len(content), 1), SEGMENT)):
                suffix = f".{segment}" if segment else ""
                found.append(MadeFile(path + suffix, content[at : at + SEGMENT]))
        for folder in ("pg_xact", "pg_multixact/offsets", "pg_multixact/members"):
            found += [MadeFile(f"{folder}/{p.name}", p.read_bytes()) for p in sorted((self.pg.data / folder).iterdir())]
        found.append(MadeFile("global/pg_control", (self.pg.data / "global/pg_control").read_bytes()))
        return found


def heap(files: list[MadeFile], relation: RelationDescriptor) -> list[int]:
    """Where the table's segments are in the list."""
    path = relation_path(relation.locator)
    return [n for n, f in enumerate(files) if re.fullmatch(re.escape(path) + r"(\.\d+)?", f.path)]


@pytest.fixture(scope="module")
def checked() -> Iterator[PostgresServer]:
    """A server with data checksums."""
    with PostgresServer(MAJORS[-1], initdb=("--locale=C", "--encoding=UTF8", "--data-checksums")) as pg:
        yield pg


@dataclass
class Scene:
    """A database with tables ``one`` (some 70 blocks, 5 segments) and ``two`` (some 20, 2 segments)."""

    pg: PostgresServer
    db: str
    to: EmbeddedClickHouse
    catalog: CatalogSnapshot

    @property
    def one(self) -> RelationDescriptor:
        return self.catalog.relations[0]

    @property
    def two(self) -> RelationDescriptor:
        return self.catalog.relations[1]

    def load(self, change: Callable[[list[MadeFile]], list[MadeFile]] = lambda files: files) -> LoadStats:
        """Load both out of a backup that ``change`` has altered."""
        plugins = Plugins.load()
        destination = plugins.destination(self.to.url, {})
        try:
            names = {r.oid: r.name for r in self.catalog.relations}
            planned, _ = plan_tables(
                destination, self.catalog.relations, names, DecodeOptions(), replace=False, choices={}
            )
            stats = LoadStats([TableStats(p.relation, p.plan.table) for p in planned])
            load_tables(
                FolderSource(self.pg, self.catalog.relations, change), destination,
                replace(self.catalog.cluster, segment_blocks=SEGMENT_BLOCKS), planned, stats,
                lambda status: plugins.resolver(status, {"resolver": "gate"}),
                lambda: SqlRecheck(lambda _: self.catalog.relations), LoadOptions(),
            )  # fmt: skip
        finally:
            destination.close()
        return stats


@pytest.fixture
def scene(checked: PostgresServer, clickhouse: EmbeddedClickHouse) -> Iterator[Scene]:
    with database(checked) as db:
        checked.execute(
            "create table one (id int primary key, v text); create table two (id int primary key, v text);"
            "insert into one select i, repeat('one', 30) || i from generate_series(1, 4500) i;"
            "insert into two select i, repeat('two', 30) || i from generate_series(1, 1300) i;"
            "update one set v = 'new' where id % 50 = 0; delete from one where id % 51 = 0",
            database=db,
        )
        checked.execute("checkpoint")
        catalog = read_catalog(checked.dsn(db), ["one", "two"])
        assert catalog.cluster.data_checksums
        assert [r.size_bytes // SEGMENT for r in catalog.relations] == [4, 1]
        yield Scene(checked, db, clickhouse, catalog)


def test_every_segment_has_its_block_numbers(scene: Scene, walshadow: Run) -> None:
    """A page's checksum holds for its block number alone, and segments come in any order."""

    def shuffled(files: list[MadeFile]) -> list[MadeFile]:
        seed = random.randrange(1 << 32)
        print(f"seed {seed}")
        order = list(files)
        random.Random(seed).shuffle(order)
        return order

    for change in (lambda files: files, shuffled):
        stats = scene.load(change)
        assert stats.exit_code() == 0, stats.summary()
        assert all(t.exact for t in stats.tables), stats.summary()
        assert [t.pages for t in stats.tables] == [r.size_bytes // PAGE_SIZE for r in scene.catalog.relations]
        for table in ("one", "two"):
            assert_equal(walshadow, scene.pg, scene.db, scene.to, table)


def test_segments_that_changed_places_are_found_out(scene: Scene) -> None:
    def swapped(files: list[MadeFile]) -> list[MadeFile]:
        at = heap(files, scene.one)
        first, second = files[at[1]], files[at[2]]
        files[at[1]], files[at[2]] = MadeFile(first.path, second.content), MadeFile(second.path, first.content)
        return files

    stats = scene.load(swapped)
    one, two = stats.tables
    assert one.error is not None
    path = relation_path(scene.one.locator)
    block = re.match(rf"{path}\.([12]): block (\d+) fails its checksum", one.error)
    assert block is not None, one.error
    assert int(block[2]) == SEGMENT_BLOCKS * int(block[1])
    assert two.phase == "done"
    assert stats.exit_code() == 3
    assert scene.to.tables() == {"two"}


@pytest.mark.parametrize("block", [0, 15, 16, 41])
def test_a_flipped_bit_fails_its_table_and_no_other(scene: Scene, walshadow: Run, block: int) -> None:
    assert scene.load().exit_code() == 0

    def flipped(files: list[MadeFile]) -> list[MadeFile]:
        at = heap(files, scene.one)[block // SEGMENT_BLOCKS]
        content = bytearray(files[at].content)
        content[block % SEGMENT_BLOCKS * PAGE_SIZE + PAGE_SIZE - 100] ^= 0x10
        files[at] = MadeFile(files[at].path, bytes(content))
        return files

    stats = scene.load(flipped)
    one, two = stats.tables
    suffix = f".{block // SEGMENT_BLOCKS}" if block >= SEGMENT_BLOCKS else ""
    assert (one.error or "").startswith(f"{relation_path(scene.one.locator)}{suffix}: block {block} fails its checksum")
    assert (two.phase, stats.exit_code()) == ("done", 3)
    assert scene.to.tables() == {"one", "two"}
    # What was there before is there still.
    assert_equal(walshadow, scene.pg, scene.db, scene.to, "one")


@pytest.mark.parametrize("cut", [1, PAGE_SIZE - 1, PAGE_SIZE + 3])
def test_a_truncated_file_fails_its_table(scene: Scene, cut: int) -> None:
    def truncated(files: list[MadeFile]) -> list[MadeFile]:
        at = heap(files, scene.one)[-1]
        files[at] = MadeFile(files[at].path, files[at].content[:-cut])
        return files

    stats = scene.load(truncated)
    one, two = stats.tables
    assert one.error is not None
    assert relation_path(scene.one.locator) + ".4 has " in one.error
    assert two.phase == "done"
    assert scene.to.tables() == {"two"}


def test_when_every_table_has_failed_the_rest_is_not_read(scene: Scene) -> None:
    def truncated(files: list[MadeFile]) -> list[MadeFile]:
        for table in (scene.one, scene.two):
            at = heap(files, table)[0]
            files[at] = MadeFile(files[at].path, files[at].content[:-1])
        return files

    whole = scene.load().bytes_read
    stats = scene.load(truncated)
    assert stats.exit_code() == 1
    assert all(t.error and "not a whole number of pages" in t.error for t in stats.tables)
    assert stats.end is None
    assert stats.bytes_read < whole - 2 * PAGE_SIZE


def test_a_segment_or_page_that_is_missing_is_not_exact(scene: Scene) -> None:
    """Whole pages may be missing from a table that was written to meanwhile: the copy says that it is not exact."""

    def without_the_last(files: list[MadeFile]) -> list[MadeFile]:
        del files[heap(files, scene.one)[-1]]
        return files

    stats = scene.load(without_the_last)
    one, two = stats.tables
    assert (one.phase, one.exact, len(one.warnings)) == ("done", False, 1)
    assert two.exact


@pytest.mark.parametrize(("missing", "reason"), [("global/pg_control", "no global/pg_control")])
def test_a_backup_that_is_not_complete_is_an_error(scene: Scene, missing: str, reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        scene.load(lambda files: [f for f in files if f.path != missing])
    assert scene.to.tables() == set()


def test_a_segment_larger_than_a_segment_is_refused(scene: Scene) -> None:
    def joined(files: list[MadeFile]) -> list[MadeFile]:
        at = heap(files, scene.one)
        files[at[0]] = MadeFile(files[at[0]].path, files[at[0]].content + files[at[1]].content)
        return files

    one, two = scene.load(joined).tables
    assert one.error is not None and "not a whole number of pages of a segment" in one.error
    assert two.phase == "done"


def test_a_read_that_fails_in_the_middle(scene: Scene) -> None:
    class Broken(MadeFile):
        def chunks(self) -> Iterator[memoryview]:
            yield from list(super().chunks())[:3]
            raise SourceError("the disk is gone")

    def broken(files: list[MadeFile]) -> list[MadeFile]:
        at = heap(files, scene.one)[2]
        files[at] = Broken(files[at].path, files[at].content)
        return files

    with pytest.raises(SourceError, match="the disk is gone"):
        scene.load(broken)
    assert scene.to.tables() == set()


@pytest.mark.slow
def test_a_table_of_more_than_a_gibibyte(
    pg_newest: PostgresServer, clickhouse: EmbeddedClickHouse, walshadow: Run
) -> None:
    """Three real segments, through BASE_BACKUP."""
    with database(pg_newest) as db:
        pg_newest.execute(
            "create table big (id int primary key, v text, n int);"
            "alter table big alter v set storage plain;"
            "insert into big select i, repeat(md5(i::text), 60), i from generate_series(1, 1100000) i;"
            "update big set n = -1 where id % 1000 = 0",
            database=db,
        )
        size = pg_newest.execute("select pg_relation_size('big')", database=db)[0][0]
        assert size > 2 << 30
        done = load(walshadow, pg_newest, db, clickhouse, "--table", "big")
        assert done.code == 0, done.err
        table = done.json["tables"][0]
        assert (table["bytes"], table["rows_written"], table["exact"]) == (size, 1_100_000, True)
        assert_equal(walshadow, pg_newest, db, clickhouse, "big")
