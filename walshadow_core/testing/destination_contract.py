"""The contract of a destination, as tests. A plugin's author subclasses it and says how rows are read back::

    class TestMyDestination(DestinationContract):
        secret = "the password in the URL"

        @pytest.fixture
        def make_destination(self, tmp_path):
            return lambda: MyDestination(f"my://user:{self.secret}@{tmp_path}")

        def read_rows(self, destination, table):
            return [list(row) for row in ...]

Each test begins with an empty place; ``make_destination`` may be called more than once for it, and each call
gives a new Destination that sees what the others left there. ``read_rows`` gives every row of a table, in any order:
the table's own columns, then ``_lsn, _xid, _commit_ts, _is_deleted``, as Python values. Texts may come as str or
bytes, uuids as UUID or 16 bytes, times as time, timedelta or microseconds, timestamps with or without UTC.
"""

from __future__ import annotations

import datetime as dt
import math
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from walshadow_core.api import (
    HEX,
    META_FIELDS,
    Attribute,
    ColumnChoice,
    Destination,
    DestinationError,
    Lsn,
    RelationDescriptor,
    RelFileLocator,
    StagingWriter,
    TablePlan,
    TableRefused,
)
from walshadow_core.testing.type_cases import SENTINELS, TYPES, TypeCase, numeric_typmod

__all__ = [
    "COMMIT_TS", "LSN", "SENTINELS", "SIMPLE", "TABLE", "TYPES", "DestinationContract", "TypeCase", "make_batch",
    "make_relation", "meta_arrays", "numeric_typmod", "plain", "raw_array", "simple_batch",
]  # fmt: skip

TABLE = "orders"
_THREAD_SECONDS = 60.0
LSN = 0x16B3748
COMMIT_TS = dt.datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=dt.UTC)


def make_relation(cases: Sequence[TypeCase], *, key: bool = True, name: str = TABLE) -> RelationDescriptor:
    """A relation with a bigint ``id`` (its key, or no key at all) and a column per case."""
    attributes = [Attribute(1, "id", 20, "bigint", -1, 8, "d", True, "p", not_null=key)]
    attributes += [
        Attribute(
            number, case.column, case.oid, case.name, case.typmod, -1, "i", False, "x", case.not_null,
            dimensions=case.dimensions, type=case.type,
        )
        for number, case in enumerate(cases, start=2)
    ]  # fmt: skip
    return RelationDescriptor(
        oid=16385,
        database="shop",
        schema="app",
        name=name,
        locator=RelFileLocator(1663, 16384, 16385),
        kind="r",
        persistence="p",
        replica_identity="d",
        key=(1,) if key else (),
        attributes=tuple(attributes),
        encoding="UTF8",
    )


def meta_arrays(rows: int, lsn: int = LSN) -> list[pa.Array]:
    """The four columns after a table's own."""
    values: tuple[Any, ...] = (lsn, 0, COMMIT_TS, False)
    return [pa.array([v] * rows, f.type) for v, f in zip(values, META_FIELDS, strict=True)]


def make_batch(columns: Sequence[tuple[str, pa.Array]], lsn: int = LSN) -> pa.RecordBatch:
    """A row batch: the given columns and the four of every batch."""
    names = [name for name, _ in columns] + [f.name for f in META_FIELDS]
    rows = len(columns[0][1])
    return pa.RecordBatch.from_arrays([array for _, array in columns] + meta_arrays(rows, lsn), names=names)


def simple_batch(ids: Sequence[int], lsn: int = LSN) -> pa.RecordBatch:
    """Rows of ``id`` and a text column, as simple_relation has them."""
    texts = pa.array([f"row {i}" for i in ids], pa.string())
    return make_batch([("id", pa.array(ids, pa.int64())), (SIMPLE[0].column, texts)], lsn)


SIMPLE = (TypeCase("text", 25, -1, pa.string(), ()),)


def raw_array(case: TypeCase) -> pa.Array:
    """The case's values, raw integers, as an array of its Arrow type, and a NULL at the end."""
    width = case.arrow.byte_width
    data = b"".join(int(v).to_bytes(width, "little", signed=True) for v in case.values) + bytes(width)
    rows = len(case.values) + 1
    validity = np.packbits([1] * (rows - 1) + [0], bitorder="little").tobytes()
    return pa.Array.from_buffers(case.arrow, rows, [pa.py_buffer(validity), pa.py_buffer(data)])


def plain(value: Any) -> Any:
    """A value in a form that does not depend on how a client gives it back."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
    if isinstance(value, dt.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 10**6 + value.microsecond
    if isinstance(value, dt.timedelta):
        return value // dt.timedelta(microseconds=1)
    if isinstance(value, dict):
        return [plain(v) for v in value.values()]
    return [plain(v) for v in value] if isinstance(value, list | tuple) else value


class DestinationContract:
    """What every destination does. See the module's docstring for what a subclass gives."""

    secret: str | None = None
    """A secret that is in the URL of make_destination, None if such URLs have none."""

    @pytest.fixture
    def make_destination(self) -> Callable[[], Destination]:
        """A function that opens the destination; the place is empty at the beginning of each test."""
        raise NotImplementedError("give a fixture make_destination")

    def read_rows(self, destination: Destination, table: str) -> list[list[Any]]:
        """Every row of a table, in any order."""
        raise NotImplementedError("give a method read_rows")

    @pytest.fixture
    def destination(self, make_destination: Callable[[], Destination]) -> Iterator[Destination]:
        """An open destination."""
        opened = make_destination()
        yield opened
        opened.close()

    def ids(self, destination: Destination, table: str) -> list[int]:
        """The ids of a table, sorted."""
        return sorted(row[0] for row in self.read_rows(destination, table))

    def load(self, destination: Destination, plan: TablePlan, ids: Sequence[int], lsn: int = LSN) -> StagingWriter:
        """Fill staging anew."""
        writer = destination.create_staging(plan)
        writer.write(simple_batch(ids, lsn))
        writer.finish()
        return writer

    def publish_first(self, destination: Destination, ids: Sequence[int]) -> TablePlan:
        """Load a table that is not there."""
        plan = destination.plan(make_relation(SIMPLE), TABLE)
        self.load(destination, plan, ids)
        destination.rename(plan.staging, plan.table)
        return plan

    def test_display_url_has_no_secret(self, destination: Destination) -> None:
        """display_url is for logs."""
        assert "://" in destination.display_url
        assert self.secret is None or self.secret not in destination.display_url

    def test_plan_of_an_absent_table(self, destination: Destination) -> None:
        """A plan says all and changes nothing."""
        relation = make_relation(TYPES)
        plan = destination.plan(relation, TABLE)
        assert not plan.exists
        assert plan.relation == relation and plan.table == TABLE and plan.staging != TABLE
        assert [c.attribute for c in plan.columns] == list(relation.columns)
        assert not plan.columns[0].nullable
        assert all(c.nullable for c in plan.columns[1:] if not c.attribute.not_null)
        assert plan.create_sql
        assert destination.fingerprint(TABLE) is None and destination.storage_id(TABLE) is None
        assert destination.fingerprint(plan.staging) is None

    def test_first_load(self, destination: Destination) -> None:
        """Staging is filled, then takes the table's name."""
        plan = destination.plan(make_relation(SIMPLE), TABLE)
        writer = self.load(destination, plan, [3, 1, 2])
        assert writer.stats.rows == 3 and not any(writer.stats.adjusted.values())
        assert destination.fingerprint(TABLE) is None
        staged, identity = destination.fingerprint(plan.staging), destination.storage_id(plan.staging)
        assert staged is not None and identity is not None
        destination.rename(plan.staging, TABLE)
        assert destination.fingerprint(plan.staging) is None
        assert destination.fingerprint(TABLE) == staged and destination.storage_id(TABLE) == identity
        rows = sorted([plain(v) for v in row] for row in self.read_rows(destination, TABLE))
        assert rows == [[i, f"row {i}".encode(), LSN, 0, plain(COMMIT_TS), False] for i in (1, 2, 3)]

    def test_second_load_is_exchanged(self, destination: Destination) -> None:
        """The second load's staging is the table's twin; exchanging swaps content and storage ids."""
        self.publish_first(destination, [1, 2])
        plan = destination.plan(make_relation(SIMPLE), TABLE)
        assert plan.exists
        self.load(destination, plan, [7])
        assert self.ids(destination, TABLE) == [1, 2]
        assert destination.fingerprint(plan.staging) == destination.fingerprint(TABLE)
        before = destination.storage_id(TABLE), destination.storage_id(plan.staging)
        assert before[0] != before[1] and None not in before
        destination.exchange(plan.staging, TABLE)
        assert (destination.storage_id(plan.staging), destination.storage_id(TABLE)) == before
        assert self.ids(destination, TABLE) == [7] and self.ids(destination, plan.staging) == [1, 2]
        destination.drop(plan.staging)
        assert destination.fingerprint(plan.staging) is None and self.ids(destination, TABLE) == [7]

    def test_staging_is_made_anew(self, make_destination: Callable[[], Destination]) -> None:
        """What an earlier attempt left in staging, of this or another process, is gone."""
        first, second = make_destination(), make_destination()
        try:
            plan = first.plan(make_relation(SIMPLE), TABLE)
            first.create_staging(plan).write(simple_batch([1]))
            self.load(second, second.plan(make_relation(SIMPLE), TABLE), [2])
            self.load(first, plan, [3])
            assert self.ids(first, plan.staging) == [3]
        finally:
            first.close()
            second.close()

    def test_abort_leaves_nothing(self, destination: Destination) -> None:
        """After abort() staging is gone and the table as it was (rule 5); the next load works."""
        self.publish_first(destination, [1])
        before = destination.storage_id(TABLE)
        plan = destination.plan(make_relation(SIMPLE), TABLE)
        writer = destination.create_staging(plan)
        for _ in range(3):
            writer.write(simple_batch(range(1000)))
        writer.abort()
        assert destination.fingerprint(plan.staging) is None and destination.storage_id(TABLE) == before
        assert self.ids(destination, TABLE) == [1]
        self.load(destination, plan, [2])
        assert self.ids(destination, plan.staging) == [2]

    def test_abort_from_another_thread(self, destination: Destination) -> None:
        """A write() that another thread is in raises DestinationError when abort() is called; later ones do, too;
        nothing is left of staging, and nothing comes there afterwards."""
        plan = destination.plan(make_relation(SIMPLE), TABLE)
        batch = simple_batch(range(20_000))

        def fill(
            writer: StagingWriter, begun: threading.Event, enough: threading.Event, outcome: list[BaseException]
        ) -> None:
            try:
                while not enough.is_set():
                    writer.write(batch)
                    begun.set()
            except BaseException as error:
                outcome.append(error)
            begun.set()

        for _ in range(3):
            writer = destination.create_staging(plan)
            begun, enough = threading.Event(), threading.Event()
            outcome: list[BaseException] = []
            thread = threading.Thread(target=fill, args=(writer, begun, enough, outcome), daemon=True)
            thread.start()
            try:
                assert begun.wait(_THREAD_SECONDS)
                writer.abort()
                thread.join(_THREAD_SECONDS)
                assert not thread.is_alive(), "abort() ends a write() of another thread"
            finally:
                enough.set()
            assert [type(error) for error in outcome] == [DestinationError], outcome
            assert destination.fingerprint(plan.staging) is None
            with pytest.raises(DestinationError):
                writer.write(batch)
            with pytest.raises(DestinationError):
                writer.finish()
            assert destination.fingerprint(plan.staging) is None
        self.load(destination, plan, [2])
        assert self.ids(destination, plan.staging) == [2]

    def test_abort_of_nothing(self, destination: Destination) -> None:
        """abort() does not mind that nothing was written, nor that staging went already."""
        plan = destination.plan(make_relation(SIMPLE), TABLE)
        writer = destination.create_staging(plan)
        destination.drop(plan.staging)
        writer.abort()
        assert destination.fingerprint(plan.staging) is None

    def test_no_rows(self, destination: Destination) -> None:
        """Empty batches are nothing, an empty table is a table."""
        plan = destination.plan(make_relation(SIMPLE), TABLE)
        writer = destination.create_staging(plan)
        writer.write(simple_batch([]))
        writer.finish()
        assert writer.stats.rows == 0
        destination.rename(plan.staging, TABLE)
        assert destination.fingerprint(TABLE) is not None and self.read_rows(destination, TABLE) == []

    def test_many_batches(self, destination: Destination) -> None:
        """Batches of any size, slices among them, all come, each once."""
        plan = destination.plan(make_relation(SIMPLE), TABLE)
        writer = destination.create_staging(plan)
        whole = simple_batch(range(5000))
        at = 0
        for size in (1, 2, 997, 0, 3000, 1000):
            writer.write(whole.slice(at, size))
            at += size
        writer.finish()
        assert writer.stats.rows == 5000
        assert self.ids(destination, plan.staging) == list(range(5000))

    @pytest.mark.parametrize("case", TYPES, ids=lambda case: case.name)
    def test_type(self, destination: Destination, case: TypeCase) -> None:
        """Every value of every type comes as it went, NULLs too, in whole and in sliced batches."""
        plan = destination.plan(make_relation([case]), TABLE)
        case = case.as_wanted(plan)
        null = [] if case.not_null else [None]
        values = [*null, *case.values, *null, *case.values]
        ids = list(range(len(values)))
        batch = make_batch([("id", pa.array(ids, pa.int64())), (case.column, pa.array(values, case.arrow))])
        writer = destination.create_staging(plan)
        writer.write(batch.slice(0, 1))
        writer.write(batch.slice(1))
        writer.finish()
        found = {row[0]: plain(row[1]) for row in self.read_rows(destination, plan.staging)}
        assert found == {i: plain(v) for i, v in zip(ids, values, strict=True)}
        assert not any(writer.stats.adjusted.values())

    def test_all_types_in_one_table(self, destination: Destination) -> None:
        """A table of every type, every second row NULL where it may be."""
        plan = destination.plan(make_relation(TYPES), TABLE)
        types = [case.as_wanted(plan) for case in TYPES]
        rows = 20
        ids = list(range(rows))
        cells = {t.column: [t.values[i % len(t.values)] if i % 2 or t.not_null else None for i in ids] for t in types}
        arrays = [(t.column, pa.array(cells[t.column], t.arrow)) for t in types]
        writer = destination.create_staging(plan)
        writer.write(make_batch([("id", pa.array(ids, pa.int64())), *arrays]))
        writer.finish()
        found = sorted([plain(v) for v in row[: 1 + len(TYPES)]] for row in self.read_rows(destination, plan.staging))
        assert found == [[i, *(plain(cells[t.column][i]) for t in TYPES)] for i in ids]

    def test_null_lists(self, destination: Destination) -> None:
        """A list that is NULL stays so, or comes as an empty one and is counted; what is under it never comes."""
        case = next(case for case in TYPES if case.name == "integer[]")
        plan = destination.plan(make_relation([replace(case, not_null=False)]), TABLE)
        if plan.columns[1].form != "own":
            pytest.skip("arrays come as text here")
        offsets, items = pa.array([0, 1, 3, 3], pa.int32()), pa.array([1, 2, 3], pa.int32())
        nulls = pa.array([False, True, False])
        array = pa.ListArray.from_arrays(offsets, items, mask=nulls)
        writer = destination.create_staging(plan)
        writer.write(make_batch([("id", pa.array([0, 1, 2], pa.int64())), (case.column, array)]))
        writer.finish()
        found = [row[1] for row in sorted(self.read_rows(destination, plan.staging))]
        assert found[0] == [1] and found[2] == []
        assert found[1] is None or (found[1] == [] and writer.stats.adjusted == {case.column: 1})

    def test_choices(self, destination: Destination) -> None:
        """A type that is none is refused by column; hex asks for hex; no choice is no choice."""
        relation = make_relation(SIMPLE)
        name = SIMPLE[0].column
        with pytest.raises(TableRefused, match=name):
            destination.plan(relation, TABLE, choices={name: ColumnChoice(type="no such type")})
        assert [c.form for c in destination.plan(relation, TABLE, choices={name: ColumnChoice(HEX)}).columns] == [
            "own",
            "hex",
        ]
        assert destination.plan(relation, TABLE, choices={name: ColumnChoice()}) == destination.plan(relation, TABLE)
        with pytest.raises(TableRefused, match="id"):
            destination.plan(relation, TABLE, choices={"id": ColumnChoice(nullable=True)})

    def test_columns_that_are_left_out(self, destination: Destination) -> None:
        """What the user leaves out does not land."""
        relation = replace(make_relation(TYPES[:2]), excluded=frozenset({2}))
        plan = destination.plan(relation, TABLE)
        assert [c.name for c in plan.columns] == ["id", TYPES[1].column]

    @pytest.mark.parametrize("case", SENTINELS, ids=lambda case: case.name)
    def test_sentinels(self, destination: Destination, case: TypeCase) -> None:
        """Infinities and NaN are written, changed and counted, or refused by column name; NULL stays NULL."""
        plan = destination.plan(make_relation([case]), TABLE)
        array = raw_array(case)
        ids = pa.array(range(len(array)), pa.int64())
        writer = destination.create_staging(plan)
        try:
            writer.write(make_batch([("id", ids), (case.column, array)]))
            writer.finish()
        except DestinationError as error:
            assert case.column in str(error)
            writer.abort()
            return
        assert set(writer.stats.adjusted) <= {case.column}
        assert writer.stats.adjusted.get(case.column, 0) in (0, len(case.values))
        found = {row[0]: row[1] for row in self.read_rows(destination, plan.staging)}
        assert len(found) == len(array) and found[len(array) - 1] is None

    def test_without_a_key(self, destination: Destination) -> None:
        """Rows of a table without a key are never merged, equal ones neither (rule 13)."""
        plan = destination.plan(make_relation(SIMPLE, key=False), TABLE)
        writer = destination.create_staging(plan)
        for _ in range(2):
            writer.write(simple_batch([1, 1]))
        writer.finish()
        assert self.ids(destination, plan.staging) == [1, 1, 1, 1]

    def test_copy_back(self, destination: Destination) -> None:
        """Rows after an LSN, and no others, go over."""
        plan = self.publish_first(destination, [1])
        writer = destination.create_staging(plan)
        writer.write(simple_batch([2], LSN + 1))
        writer.write(simple_batch([3], LSN))
        writer.finish()
        assert destination.copy_back(plan.staging, TABLE, Lsn(LSN)) == 1
        assert self.ids(destination, TABLE) == [1, 2]
        assert destination.copy_back(plan.staging, TABLE, Lsn(LSN + 1)) == 0

    def test_truncate(self, destination: Destination) -> None:
        """No rows, the same table."""
        self.publish_first(destination, [1, 2])
        columns = destination.fingerprint(TABLE)
        destination.truncate(TABLE)
        assert self.read_rows(destination, TABLE) == [] and destination.fingerprint(TABLE) == columns

    def test_drop_twice(self, destination: Destination) -> None:
        """Dropping what is not there is no error."""
        self.publish_first(destination, [1])
        destination.drop(TABLE)
        destination.drop(TABLE)
        assert destination.fingerprint(TABLE) is None

    def test_rename_keeps_what_is_there(self, destination: Destination) -> None:
        """A rename never replaces a table."""
        self.publish_first(destination, [1])
        plan = destination.plan(make_relation(SIMPLE), TABLE)
        self.load(destination, plan, [2])
        with pytest.raises(DestinationError):
            destination.rename(plan.staging, TABLE)
        assert self.ids(destination, TABLE) == [1]

    def test_another_destination_sees_it(self, make_destination: Callable[[], Destination]) -> None:
        """What was published is there for the next process."""
        first = make_destination()
        self.publish_first(first, [4])
        identity = first.storage_id(TABLE)
        first.close()
        second = make_destination()
        try:
            assert second.storage_id(TABLE) == identity and self.ids(second, TABLE) == [4]
        finally:
            second.close()
