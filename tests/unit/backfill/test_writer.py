"""The writing end: the four columns, order, and tables that fail."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.unit.backfill.made import relation
from walshadow_core.api import META_FIELDS, DestinationError, Lsn, StagingWriter, WriteStats
from walshadow_core.backfill.channel import Channel, ChannelBroken
from walshadow_core.backfill.stats import TableStats
from walshadow_core.backfill.worker import TableBatch
from walshadow_core.backfill.writer import MetaColumns, WriterLoop

COMMIT_TS = 1_700_000_000_123_456


def test_meta_columns() -> None:
    meta = MetaColumns(Lsn(2**64 - 2), COMMIT_TS)
    for rows in (3, 1000, 0, 7):
        arrays = meta.of(rows)
        assert [a.type for a in arrays] == [f.type for f in META_FIELDS]
        assert all(len(a) == rows and a.null_count == 0 for a in arrays)
        lsn, xid, ts, deleted = arrays
        assert set(lsn.to_pylist()) <= {2**64 - 2}
        assert set(xid.to_pylist()) <= {0}
        assert set(ts.cast(pa.int64()).to_pylist()) <= {COMMIT_TS}
        assert set(deleted.to_pylist()) <= {False}


class FakeWriter:
    """Keeps what it is given; fails at batch ``fail_at``, any other error if ``bug``."""

    def __init__(self, fail_at: int = -1, bug: bool = False) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.stats = WriteStats()
        self._fail_at = fail_at
        self._bug = bug

    def write(self, batch: pa.RecordBatch) -> None:
        if len(self.batches) == self._fail_at:
            raise ZeroDivisionError if self._bug else DestinationError("no space")
        self.batches.append(batch)
        self.stats.rows += batch.num_rows
        self.stats.adjusted["n"] = len(self.batches)

    def finish(self) -> None:
        raise AssertionError

    def abort(self) -> None:
        raise AssertionError


def _loop(*writers: StagingWriter | None) -> tuple[WriterLoop, list[TableStats]]:
    stats = [TableStats(relation(f"app.t{n}", n + 1), f"t{n}") for n in range(len(writers))]
    return WriterLoop(writers, stats, MetaColumns(Lsn(40), COMMIT_TS), lambda t, why: stats[t].fail(why)), stats


def _channel(*items: tuple[int, list[int]]) -> Channel[TableBatch]:
    channel: Channel[TableBatch] = Channel(len(items))
    for table, values in items:
        channel.put(TableBatch(table, pa.record_batch({"n": pa.array(values, pa.int32())})))
    channel.close()
    return channel


def test_batches_reach_their_tables_in_order_with_the_four_columns() -> None:
    one, two = FakeWriter(), FakeWriter()
    loop, stats = _loop(one, two)
    loop.run(_channel((0, [1, 2]), (1, [7]), (0, [3])))
    assert [b.column("n").to_pylist() for b in one.batches] == [[1, 2], [3]]
    assert [b.column("n").to_pylist() for b in two.batches] == [[7]]
    for batch in one.batches:
        assert list(batch.schema)[1:] == list(META_FIELDS)
        assert batch.column("_lsn").to_pylist() == [40] * batch.num_rows
    assert [s.rows_written for s in stats] == [3, 1]
    assert stats[0].adjusted == {"n": 2}


def test_a_table_that_fails_is_left_out_and_the_others_go_on() -> None:
    one, two = FakeWriter(fail_at=1), FakeWriter()
    loop, stats = _loop(one, two)
    loop.run(_channel((0, [1]), (0, [2]), (1, [7]), (0, [3]), (1, [8])))
    assert stats[0].error == "no space"
    assert len(one.batches) == 1
    assert [b.column("n").to_pylist() for b in two.batches] == [[7], [8]]
    assert not stats[1].failed


def test_a_table_without_a_staging_table_is_left_out() -> None:
    two = FakeWriter()
    loop, _ = _loop(None, two)
    loop.run(_channel((0, [1]), (1, [2])))
    assert len(two.batches) == 1


def test_what_is_no_error_of_the_destination_ends_the_pass() -> None:
    loop, stats = _loop(FakeWriter(fail_at=0, bug=True))
    with pytest.raises(ZeroDivisionError):
        loop.run(_channel((0, [1])))
    assert not stats[0].failed


def test_a_pass_that_is_given_up_ends_the_loop() -> None:
    loop, _ = _loop(FakeWriter())
    channel = _channel((0, [1]))
    channel.break_off()
    with pytest.raises(ChannelBroken):
        loop.run(channel)
