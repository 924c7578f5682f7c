"""The sink on a local folder and on a file system that can't rename: what lands, and what a crash leaves."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from walshadow_sink_parquet.destination import ParquetDestination
from walshadow_sink_parquet.folders import MARK
from walshadow_sink_parquet.plugin import walshadow_destination
from walshadow_sink_parquet.settings import Settings

from walshadow_core.api import (
    DATE_INFINITY,
    DECIMAL_NAN_128,
    DECIMAL_NAN_256,
    META_FIELDS,
    TIMESTAMP_NEG_INFINITY,
    Attribute,
    ColumnChoice,
    DestinationError,
    Lsn,
    PgType,
    RelationDescriptor,
    RelFileLocator,
    TablePlan,
    TableRefused,
    UsageError,
)

MOMENT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def attribute(number: int, name: str, oid: int, type_name: str, typmod: int = -1, filled: bool = False) -> Attribute:
    return Attribute(number, name, oid, type_name, typmod, -1, "i", False, "x", filled)


def relation(*attributes: Attribute, name: str = "t") -> RelationDescriptor:
    locator = RelFileLocator(1663, 16384, 16400)
    return RelationDescriptor(
        16400, "shop", "app", name, locator, "r", "p", "d", (attributes[0].number,), attributes, "UTF8"
    )


ID = attribute(1, "id", 23, "integer", filled=True)
NOTE = attribute(2, "note", 25, "text")
SIMPLE = relation(ID, NOTE)


@pytest.fixture(params=["file", "memory"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A URL with nothing under it: a local folder, and a file system whose renames are copies."""
    if request.param == "file":
        yield f"parquet+file://{tmp_path}/root"
        return
    import fsspec

    folder = uuid.uuid4().hex
    yield f"parquet+memory://{folder}"
    memory = fsspec.filesystem("memory")
    if memory.exists(f"/{folder}"):
        memory.rm(f"/{folder}", recursive=True)


def batch(plan: TablePlan, *columns: pa.Array, lsn: int = 1) -> pa.RecordBatch:
    rows = len(columns[0])
    meta = [pa.array([v] * rows, f.type) for v, f in zip((lsn, 0, MOMENT, False), META_FIELDS, strict=True)]
    names = [c.name for c in plan.columns] + [f.name for f in META_FIELDS]
    return pa.RecordBatch.from_arrays([*columns, *meta], names=names)


def simple(plan: TablePlan, numbers: list[int], lsn: int = 1) -> pa.RecordBatch:
    return batch(plan, pa.array(numbers, pa.int32()), pa.array([f"row {n}" for n in numbers]), lsn=lsn)


def load(destination: ParquetDestination, numbers: list[int], table: str = "t", lsn: int = 1) -> None:
    """As the core does it."""
    plan = destination.plan(SIMPLE, table)
    writer = destination.create_staging(plan)
    writer.write(simple(plan, numbers, lsn))
    writer.finish()
    if destination.fingerprint(table) is None:
        destination.rename(plan.staging, table)
    else:
        destination.exchange(plan.staging, table)
        destination.drop(plan.staging)


def read(destination: ParquetDestination, table: str = "t") -> pa.Table:
    """As any reader of Parquet folders sees it."""
    folders = destination._folders
    return ds.dataset(folders.parts(table), filesystem=folders.fs).to_table()


def ids(destination: ParquetDestination, table: str = "t") -> list[int]:
    return sorted(read(destination, table).column("id").to_pylist())


def entries(destination: ParquetDestination) -> list[str]:
    folders = destination._folders
    folders.fs.invalidate_cache()
    return sorted(e["name"].rsplit("/", 1)[1] for e in folders.fs.ls(folders.root, detail=True))


def test_a_second_load_replaces_the_first_and_leaves_no_staging(root: str) -> None:
    destination = ParquetDestination(root, Settings())
    load(destination, [1, 2, 3])
    first = destination.storage_id("t")
    load(destination, [7])
    assert ids(destination) == [7]
    assert destination.storage_id("t") not in (None, first)
    assert entries(destination) == ["t"]


def test_the_storage_id_follows_the_folder_through_an_exchange(root: str) -> None:
    destination = ParquetDestination(root, Settings())
    load(destination, [1], "a")
    load(destination, [2], "b")
    before = destination.storage_id("a"), destination.storage_id("b")
    destination.exchange("a", "b")
    assert (destination.storage_id("b"), destination.storage_id("a")) == before
    assert (ids(destination, "a"), ids(destination, "b")) == ([2], [1])


def test_a_table_without_rows_has_its_columns(root: str) -> None:
    destination = ParquetDestination(root, Settings())
    plan = destination.plan(SIMPLE, "t")
    destination.create_staging(plan).finish()
    destination.rename(plan.staging, "t")
    assert read(destination).schema.names == ["id", "note", *(f.name for f in META_FIELDS)]
    assert read(destination).num_rows == 0


def test_files_are_cut_at_the_row_limit(root: str) -> None:
    destination = ParquetDestination(root, Settings(rows_per_file=4))
    load(destination, list(range(10)))
    parts = destination._folders.parts("t")
    assert [p.rsplit("/", 1)[1] for p in parts] == [f"part-{n:05d}.parquet" for n in range(3)]
    assert ids(destination) == list(range(10))


@pytest.mark.parametrize("name", ["a b", "a/b", "..", ".hidden", "ünï", 'q"uo\\te', "star*[x]", "100%"])
def test_any_table_name_stays_inside_the_root(root: str, name: str) -> None:
    destination = ParquetDestination(root, Settings())
    load(destination, [1], name)
    load(destination, [2], name)
    assert ids(destination, name) == [2]
    assert len(entries(destination)) == 1
    destination.drop(name)
    assert destination.fingerprint(name) is None


def test_a_staging_folder_that_was_not_finished_is_no_table(root: str) -> None:
    destination = ParquetDestination(root, Settings())
    plan = destination.plan(SIMPLE, "t")
    writer = destination.create_staging(plan)
    writer.write(simple(plan, [1]))
    assert destination.fingerprint(plan.staging) is None
    load(destination, [2])
    assert ids(destination) == [2]


def test_abort_leaves_nothing(root: str) -> None:
    destination = ParquetDestination(root, Settings())
    load(destination, [1])
    plan = destination.plan(SIMPLE, "t")
    writer = destination.create_staging(plan)
    writer.write(simple(plan, [2]))
    writer.abort()
    assert (ids(destination), entries(destination)) == ([1], ["t"])


class Killed(BaseException):
    """Stands for a program that ends where it is."""


CHANGES = ("pipe_file", "rm_file", "rm", "mv", "cp_file", "makedirs")


def kill_at(monkeypatch: pytest.MonkeyPatch, fs: Any, step: int) -> list[int]:
    """Let ``step`` changes of the file system through and end at the next one, and at every one after it."""
    done = [0]

    def guard(name: str) -> None:
        original = getattr(fs, name)

        def guarded(*args: Any, **kwargs: Any) -> Any:
            if done[0] >= step:
                raise Killed
            done[0] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(fs, name, guarded)

    for name in CHANGES:
        guard(name)
    return done


def test_an_exchange_killed_at_any_step_leaves_the_old_rows_or_the_new_ones(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = set()
    for step in range(100):
        destination = ParquetDestination(root, Settings())
        load(destination, [1, 2])
        plan = destination.plan(SIMPLE, "t")
        writer = destination.create_staging(plan)
        writer.write(simple(plan, [7]))
        writer.finish()
        with monkeypatch.context() as patch:
            kill_at(patch, destination._folders.fs, step)
            try:
                destination.exchange(plan.staging, "t")
                finished = True
            except Killed:
                finished = False
        survivor = ParquetDestination(root, Settings())
        assert survivor.plan(SIMPLE, "t").exists
        assert survivor.fingerprint("t") is not None
        seen.add(tuple(ids(survivor)))
        load(survivor, [9])
        assert (ids(survivor), entries(survivor)) == ([9], ["t"]), f"killed at step {step}"
        if finished:
            break
    assert finished
    assert seen == {(1, 2), (7,)}


def test_a_first_load_killed_at_any_step_of_its_rename_can_be_run_again(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in range(100):
        destination = ParquetDestination(root, Settings())
        destination.drop("t")
        plan = destination.plan(SIMPLE, "t")
        writer = destination.create_staging(plan)
        writer.write(simple(plan, [1]))
        writer.finish()
        with monkeypatch.context() as patch:
            kill_at(patch, destination._folders.fs, step)
            try:
                destination.rename(plan.staging, "t")
                finished = True
            except Killed:
                finished = False
        survivor = ParquetDestination(root, Settings())
        assert survivor.fingerprint("t") is None or ids(survivor) == [1]
        load(survivor, [9])
        assert (ids(survivor), entries(survivor)) == ([9], ["t"]), f"killed at step {step}"
        if finished:
            break
    assert finished


def test_copy_back_takes_the_newer_rows_only(root: str) -> None:
    destination = ParquetDestination(root, Settings())
    load(destination, [1], "new", lsn=10)
    load(destination, [2, 3], "old", lsn=20)
    assert destination.copy_back("old", "new", Lsn(20)) == 0
    assert destination.copy_back("old", "new", Lsn(19)) == 2
    assert ids(destination, "new") == [1, 2, 3]
    assert ids(destination, "old") == [2, 3]


def test_truncate_keeps_the_table(root: str) -> None:
    destination = ParquetDestination(root, Settings())
    load(destination, [1, 2])
    columns, storage = destination.fingerprint("t"), destination.storage_id("t")
    destination.truncate("t")
    assert ids(destination) == []
    assert (destination.fingerprint("t"), destination.storage_id("t")) == (columns, storage)
    assert destination.copy_back("t", "t", Lsn(0)) == 0


def test_values_that_parquet_cannot_hold_become_null_and_are_counted(root: str) -> None:
    odd = relation(
        attribute(1, "d", 1082, "date", filled=True),
        attribute(2, "ts", 1114, "timestamp"),
        attribute(3, "n", 1700, "numeric(10,2)", (10 << 16 | 2) + 4),
        attribute(4, "wide", 1700, "numeric(50,2)", (50 << 16 | 2) + 4),
        attribute(5, "tod", 1083, "time"),
    )
    destination = ParquetDestination(root, Settings())
    plan = destination.plan(odd, "t")
    assert [c.nullable for c in plan.columns] == [True] * 5
    rows = batch(
        plan,
        pa.array([None, DATE_INFINITY, 5, 6], pa.int32()).view(pa.date32()),
        pa.array([0, TIMESTAMP_NEG_INFINITY, 5, 6], pa.int64()).view(pa.timestamp("us")),
        _decimals(pa.decimal128(10, 2), [100, DECIMAL_NAN_128, DECIMAL_NAN_128, -1]),
        _decimals(pa.decimal256(50, 2), [100, DECIMAL_NAN_256, 0, -1]),
        pa.array([0, 86_400_000_000, 5, 6], pa.int64()).view(pa.time64("us")),
    )
    # A slice, so that the offset of its arrays counts.
    writer = destination.create_staging(plan)
    writer.write(rows.slice(1))
    writer.finish()
    destination.rename(plan.staging, "t")
    table = read(destination)
    assert writer.stats.adjusted == {"d": 1, "ts": 1, "n": 2, "wide": 1, "tod": 1}
    assert table.column("d").to_pylist() == [None, dt.date(1970, 1, 6), dt.date(1970, 1, 7)]
    assert table.column("ts").null_count == 1
    assert table.column("n").to_pylist() == [None, None, Decimal("-0.01")]
    assert table.column("wide").to_pylist() == [None, Decimal("0.00"), Decimal("-0.01")]
    assert table.column("tod").to_pylist() == [None, dt.time(0, 0, 0, 5), dt.time(0, 0, 0, 6)]


def _decimals(type_: pa.DataType, raw: list[int]) -> pa.Array:
    width = type_.bit_width // 8
    data = b"".join(n.to_bytes(width, "little", signed=True) for n in raw)
    return pa.Array.from_buffers(type_, len(raw), [None, pa.py_buffer(data)])


def test_or_they_are_an_error_that_names_the_column(root: str) -> None:
    destination = ParquetDestination(root, Settings(out_of_range="error"))
    plan = destination.plan(relation(attribute(1, "born", 1082, "date", filled=True)), "t")
    assert not plan.columns[0].nullable
    writer = destination.create_staging(plan)
    with pytest.raises(DestinationError, match=r"column born of t__wsstg holds 1 values .*out_of_range=null"):
        writer.write(batch(plan, pa.array([DATE_INFINITY], pa.int32()).view(pa.date32())))


def test_a_folder_of_someone_else_is_replaced_only_when_asked(tmp_path: Path) -> None:
    root = f"parquet+file://{tmp_path}"
    destination = ParquetDestination(root, Settings())
    load(destination, [1])
    (tmp_path / "t" / MARK).unlink()
    with pytest.raises(TableRefused, match=r"files that walshadow did not write.*--replace"):
        destination.plan(SIMPLE, "t")
    assert destination.plan(SIMPLE, "t", replace=True).exists
    assert destination.fingerprint("t") is not None
    (tmp_path / "u").mkdir()
    (tmp_path / "u" / "notes.txt").write_text("mine")
    (tmp_path / "v" / "year=2026").mkdir(parents=True)
    (tmp_path / "v" / "year=2026" / "part.parquet").write_text("mine")
    (tmp_path / "w" / "inner").mkdir(parents=True)
    (tmp_path / "w" / "a.parquet").write_bytes((tmp_path / "t" / "part-00000.parquet").read_bytes())
    for other in ("u", "v", "w"):
        with pytest.raises(TableRefused, match="files that walshadow did not write"):
            destination.plan(SIMPLE, other, replace=True)
        with pytest.raises(DestinationError, match="is there already"):
            destination.rename("t", other)
    with pytest.raises(DestinationError, match="can't remove"):
        destination.drop("v")
    assert (tmp_path / "v" / "year=2026" / "part.parquet").read_text() == "mine"


def test_a_root_that_looks_like_a_pattern_is_a_plain_name(root: str) -> None:
    other, own = ParquetDestination(f"{root}/lake-1", Settings()), ParquetDestination(f"{root}/lake-*", Settings())
    load(other, [5])
    load(own, [1])
    load(own, [2])
    own.truncate("t")
    own.drop("t")
    assert own.fingerprint("t") is None
    assert (ids(other), entries(other)) == ([5], ["t"])


def test_a_table_with_other_columns_is_refused_by_name(root: str) -> None:
    destination = ParquetDestination(root, Settings())
    load(destination, [1])
    other = relation(ID, attribute(2, "note", 20, "bigint"), attribute(3, "more", 25, "text"))
    with pytest.raises(TableRefused, match="note: is string, should be int64; more: is not there, should be string"):
        destination.plan(other, "t")


def test_a_type_that_is_not_known_is_refused_by_column_and_type(root: str) -> None:
    odd = relation(ID, attribute(2, "shape", 99999, "app.shape"))
    with pytest.raises(TableRefused, match=r'column "shape" of app\.t has type app\.shape, .*=hex'):
        ParquetDestination(root, Settings()).plan(odd, "t")
    plan = ParquetDestination(root, Settings()).plan(odd, "t", choices={"shape": ColumnChoice(type="hex")})
    assert (plan.columns[1].type, plan.columns[1].form) == ("string", "hex")


def test_a_chosen_type_is_the_columns_own_or_string(root: str) -> None:
    destination = ParquetDestination(root, Settings())
    numbers = relation(ID, attribute(2, "n", 20, "bigint"))

    def chosen(choice: str) -> tuple[str, str]:
        column = destination.plan(numbers, "t", choices={"n": ColumnChoice(type=choice)}).columns[1]
        return column.type, column.form

    assert chosen("int64") == ("int64", "own") and chosen("string") == ("string", "text")
    with pytest.raises(TableRefused, match=r'"n" of app\.t of type bigint can be int64 or string, not int32'):
        chosen("int32")


def test_lists_that_could_hold_what_parquet_can_not_come_as_text(root: str) -> None:
    day = PgType(1082, "pg_catalog", "date", "b", 4, "i", True)
    days = PgType(1182, "pg_catalog", "_date", "b", -1, "i", False, element=day)
    column = Attribute(2, "d", 1182, "date[]", -1, -1, "i", False, "x", False, type=days)
    plan = ParquetDestination(root, Settings()).plan(relation(ID, column), "t")
    assert (plan.columns[1].type, plan.columns[1].form) == ("string", "text")


def test_a_column_named_like_one_of_ours_is_refused(root: str) -> None:
    with pytest.raises(TableRefused, match="_lsn"):
        ParquetDestination(root, Settings()).plan(relation(ID, attribute(2, "_lsn", 20, "bigint")), "t")


def test_numeric_types_follow_the_declared_precision(root: str) -> None:
    def landed(precision: int, scale: int) -> str:
        typmod = (precision << 16 | scale & 0x7FF) + 4
        column = attribute(1, "n", 1700, f"numeric({precision},{scale})", typmod)
        return ParquetDestination(root, Settings()).plan(relation(column), "t").columns[0].type

    assert landed(10, 2) == "decimal128(10, 2)"
    assert landed(3, 5) == "decimal128(5, 5)"
    assert landed(3, -2) == "decimal128(5, 0)"
    assert landed(60, 10) == "decimal256(60, 10)"
    assert landed(100, 0) == "string"


def test_the_hook_answers_to_its_own_urls_only() -> None:
    assert walshadow_destination("clickhouse://host/db", {}) is None
    assert walshadow_destination("parquet+memory://x", {}) is not None


def test_a_protocol_that_fsspec_lacks_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="nonsense"):
        walshadow_destination("parquet+nonsense://x", {})


def test_secrets_are_not_shown() -> None:
    settings = Settings.model_validate({"storage_options": '{"password": "hunter2"}'})
    assert "hunter2" not in repr(settings)
    destination = ParquetDestination("parquet+memory://user:hunter2@host/x?token=hunter2", Settings())
    assert destination.display_url == "parquet+memory://user@host/x"
