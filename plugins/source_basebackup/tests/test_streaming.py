"""The WAL of real servers, streamed: what comes, what the server thinks of us, and how it ends."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from typing import cast

import pytest
from walshadow_source_basebackup import walprotocol
from walshadow_source_basebackup.settings import Settings
from walshadow_source_basebackup.streaming import stream

from walshadow_core.api import BackupSource, FormatError, Lsn, SourceError, WalStream, WalStreamSource
from walshadow_core.testing.postgres import PostgresServer, available_majors

MakeSource = Callable[..., BackupSource]
Until = Callable[..., None]
SLOTS = "select slot_name, temporary, active from pg_replication_slots where slot_name like 'walshadow%'"
MORE = "create table if not exists more (v text); insert into more select repeat(md5(i::text), 30) from generate_series(1, {n}) i"


def flushed(server: PostgresServer) -> Lsn:
    """How far the server's WAL is written."""
    return Lsn.parse(server.execute("select pg_current_wal_flush_lsn()::text")[0][0])


def take_until(live: WalStream, position: Lsn) -> bytes:
    """The bytes from the stream's start to at least ``position``, without a gap."""
    data, at = b"", live.start
    while at < position:
        piece = live.take(30)
        assert piece is not None, "no WAL came"
        assert piece.start == at
        data += piece.data
        at = Lsn(at + len(piece.data))
    return data


def on_disk(server: PostgresServer, first: Lsn, last: Lsn, segment: int) -> bytes:
    """The same bytes as the server has them in its files."""
    names = sorted(f.name for f in (server.data / "pg_wal").iterdir() if re.fullmatch("[0-9A-F]{24}", f.name))
    data = b""
    for name in names:
        start = (int(name[8:16], 16) << 32) + int(name[16:], 16) * segment
        if first <= start < last:
            data += (server.data / "pg_wal" / name).read_bytes()
    return data[: last - first]


def streaming(found: BackupSource) -> WalStreamSource:
    """A source that streams."""
    assert isinstance(found, WalStreamSource)
    return found


def test_what_comes_is_what_the_server_has(pg: PostgresServer, source: MakeSource, until: Until) -> None:
    """From a segment's start on, byte for byte, over segments; the slot is temporary and goes with us."""
    with streaming(source(pg)).stream() as live:
        assert live.start % live.segment_size == 0
        assert live.start <= Lsn.parse(pg.execute("select redo_lsn::text from pg_control_checkpoint()")[0][0])
        assert (
            str(live.system_identifier) == pg.execute("select system_identifier::text from pg_control_system()")[0][0]
        )
        assert pg.execute(SLOTS)[0][1:] == (True, True)
        pg.execute(MORE.format(n=3000))
        pg.execute("select pg_switch_wal()")
        pg.execute(MORE.format(n=300))
        end = flushed(pg)
        data = take_until(live, end)
        assert data[: end - live.start] == on_disk(pg, live.start, end, live.segment_size)
        live.confirm(end)
        until(lambda: pg.execute("select count(*) from pg_stat_replication where flush_lsn = %s", (str(end),))[0][0])
        assert live.take(0.01) is None or flushed(pg) > end
    until(lambda: not pg.execute(SLOTS))


def test_nobody_takes_what_comes(pg_newest: PostgresServer, source: MakeSource) -> None:
    """The queue is bounded, the server is held back and hears of us all the same, for longer than its patience."""
    pg_newest.execute("alter system set wal_sender_timeout = '2s'")
    pg_newest.execute("select pg_reload_conf()")
    try:
        settings = Settings.model_validate({"dsn": pg_newest.dsn()})
        with stream(settings, None, None, queue_bytes=1 << 20) as live:
            pg_newest.execute(MORE.format(n=20000))
            end = flushed(pg_newest)
            time.sleep(5)
            assert live._queued <= 1 << 20  # type: ignore[attr-defined]
            assert len(take_until(live, end)) >= end - live.start
    finally:
        pg_newest.execute("alter system reset wal_sender_timeout")
        pg_newest.execute("select pg_reload_conf()")


CHILD = """
import os, signal, sys
from walshadow_source_basebackup.plugin import walshadow_backup_source
with walshadow_backup_source("base_backup", {"dsn": sys.argv[1]}).stream() as live:
    live.take(30)
    print("streaming", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_leaves_no_slot(pg_newest: PostgresServer, until: Until) -> None:
    """kill -9 in the middle: the server drops the slot with the connection."""
    done = subprocess.run([sys.executable, "-c", CHILD, pg_newest.dsn()], capture_output=True, text=True, check=False)
    assert done.stdout == "streaming\n", done.stderr
    until(lambda: not pg_newest.execute(SLOTS))


def test_a_slot_of_ones_own(pg_newest: PostgresServer, source: MakeSource, until: Until) -> None:
    """It stays, and keeps what was not confirmed; one that is not there is named with the remedy."""
    ours = streaming(source(pg_newest))
    with (
        pytest.raises(SourceError, match="pg_create_physical_replication_slot"),
        ours.stream(slot="walshadow_daemon"),
    ):
        pass
    pg_newest.execute("select pg_create_physical_replication_slot('walshadow_daemon', true)")
    try:
        with ours.stream(slot="walshadow_daemon") as live:
            first = live.start
            pg_newest.execute(MORE.format(n=100))
            take_until(live, flushed(pg_newest))
        until(lambda: not pg_newest.execute(SLOTS)[0][2])
        with ours.stream(slot="walshadow_daemon") as again:
            assert again.start == first
            with pytest.raises(SourceError, match="active"), ours.stream(slot="walshadow_daemon"):
                pass
    finally:
        until(lambda: not pg_newest.execute(SLOTS)[0][2])
        pg_newest.execute("select pg_drop_replication_slot('walshadow_daemon')")


def test_a_standby_that_is_promoted(source: MakeSource, until: Until) -> None:
    """The stream goes over to the new timeline where the old one ended."""
    major = available_majors()[-1]
    with (
        PostgresServer(major) as primary,
        PostgresServer(major, standby_of=primary) as standby,
        streaming(source(standby)).stream() as live,
    ):
        primary.execute(MORE.format(n=500))
        end = flushed(primary)
        standby.wait_replayed(str(end))
        data = take_until(live, end)
        assert live.timeline == 1
        standby.execute("select pg_promote()")
        until(lambda: not standby.execute("select pg_is_in_recovery()")[0][0])
        standby.execute(MORE.format(n=500))
        position, at = flushed(standby), Lsn(live.start + len(data))
        while at < position:
            piece = live.take(30)
            assert piece is not None
            assert piece.start == at
            at = Lsn(at + len(piece.data))
        assert live.timeline == 2


def test_the_server_stops(source: MakeSource) -> None:
    """An error of one line, for whoever takes."""
    with PostgresServer(available_majors()[-1]) as server, streaming(source(server)).stream() as live:
        server.stop()
        with pytest.raises(SourceError):
            while True:
                live.take(30)


def test_someone_ends_the_stream(pg_newest: PostgresServer, source: MakeSource) -> None:
    """So does a server that may not keep so much WAL (max_slot_wal_keep_size): its own words and the remedy come out."""
    with source(pg_newest).stream() as live, pytest.raises(SourceError) as caught:
        pg_newest.execute("select pg_terminate_backend(pid) from pg_stat_replication")
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            live.take(0.1)
    assert "57P01" in str(caught.value) and "max_slot_wal_keep_size" in str(caught.value)


def test_leaving_early_is_quick(pg_newest: PostgresServer, source: MakeSource, until: Until) -> None:
    """Whatever is still queued."""
    pg_newest.execute(MORE.format(n=5000))
    began = time.monotonic()
    with streaming(source(pg_newest)).stream():
        pass
    assert time.monotonic() - began < 20
    until(lambda: not pg_newest.execute(SLOTS))


@pytest.mark.parametrize("name", ["", "Slot", 'a"b', "a b", "a" * 64])
def test_names_that_no_slot_can_have(name: str) -> None:
    """They are refused before they are quoted."""
    with pytest.raises(ValueError, match="no name of a slot"):
        walprotocol.start_replication(name, Lsn(0), 1)


@pytest.mark.parametrize("message", [b"", b"x", b"w123", b"k", b"w" + bytes(23)])
def test_messages_of_no_known_form(message: bytes) -> None:
    """Named, not guessed at."""
    with pytest.raises(FormatError, match="START_REPLICATION"):
        walprotocol.parse_message(memoryview(message))


def test_rows_of_no_known_form() -> None:
    """What a proxy might answer."""
    for parse, row in (
        (walprotocol.parse_system, ("1",)), (walprotocol.parse_size, ("16 MB",)), (walprotocol.parse_size, ()),
        (walprotocol.parse_slot, ("logical", "0/1", "1")), (walprotocol.parse_next_timeline, (None, None)),
    ):  # fmt: skip
        with pytest.raises(FormatError):
            cast("Callable[[object], object]", parse)(row)
