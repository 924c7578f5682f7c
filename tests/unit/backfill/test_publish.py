"""The order of the publish steps, and that an exchange is never sent twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.backfill.made import plan
from walshadow_core.api import DestinationError, Lsn, RelationDescriptor, StagingWriter, TablePlan
from walshadow_core.backfill.publish import publish

Columns = tuple[tuple[str, str], ...]
SHAPE: Columns = (("id", "Int32"),)
READS = ("fingerprint", "storage_id")


class FakeDestination:
    """Tables as name to (columns, storage). ``lose`` names steps that are done and whose answer is lost, ``fail``
    those that are not done."""

    def __init__(self, **tables: str) -> None:
        self.tables: dict[str, tuple[Columns, str]] = {name: (SHAPE, storage) for name, storage in tables.items()}
        self.calls: list[tuple[str, ...]] = []
        self.fail: set[str] = set()
        self.lose: set[str] = set()
        self.gone = False

    @property
    def display_url(self) -> str:
        return "fake://"

    def _step(self, *call: str) -> Iterator[None]:
        self.calls.append(call)
        if call[0] in self.fail or self.gone:
            raise DestinationError(f"{call[0]} failed")
        yield
        if call[0] in self.lose:
            self.gone = "for good" in self.lose
            raise DestinationError(f"the answer to {call[0]} was lost")

    def fingerprint(self, table: str) -> Columns | None:
        for _ in self._step("fingerprint", table):
            return self.tables[table][0] if table in self.tables else None
        raise AssertionError

    def storage_id(self, table: str) -> str | None:
        for _ in self._step("storage_id", table):
            return self.tables[table][1] if table in self.tables else None
        raise AssertionError

    def rename(self, source: str, target: str) -> None:
        for _ in self._step("rename", source, target):
            assert target not in self.tables
            self.tables[target] = self.tables.pop(source)

    def exchange(self, first: str, second: str) -> None:
        for _ in self._step("exchange", first, second):
            self.tables[first], self.tables[second] = self.tables[second], self.tables[first]

    def drop(self, table: str) -> None:
        for _ in self._step("drop", table):
            self.tables.pop(table, None)

    def plan(self, relation: RelationDescriptor, table: str, *, replace: bool = False) -> TablePlan:
        raise AssertionError

    def create_staging(self, plan: TablePlan) -> StagingWriter:
        raise AssertionError

    def copy_back(self, source: str, target: str, after: Lsn) -> int:
        raise AssertionError

    def truncate(self, table: str) -> None:
        raise AssertionError

    def close(self) -> None:
        raise AssertionError

    def changes(self) -> list[tuple[str, ...]]:
        """The steps that change something."""
        return [call for call in self.calls if call[0] not in READS]


EXCHANGE = ("exchange", "t__staging", "t")
DROP = ("drop", "t__staging")
RENAME = ("rename", "t__staging", "t")


def _there() -> FakeDestination:
    return FakeDestination(t="old", t__staging="new")


def test_exchange_then_drop() -> None:
    fake = _there()
    assert publish(fake, plan("t", exists=True), "new") is None
    assert fake.changes() == [EXCHANGE, DROP]
    assert fake.tables == {"t": (SHAPE, "new")}


def test_the_staging_table_of_another_load_is_not_published() -> None:
    """Two loads of one table at once: the second makes the staging table anew."""
    for exists in (True, False):
        fake = _there() if exists else FakeDestination(t__staging="new")
        with pytest.raises(DestinationError, match="another load of t has begun"):
            publish(fake, plan("t", exists=exists), "mine")
        assert fake.changes() == []


def test_the_first_load_renames() -> None:
    fake = FakeDestination(t__staging="new")
    assert publish(fake, plan("t", exists=False), "new") is None
    assert fake.changes() == [RENAME]
    assert fake.tables == {"t": (SHAPE, "new")}


@pytest.mark.parametrize(
    "columns",
    [(("id", "Int64"),), (("ID", "Int32"),), (("id", "Int32"), ("more", "Int32")), (("more", "Int8"), ("id", "Int32"))],
)
def test_other_columns_close_the_gate(columns: Columns) -> None:
    fake = _there()
    fake.tables["t"] = (columns, "old")
    with pytest.raises(DestinationError, match="columns of t changed"):
        publish(fake, plan("t", exists=True), "new")
    assert fake.changes() == []


def test_a_table_that_went_or_came_meanwhile_is_not_touched() -> None:
    went = FakeDestination(t__staging="new")
    with pytest.raises(DestinationError, match="t was dropped"):
        publish(went, plan("t", exists=True), "new")
    came = _there()
    with pytest.raises(DestinationError, match="t was made"):
        publish(came, plan("t", exists=False), "new")
    assert went.changes() == came.changes() == []


def test_an_exchange_that_failed_is_not_sent_again() -> None:
    fake = _there()
    fake.fail = {"exchange"}
    with pytest.raises(DestinationError, match="exchange failed"):
        publish(fake, plan("t", exists=True), "new")
    assert fake.changes() == [EXCHANGE]
    assert fake.tables["t"] == (SHAPE, "old")


def test_an_exchange_whose_answer_was_lost_is_looked_up_and_not_sent_again() -> None:
    fake = _there()
    fake.lose = {"exchange"}
    assert publish(fake, plan("t", exists=True), "new") is None
    assert fake.changes() == [EXCHANGE, DROP]
    assert fake.tables == {"t": (SHAPE, "new")}


def test_a_rename_whose_answer_was_lost_is_looked_up() -> None:
    fake = FakeDestination(t__staging="new")
    fake.lose = {"rename"}
    assert publish(fake, plan("t", exists=False), "new") is None
    assert fake.changes() == [RENAME]


def test_nothing_is_dropped_when_nobody_can_tell() -> None:
    fake = _there()
    fake.lose = {"exchange", "for good"}
    with pytest.raises(DestinationError, match="the answer to exchange was lost"):
        publish(fake, plan("t", exists=True), "new")
    assert fake.changes() == [EXCHANGE]


def test_an_exchange_that_did_not_take_is_an_error() -> None:
    fake = _there()
    fake.exchange = lambda first, second: fake.calls.append(("exchange", first, second))  # type: ignore[method-assign]
    with pytest.raises(DestinationError, match="storage"):
        publish(fake, plan("t", exists=True), "new")
    assert fake.changes() == [EXCHANGE]


def test_a_drop_that_fails_is_a_warning_as_the_rows_are_there() -> None:
    fake = _there()
    fake.fail = {"drop"}
    warning = publish(fake, plan("t", exists=True), "new")
    assert warning is not None and "t__staging" in warning
    assert fake.tables["t"] == (SHAPE, "new")
