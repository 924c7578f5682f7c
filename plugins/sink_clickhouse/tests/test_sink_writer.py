"""The staging writer: in flight, aborted, killed, out of time; and errors of the server in one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import walshadow_sink_clickhouse.blocks as blocks_module
import walshadow_sink_clickhouse.parts as parts_module
import walshadow_sink_clickhouse.writer as writer_module
from walshadow_sink_clickhouse.blocks import BlockPool
from walshadow_sink_clickhouse.client import Connection, connect
from walshadow_sink_clickhouse.engine import EngineProcess, EngineServer
from walshadow_sink_clickhouse.plugin import walshadow_destination
from walshadow_sink_clickhouse.url import parse_url
from walshadow_sink_clickhouse.writer import kill_sql, named_as_ours

from walshadow_core.api import DestinationError
from walshadow_core.testing.destination_contract import SIMPLE, make_relation, simple_batch

SLOW = "sleepEachRow(0.02) = 0"
"""As a materialized column: 50 rows take a second."""


def full_at(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Blocks of this many bytes are sent."""
    monkeypatch.setattr(blocks_module, "FULL", size)
    monkeypatch.setattr(blocks_module, "FULL_IN_FILE", size)


@pytest.fixture(autouse=True)
def send_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch is an insert of its own, unless a test says otherwise."""
    full_at(monkeypatch, 0)


def slow_staging(destination: Any) -> Any:
    """A plan into a table whose every row takes 20 ms to insert."""
    connection: Connection = destination._connection
    connection.run(f"CREATE DATABASE IF NOT EXISTS {destination._database} ENGINE = Atomic")
    connection.run(
        f"CREATE TABLE {destination._name('t')} (id Int64, c_text Nullable(String), slow UInt8 MATERIALIZED {SLOW},"
        " _lsn UInt64, _xid UInt32, _commit_ts DateTime64(6, 'UTC'), _is_deleted Bool)"
        " ENGINE = MergeTree ORDER BY id"
    )
    return destination.plan(make_relation(SIMPLE), "t")


def running(connection: Connection, destination: Any) -> list[str]:
    """Inserts of ours that the server runs into this database."""
    return [
        row[0]
        for row in connection.rows(
            f"SELECT query FROM system.processes WHERE query_kind = 'Insert' AND {named_as_ours('walshadow-')}"
        )
        if f"`{destination._database}`" in row[0]
    ]


def wait_for_insert(connection: Connection, destination: Any) -> None:
    """Until the server runs an insert of ours."""
    for _ in range(2000):
        if running(connection, destination):
            return
        threading.Event().wait(0.005)
    raise AssertionError("no insert of ours came up")


def big_batch() -> pa.RecordBatch:
    """Three seconds' worth: as long as one block may sleep."""
    return simple_batch(range(140))


def test_abort_ends_what_is_in_flight(opened: Any) -> None:
    """When abort() returns no insert runs any more, and staging is gone."""
    destination = opened()
    plan = slow_staging(destination)
    writer = destination.create_staging(plan)
    watcher = connect(destination._target)
    writer.write(big_batch())
    wait_for_insert(watcher, destination)
    writer.abort()
    assert running(watcher, destination) == []
    assert destination.fingerprint(plan.staging) is None
    assert writer.stats.rows == 0
    watcher.close()
    destination.close()


def test_a_new_attempt_ends_inserts_of_the_old(opened: Any) -> None:
    """What an earlier attempt still inserts is ended before staging is made anew; none of its rows come there."""
    first, second = opened(), opened()
    plan = slow_staging(first)
    writer = first.create_staging(plan)
    watcher = connect(first._target)
    writer.write(big_batch())
    wait_for_insert(watcher, first)
    anew = second.create_staging(plan)
    assert running(watcher, first) == []
    with pytest.raises(DestinationError):
        writer.finish()
    anew.write(simple_batch([1]))
    anew.finish()
    assert [int(r[0]) for r in watcher.rows(f"SELECT id FROM {first._name(plan.staging)}")] == [1]
    for each in (watcher, first, second):
        each.close()


def test_a_killed_insert_is_an_error(opened: Any) -> None:
    """Whoever kills it: never a load that misses rows."""
    destination = opened()
    writer = destination.create_staging(slow_staging(destination))
    watcher = connect(destination._target)
    writer.write(big_batch())
    wait_for_insert(watcher, destination)
    watcher.run(kill_sql(named_as_ours("walshadow-")))
    with pytest.raises(DestinationError, match="while inserting 140 rows"):
        writer.finish()
    writer.abort()
    watcher.close()
    destination.close()


def test_an_insert_has_a_time_limit(opened: Any) -> None:
    """insert_timeout: an error that names the setting."""
    destination = opened(insert_timeout=1)
    writer = destination.create_staging(slow_staging(destination))
    writer.write(big_batch())
    with pytest.raises(
        DestinationError, match=r"time ran out while inserting 140 rows.*raise the setting insert_timeout"
    ):
        writer.finish()
    writer.abort()
    destination.close()


def test_an_error_comes_at_a_later_call(opened: Any) -> None:
    """Staging that went away: the next write or finish says so; blocks are given back."""
    destination = opened(blocks=2)
    plan = destination.plan(make_relation(SIMPLE), "t")
    writer = destination.create_staging(plan)
    destination.drop(plan.staging)
    with pytest.raises(DestinationError, match=r"ClickHouse failed while inserting 1 rows.*UNKNOWN_TABLE") as error:
        for _ in range(4):
            writer.write(simple_batch([1]))
        writer.finish()
    assert "\n" not in str(error.value) and len(str(error.value)) < 900
    writer.abort()
    writer = destination.create_staging(plan)
    for _ in range(5):
        writer.write(simple_batch([1]))
    writer.finish()
    assert writer.stats.rows == 5 and writer.stats.bytes > 0
    destination.close()


def test_several_writers_share_the_blocks(opened: Any) -> None:
    """More tables than blocks, from several threads: all come through."""
    destination = opened(blocks=2)
    plans = [destination.plan(make_relation(SIMPLE, name=f"t{i}"), f"t{i}") for i in range(5)]
    writers = [destination.create_staging(plan) for plan in plans]

    def fill(writer: Any) -> None:
        for i in range(5):
            writer.write(simple_batch([i]))
        writer.finish()

    with ThreadPoolExecutor(5) as threads:
        list(threads.map(fill, writers))
    assert [w.stats.rows for w in writers] == [5] * 5
    destination.close()


def test_batches_are_gathered(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones go in together: by bytes, by rows, and at the end what is left."""
    full_at(monkeypatch, 1 << 20)
    monkeypatch.setattr(writer_module, "SEND_ROWS", 30)
    destination = opened()
    writer = destination.create_staging(destination.plan(make_relation(SIMPLE), "t"))
    for start in range(0, 100, 10):
        writer.write(simple_batch(range(start, start + 10)))
    writer.finish()
    assert writer.stats.rows == 100
    connection: Connection = destination._connection
    found = connection.rows(f"SELECT count(), uniqExact(id), uniqExact(_part) FROM {destination._name('t__wsstg')}")
    assert [int(n) for n in found[0]] == [100, 100, 4]
    destination.close()


def test_gathered_rows_of_many_writers(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """More writers than blocks, in turn by one thread: some must send what they have, and none waits for ever."""
    full_at(monkeypatch, 1 << 20)
    destination = opened()
    plans = [destination.plan(make_relation(SIMPLE, name=f"t{i}"), f"t{i}") for i in range(7)]
    writers = [destination.create_staging(plan) for plan in plans]
    for i in range(6):
        for writer in writers:
            writer.write(simple_batch([2 * i, 2 * i + 1]))
    writers.pop().abort()
    for writer in writers:
        writer.finish()
    assert [w.stats.rows for w in writers] == [12] * 6
    destination.close()


def test_a_bad_batch_leaves_the_gathered_ones(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    full_at(monkeypatch, 1 << 20)
    destination = opened()
    writer = destination.create_staging(destination.plan(make_relation(SIMPLE), "t"))
    writer.write(simple_batch([1]))
    with pytest.raises(DestinationError, match="columns came"):
        writer.write(simple_batch([2]).select([0]))
    writer.write(simple_batch([3]))
    writer.finish()
    assert writer.stats.rows == 2
    destination.close()


def test_pool_keeps_two_for_others() -> None:
    """Blocks that wait for more to come into them never leave fewer than two that come back by themselves."""
    pool = BlockPool(3, in_files=False)
    never = threading.Event()
    first, second = pool.take(never), pool.take(never)
    assert first is not None and second is not None
    assert pool.may_keep(first) and pool.may_keep(first) and not pool.may_keep(second)
    pool.give(first)
    assert pool.may_keep(second)
    assert not any(BlockPool(2, in_files=False).may_keep(block) for block in (first, second))


def test_pool_waits() -> None:
    """No more blocks than the limit; who asks for one more gets the first that comes back."""
    pool = BlockPool(2, in_files=False)
    never = threading.Event()
    first, second = pool.take(never), pool.take(never)
    got: list[Any] = []
    thread = threading.Thread(target=lambda: got.append(pool.take(never)))
    thread.start()
    thread.join(0.05)
    assert not got
    first.used = first.rows = 3
    pool.give(first)
    thread.join(10)
    assert got == [first] and first.used == first.rows == 0
    pool.give(second)
    pool.close()


def test_equal_blocks_are_not_dropped(opened: Any) -> None:
    """The settings say no deduplication and no waiting room, whatever the server's default."""
    destination = opened()
    writer = destination.create_staging(destination.plan(make_relation(SIMPLE, key=False), "t"))
    sent = destination._connection.known(writer._settings)
    assert sent["async_insert"] == 0 and sent["optimize_on_insert"] == 0
    assert "insert_deduplicate" in sent or "deduplicate_insert" in sent
    writer.abort()
    destination.close()


def test_a_directory_that_is_open_elsewhere(tmp_path: Path) -> None:
    """One line that names the directory and the remedy. In a process of its own, as this one has its engine."""
    path = tmp_path / "data"
    code = (
        "import sys\n"
        "from walshadow_core.api import DestinationError\n"
        "from walshadow_sink_clickhouse.plugin import walshadow_destination\n"
        "try:\n"
        f"    walshadow_destination('chdb://{path}?database=d', {{}}).fingerprint('t')\n"
        "except DestinationError as error:\n"
        "    print(error)\n"
    )
    with EngineProcess(path):
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stdout
    assert out.count("\n") == 1, out
    assert f"can't open the engine in {path}: another process has it open" in out
    assert "walshadow engine serve" in out


def test_a_second_engine_in_one_process(embedded: Any, tmp_path: Path) -> None:
    """One line."""
    destination = embedded()
    assert destination.fingerprint("t") is None
    other = walshadow_destination(f"chdb://{tmp_path}/other?database=d", {})
    assert other is not None
    (tmp_path / "other").mkdir()
    with pytest.raises(DestinationError, match="this process has another engine open"):
        other.fingerprint("t")
    destination.close()


def test_wrong_password(embedded_path: Path) -> None:
    """One line, the remedy, and not the password."""
    with EngineServer(embedded_path, user="loader", password="right-word") as server:
        good = walshadow_destination(f"clickhouse://loader:right-word@127.0.0.1:{server.port}/d", {})
        assert good is not None and good.fingerprint("t") is None
        good.close()
        bad = walshadow_destination(f"clickhouse://loader:wrong-word@127.0.0.1:{server.port}/d", {})
        assert bad is not None
        with pytest.raises(DestinationError, match="refused the user or the password; ") as error:
            bad.fingerprint("t")
        assert "word@" not in str(error.value) and "wrong-word" not in str(error.value)


def test_the_server_goes_away(tmp_path: Path) -> None:
    """Killed while an insert is on its way: an error in one line from finish(), a quiet abort()."""
    with EngineProcess(tmp_path / "data") as engine:
        destination = walshadow_destination(engine.url("d"), {})
        assert destination is not None
        writer = destination.create_staging(slow_staging(destination))
        watcher = connect(parse_url(engine.url("d"), {}))
        writer.write(big_batch())
        wait_for_insert(watcher, destination)
        engine._process.kill()
        engine._process.wait()
        with pytest.raises(DestinationError) as error:
            writer.finish()
        assert "\n" not in str(error.value)
        started = time.monotonic()
        writer.abort()
        assert time.monotonic() - started < 60
        watcher.close()
        destination.close()


def test_merges_are_held_and_let_go(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Staging is not merged while it is filled, up to a number of inserts; what is published is merged."""
    monkeypatch.setattr(parts_module, "MERGES_HELD", 12)
    for inserts, parts in ((11, 11), (12, None)):
        destination = opened()
        plan = destination.plan(make_relation(SIMPLE), "t")
        writer = destination.create_staging(plan)
        for i in range(inserts):
            writer.write(simple_batch([i]))
        writer._wait()
        where = f"active AND database = '{destination._database}' AND table = '{plan.staging}'"
        count = int(destination._connection.rows(f"SELECT count() FROM system.parts WHERE {where}")[0][0])
        assert writer._parts._held == (parts is not None) and (parts is None or count == parts)
        writer.finish()
        destination._connection.run(f"OPTIMIZE TABLE {destination._name(plan.staging)} FINAL")
        assert destination._connection.rows(f"SELECT count() FROM system.parts WHERE {where}") in ([[1]], [["1"]])
        destination.close()


def settings_of(destination: Any, table: str) -> str:
    """What the table says after SETTINGS."""
    where = f"database = '{destination._database}' AND name = '{table}'"
    full: str = destination._connection.rows(f"SELECT engine_full FROM system.tables WHERE {where}")[0][0]
    return full.partition("SETTINGS ")[2]


def part_types(destination: Any, table: str) -> set[str]:
    """How the parts of a table are kept."""
    where = f"active AND database = '{destination._database}' AND table = '{table}'"
    return {row[0] for row in destination._connection.rows(f"SELECT part_type FROM system.parts WHERE {where}")}


@pytest.mark.parametrize("own", [None, "", "min_bytes_for_wide_part = 1000"])
def test_large_inserts_make_parts_of_one_file(opened: Any, own: str | None) -> None:
    """While staging is filled alone: what is published has the settings that it would have without us. A table that
    is there and says itself what its parts are is left as it is."""
    destination = opened()
    if own is not None:
        destination.create_staging(destination.plan(make_relation(SIMPLE), "t")).finish()
        destination.rename("t__wsstg", "t")
        if own:
            destination._connection.run(f"ALTER TABLE {destination._name('t')} MODIFY SETTING {own}")
    plan = destination.plan(make_relation(SIMPLE), "t", replace=True)
    writer = destination.create_staging(plan)
    before = settings_of(destination, plan.staging)
    writer.write(simple_batch([1]))
    writer._wait()
    assert settings_of(destination, plan.staging) == before
    writer.write(simple_batch(range(2, 400_000)))
    writer._wait()
    assert ("min_bytes_for_wide_part = 67108864" in settings_of(destination, plan.staging)) == (not own)
    assert part_types(destination, plan.staging) == ({"Compact", "Wide"} if own else {"Compact"})
    writer.finish()
    assert settings_of(destination, plan.staging) == before
    destination._connection.run(f"OPTIMIZE TABLE {destination._name(plan.staging)} FINAL")
    assert part_types(destination, plan.staging) == {"Wide"}
    destination.close()


def test_two_inserts_are_on_their_way_at_a_time(opened: Any) -> None:
    """The third waits for one of them; all are counted."""
    destination = opened()
    plan = slow_staging(destination)
    writer = destination.create_staging(plan)
    started = time.monotonic()
    for first in (0, 100):
        writer.write(simple_batch(range(first, first + 50)))
    assert time.monotonic() - started < 1
    for _ in range(200):
        if len(running(destination._connection, destination)) == 2:
            break
        time.sleep(0.01)
    else:
        raise AssertionError("they did not run beside each other")
    writer.write(simple_batch([1000]))
    assert len(running(destination._connection, destination)) <= 2
    writer.finish()
    assert writer.stats.rows == 101
    destination.close()


def test_nothing_is_sent_twice(embedded_path: Path, database: str) -> None:
    """A connection that ends without an answer: an insert, a swap may have happened, so neither is sent again."""
    seen: list[str] = []
    with EngineServer(embedded_path) as server:
        handler: Any = server._server.RequestHandlerClass
        original = handler._run

        def run_without_an_answer(self: Any, request: Any) -> None:
            if request.sql.startswith(("INSERT", "EXCHANGE", "RENAME")):
                seen.append(request.sql.split()[0])
                raise ConnectionResetError
            original(self, request)

        for compression in ("none", "lz4"):
            destination: Any = walshadow_destination(server.url(database), {"compression": compression})
            plan = destination.plan(make_relation(SIMPLE), "t")
            writer = destination.create_staging(plan)
            handler._run = run_without_an_answer
            writer.write(simple_batch([1]))
            with pytest.raises(DestinationError, match="while inserting 1 rows"):
                writer.finish()
            for attempt in (destination.exchange, destination.rename):
                with pytest.raises(DestinationError):
                    attempt(plan.staging, "t")
            handler._run = original
            writer.abort()
            destination.close()
    assert seen == ["INSERT", "EXCHANGE", "RENAME"] * 2


def in_a_thread(work: Callable[[], object]) -> tuple[threading.Thread, list[BaseException]]:
    """A thread that does ``work``, and what it raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, raised


def test_abort_wakes_who_waits_for_an_insert(opened: Any) -> None:
    """A write() behind a slow insert, and a finish(): abort() of another thread ends both with the insert."""
    destination = opened()
    plan = slow_staging(destination)
    watcher = connect(destination._target)
    for wait in (lambda writer: writer.write(simple_batch([1])), lambda writer: writer.finish()):
        writer = destination.create_staging(plan)
        writer.write(big_batch())
        wait_for_insert(watcher, destination)
        thread, raised = in_a_thread(lambda writer=writer, wait=wait: wait(writer))
        writer.abort()
        thread.join(30)
        assert not thread.is_alive() and [type(e) for e in raised] == [DestinationError]
        assert running(watcher, destination) == [] and destination.fingerprint(plan.staging) is None
    watcher.close()


def test_abort_wakes_who_waits_for_a_block(opened: Any) -> None:
    """All blocks are with others, who need not end for it."""
    destination = opened(blocks=2)
    plan = destination.plan(make_relation(SIMPLE), "t")
    writer = destination.create_staging(plan)
    kept = [destination._pool.take(threading.Event()) for _ in range(2)]
    thread, raised = in_a_thread(lambda: writer.write(simple_batch([1])))
    thread.join(0.1)
    assert thread.is_alive()
    writer.abort()
    thread.join(30)
    assert not thread.is_alive() and [type(e) for e in raised] == [DestinationError]
    assert destination.fingerprint(plan.staging) is None
    for block in kept:
        destination._pool.give(block)


def test_abort_of_a_server_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It gives up in time and says what is left; the next load takes that away."""
    from walshadow_sink_clickhouse import destination as module

    monkeypatch.setattr(module, "_TO_END", 1)
    with EngineProcess(tmp_path / "data") as engine:
        destination: Any = walshadow_destination(engine.url("d"), {})
        plan = slow_staging(destination)
        writer = destination.create_staging(plan)
        watcher = connect(destination._target)
        writer.write(big_batch())
        wait_for_insert(watcher, destination)
        os.kill(engine.pid, signal.SIGSTOP)
        try:
            thread, _ = in_a_thread(writer.abort)
            thread.join(30)
            assert not thread.is_alive()
        finally:
            os.kill(engine.pid, signal.SIGCONT)
        assert "staging table not dropped: " in caplog.text
        writer = destination.create_staging(plan)
        writer.write(simple_batch([1]))
        writer.finish()
        assert watcher.rows(f"SELECT count() FROM {destination._name(plan.staging)}") in ([[1]], [["1"]])
        watcher.close()
        destination.close()
