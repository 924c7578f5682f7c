"""Fills a staging table: encodes in the caller's thread while the block before goes in from its own."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from typing import Any

import pyarrow as pa

from walshadow_core.api import DestinationError, TablePlan, WriteStats
from walshadow_sink_clickhouse.blocks import Block, BlockPool
from walshadow_sink_clickhouse.client import Connection
from walshadow_sink_clickhouse.native import NativeEncoder
from walshadow_sink_clickhouse.planning import Landing
from walshadow_sink_clickhouse.quoting import identifiers, literal, qualified
from walshadow_sink_clickhouse.settings import OutOfRange

log = logging.getLogger(__name__)

QUERY_PREFIX = "walshadow-"
"""How the query id, and the log_comment, of every insert of ours begins."""


MERGES_HELD = 100
"""Inserts during which staging is not merged: a load of less is quicker without, a longer one must not leave too
many parts."""


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

    At most two of its blocks are in memory: one being encoded, one on its way. ``control`` runs KILL and DROP while
    ``inserts``, which is the writer's own, is busy.
    """

    def __init__(
        self,
        plan: TablePlan,
        database: str,
        control: Connection,
        inserts: Connection,
        pool: BlockPool,
        policy: OutOfRange,
        timeout: int,
    ) -> None:
        landing: Landing = plan.private
        self._control = control
        self._inserts = inserts
        self._pool = pool
        self._encoder = NativeEncoder(landing.sent, policy)
        self._into = insert_sql(database, plan.staging, [c.name for c in landing.sent])
        staging = qualified(database, plan.staging)
        self._hold_merges = f"SYSTEM STOP MERGES {staging}"
        self._let_merge = f"SYSTEM START MERGES {staging}"
        self._merges_held = False
        self._drop = f"DROP TABLE IF EXISTS {staging}"
        self._settings = insert_settings(timeout)
        self._name = f"{QUERY_PREFIX}{uuid.uuid4()}-"
        self._sent = 0
        self._stopping = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"insert-{plan.table}")
        self._flight: Future[None] | None = None
        self._closed = False
        self._stats = WriteStats(adjusted=self._encoder.adjusted)

    @property
    def stats(self) -> WriteStats:
        """Rows and bytes (of Native blocks, not compressed) that are in, and values that the policy changed."""
        return self._stats

    def write(self, batch: pa.RecordBatch) -> None:
        """Encode ``batch`` and, once the block before is in, send it. Raises DestinationError, of this or an
        earlier block."""
        if not batch.num_rows:
            return
        block = self._pool.take()
        try:
            self._encoder.append(batch, block)
            self._wait()
        except BaseException:
            self._pool.give(block)
            raise
        self._sent += 1
        if self._sent == 1:
            self._stop_merges()
        elif self._sent == MERGES_HELD:
            self._start_merges()
        self._flight = self._thread.submit(self._insert, block, f"{self._name}{self._sent}")

    def finish(self) -> None:
        """Wait until all is in. Raises DestinationError."""
        self._wait()
        self._start_merges()
        self.close()

    def abort(self) -> None:
        """End the insert that is on its way, for certain, then drop the staging table."""
        self._stopping.set()
        try:
            while self._flight is not None:
                self._kill()
                try:
                    self._flight.result(1.0)
                except NotYet:
                    continue
                except DestinationError:
                    log.debug("an insert ended by abort", exc_info=True)
                self._flight = None
            # What the server still runs though the connection broke.
            self._kill()
            self._control.run(self._drop)
        except DestinationError as error:
            log.warning("staging table not dropped: %s", error)
        self.close()

    def _stop_merges(self) -> None:
        try:
            self._control.run(self._hold_merges)
            self._merges_held = True
        except DestinationError as error:
            log.debug("staging is merged while it is filled: %s", error)

    def _start_merges(self) -> None:
        if self._merges_held:
            self._control.run(self._let_merge)
            self._merges_held = False

    def _wait(self) -> None:
        if self._flight is not None:
            self._flight.result()
            self._flight = None

    def _insert(self, block: Block, query_id: str) -> None:
        try:
            if self._stopping.is_set():
                raise DestinationError("the load was given up")
            self._inserts.insert(self._into, block, {**self._settings, "log_comment": query_id}, query_id)
            self._stats.rows += block.rows
            self._stats.bytes += block.used
        finally:
            self._pool.give(block)

    def _kill(self) -> None:
        try:
            self._control.run(kill_sql(named_as_ours(self._name)))
        except DestinationError as error:
            log.debug("KILL QUERY failed: %s", error)
            time.sleep(0.1)

    def close(self) -> None:
        """Close the connection and end the thread, once the insert that is in flight has ended. For a writer that
        was neither finished nor aborted."""
        if not self._closed:
            self._closed = True
            self._thread.shutdown()
            self._inserts.close()
