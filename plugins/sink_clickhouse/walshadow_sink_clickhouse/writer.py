"""Fills a staging table: encodes in the caller's thread while the blocks before go in from their own."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any

import pyarrow as pa

from walshadow_core.api import DestinationError, TablePlan, WriteStats
from walshadow_sink_clickhouse.blocks import Block, BlockPool
from walshadow_sink_clickhouse.client import Connection
from walshadow_sink_clickhouse.native import NativeEncoder
from walshadow_sink_clickhouse.parts import StagingParts
from walshadow_sink_clickhouse.planning import Landing
from walshadow_sink_clickhouse.quoting import identifiers, literal, qualified
from walshadow_sink_clickhouse.settings import OutOfRange

log = logging.getLogger(__name__)

QUERY_PREFIX = "walshadow-"
"""How the query id, and the log_comment, of every insert of ours begins."""

SEND_ROWS = 500_000
"""What makes a block worth an insert whatever its size: one of millions of rows was slower than several."""

LANES = 2
"""Inserts of one table at a time: one is parsed while the other is written."""

PATIENCE = 60.0
"""Seconds that abort() gives a server to end an insert."""


def insert_settings(timeout: int) -> dict[str, Any]:
    """Settings of every insert into staging: no merging of the block (what comes in is one version per row), no
    waiting room, no deduplication by content (a table without a key may hold equal blocks), no cap on
    partitions, a time limit."""
    return {
        "optimize_on_insert": 0,
        "async_insert": 0,
        "insert_deduplicate": 0,
        "deduplicate_insert": "disable",
        "max_partitions_per_insert_block": 0,
        "max_execution_time": timeout,
    }


def kill_sql(condition: str) -> str:
    """End the queries of which ``condition`` holds, and wait for it."""
    return f"KILL QUERY WHERE {condition} SYNC"


def insert_sql(database: str, table: str, columns: list[str]) -> str:
    """The head of an INSERT."""
    return f"INSERT INTO {qualified(database, table)} ({identifiers(columns)})"


def named_as_ours(prefix: str) -> str:
    """The condition on system.processes for queries that were named with ``prefix``. The log_comment says it
    where an engine gives query ids of its own."""
    text = literal(prefix)
    return f"(startsWith(query_id, {text}) OR startsWith(Settings['log_comment'], {text}))"


def end_earlier_inserts(connection: Connection, database: str, staging: str) -> None:
    """End what an earlier attempt, of any process, may still be inserting into this staging table."""
    head = literal(f"INSERT INTO {qualified(database, staging)} ")
    condition = f"query_kind = 'Insert' AND startsWith(query, {head}) AND {named_as_ours(QUERY_PREFIX)}"
    connection.run(kill_sql(condition))


class NativeStagingWriter:
    """The StagingWriter of one plan.

    At most three of its blocks are in memory: one being filled, two on their way. Batches are gathered in a block until
    it is large enough to be worth an insert, so that they themselves can be small: they are then encoded while they are
    in the CPU's cache. ``control`` runs statements on the staging table while inserts are on connections of their own,
    which ``lane`` opens; ``storage`` gives the staging table's uuid at any moment; ``reach`` opens one more connection,
    which abort() ends and drops by, whatever the others wait for.
    """

    def __init__(
        self,
        plan: TablePlan,
        database: str,
        control: Connection,
        lane: Callable[[], Connection],
        reach: Callable[[], Connection],
        storage: Callable[[], str | None],
        pool: BlockPool,
        policy: OutOfRange,
        timeout: int,
    ) -> None:
        landing: Landing = plan.private
        self._control = control
        self._open_lane = lane
        self._reach = reach
        self._storage = storage
        self._made = storage()
        self._pool = pool
        self._encoder = NativeEncoder(landing.sent, policy)
        self._into = insert_sql(database, plan.staging, [c.name for c in landing.sent])
        self._table = plan.table
        staging = qualified(database, plan.staging)
        self._parts = StagingParts(control, database, plan.staging)
        self._drop = f"DROP TABLE IF EXISTS {staging}"
        self._count = f"SELECT count() FROM {staging}"
        self._settings = insert_settings(timeout)
        self._name = f"{QUERY_PREFIX}{uuid.uuid4()}-"
        self._sent = 0
        self._given_up = threading.Event()
        self._starting = threading.Lock()
        """Held while an insert is begun or counted, and while abort() says that no more may be."""
        self._lanes: list[_Lane] = []
        self._filling: Block | None = None
        self._stats = WriteStats(adjusted=self._encoder.adjusted)

    @property
    def stats(self) -> WriteStats:
        """Rows and bytes (of Native blocks, not compressed) that are in, and values that the policy changed."""
        return self._stats

    def write(self, batch: pa.RecordBatch) -> None:
        """Encode ``batch``; send the block that it fills once the one before is in. Raises DestinationError, of this or
        an earlier batch, and after abort()."""
        self._check()
        if not batch.num_rows:
            return
        block = self._take_filling() or self._pool.take(unless=self._given_up)
        if block is None:
            raise self._was_given_up()
        try:
            self._encoder.append(batch, block)
        except BaseException:
            self._keep_filling(block)
            raise
        if not block.full and block.rows < SEND_ROWS and self._keep_filling(block):
            return
        self._send(block)

    def _take_filling(self) -> Block | None:
        with self._starting:
            block, self._filling = self._filling, None
        return block

    def _keep_filling(self, block: Block) -> bool:
        """Keep the block for the next batch; False if it is to be sent as it is, as others wait for one. After abort()
        and with nothing in it, it goes back at once."""
        with self._starting:
            if not self._given_up.is_set() and block.rows:
                if not self._pool.may_keep(block):
                    return False
                self._filling = block
                return True
        self._pool.give(block)
        return True

    def _send(self, block: Block) -> None:
        """Insert the block once there is a lane for it; it goes back to the pool."""
        try:
            lane = self._free_lane()
            self._sent += 1
            self._parts.before_insert(block.used)
            self._begin(block, lane)
        except BaseException:
            self._pool.give(block)
            raise

    def finish(self) -> None:
        """Send what is left, and wait until all is in. Raises DestinationError, also if another load filled the same
        staging table."""
        if (last := self._take_filling()) is not None:
            self._send(last)
        self._wait()
        if self._storage() != self._made or int(self._control.rows(self._count)[0][0]) > self._stats.rows:
            raise DestinationError(
                f"another load of {self._table} has made, or written to, the same staging table",
                "let one end before the next begins",
            )
        self._parts.settle()
        self._check()
        self.close()

    def abort(self) -> None:
        """End the inserts that are on their way, then drop the staging table. Any thread may call it: a write() or
        finish() that another one is in ends with a DestinationError. A server that does not answer is given up after
        a minute, with a warning; the next load into the table ends and drops what is left."""
        with self._starting:
            self._given_up.set()
        self._pool.wake()
        try:
            ending = self._reach()
        except DestinationError as error:
            log.warning("staging table not dropped: %s", error)
            return
        try:
            if not self._end_flights(ending):
                log.warning("staging table not dropped: inserts into it did not end")
                return
            ending.run(self._drop)
        except DestinationError as error:
            log.warning("staging table not dropped: %s", error)
        finally:
            ending.close()
        self.close()

    def close(self) -> None:
        """Close the connections, once the inserts that are in flight have ended. For a writer that was neither finished
        nor aborted."""
        if not self._given_up.is_set():
            wait(lane.flight for lane in self._lanes)
        if (left := self._take_filling()) is not None:
            self._pool.give(left)
        for lane in self._lanes:
            lane.connection.close()

    def _end_flights(self, ending: Connection) -> bool:
        """Kill the inserts that are on their way until they have ended; False if they do not."""
        flights = [lane.flight for lane in self._lanes]
        deadline = time.monotonic() + PATIENCE
        while not all(flight.done() for flight in flights):
            self._kill(ending)
            if wait(flights, 1.0).not_done and time.monotonic() > deadline:
                return False
        # What the server still runs though the connection broke.
        self._kill(ending)
        return True

    def _kill(self, ending: Connection) -> None:
        try:
            ending.run(kill_sql(named_as_ours(self._name)))
        except DestinationError as error:
            log.debug("KILL QUERY failed: %s", error)

    def _check(self) -> None:
        if self._given_up.is_set():
            raise self._was_given_up()

    def _was_given_up(self) -> DestinationError:
        return DestinationError(f"the load of table {self._table!r} was given up")

    def _wait(self) -> None:
        for lane in self._lanes:
            lane.flight.result()

    def _free_lane(self) -> _Lane:
        """One that nothing is on: there may be none yet. Raises DestinationError, of an earlier block."""
        if len(self._lanes) == LANES:
            wait([lane.flight for lane in self._lanes], return_when=FIRST_COMPLETED)
        for lane in self._lanes:
            if lane.flight.done():
                lane.flight.result()
                return lane
        lane = _Lane(self._open_lane())
        with self._starting:
            if not self._given_up.is_set():
                self._lanes.append(lane)
                return lane
        lane.connection.close()
        raise self._was_given_up()

    def _begin(self, block: Block, lane: _Lane) -> None:
        """Insert ``block`` from a thread of its own. It is a daemon: one that waits for a server which does not answer
        must not keep the program from ending."""
        flight: Future[None] = Future()
        query_id = f"{self._name}{self._sent}"

        def insert() -> None:
            try:
                self._insert(block, lane.connection, query_id)
            except BaseException as error:
                flight.set_exception(error)
            else:
                flight.set_result(None)

        with self._starting:
            self._check()
            threading.Thread(target=insert, name=f"insert-{self._table}", daemon=True).start()
            lane.flight = flight

    def _insert(self, block: Block, connection: Connection, query_id: str) -> None:
        try:
            connection.insert(self._into, block, {**self._settings, "log_comment": query_id}, query_id)
            with self._starting:
                self._stats.rows += block.rows
                self._stats.bytes += block.used
        finally:
            self._pool.give(block)


class _Lane:
    """A connection for inserts, and what is on it or was last."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.flight: Future[None] = Future()
        self.flight.set_result(None)
