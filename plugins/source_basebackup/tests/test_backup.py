"""Backups of real servers: what is in them, options, standbys, and every way to end one early."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from walshadow_core.api import Backup, BackupRequest, BackupSource, Lsn, SourceError
from walshadow_core.testing.postgres import PostgresServer, available_majors

ANY = BackupRequest(frozenset())
SLOW = {"max_rate": "32kB"}
"""At this rate a backup goes on for many minutes: what ends it is the test."""

oldest_and_newest = pytest.mark.parametrize(
    "pg", sorted({available_majors()[0], available_majors()[-1]}), indirect=True, ids=lambda m: f"pg{m}"
)
"""For what takes long and hangs on no major."""

newest = pytest.mark.parametrize(
    "pg",
    [
        available_majors()[-1],
        *(pytest.param(m, marks=pytest.mark.slow) for m in available_majors()[:1] if m != available_majors()[-1]),
    ],
    indirect=True,
    ids=lambda m: f"pg{m}",
)
"""For what starts servers of its own: the oldest major is among the slow tests."""

MakeSource = Callable[..., BackupSource]
NoBackupOn = Callable[[PostgresServer], None]
Until = Callable[..., None]


def turn_tls_on(server: PostgresServer) -> None:
    """With a certificate that it signed itself."""
    key, cert = server.data / "server.key", server.data / "server.crt"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2",
         "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True,
    )  # fmt: skip
    owner = server.data.stat()
    os.chown(key, owner.st_uid, owner.st_gid)
    key.chmod(0o600)
    cert.chmod(0o644)
    server.execute("alter system set ssl = on")
    server.execute("select pg_reload_conf()")


def read_file(backup: Backup, path: str) -> bytes:
    """Reads the whole backup; the content of one file."""
    found = [b"".join(map(bytes, f.chunks())) for part in backup.parts() for f in part.files() if f.path == path]
    assert len(found) == 1
    return found[0]


# ------------------------------------------------------------------------------------------ what is in it


def test_start_and_end_are_the_server_s_own(pg: PostgresServer, source: MakeSource) -> None:
    before = Lsn.parse(pg.execute("select pg_current_wal_lsn()::text")[0][0])
    with source(pg).open(BackupRequest(frozenset(), label="that's it")) as backup:
        label = read_file(backup, "backup_label").decode()
        end = backup.end()
    after = Lsn.parse(pg.execute("select pg_current_wal_flush_lsn()::text")[0][0])
    assert f"START WAL LOCATION: {backup.start.b_redo} " in label
    assert "LABEL: that's it\n" in label
    assert f"START TIMELINE: {backup.start.timeline}\n" in label
    assert before <= backup.start.b_redo < end.b_end <= after
    assert backup.start.server_version // 10000 == pg.major
    [(oid, place)] = pg.execute(
        "select oid, pg_tablespace_location(oid) from pg_tablespace where spcname = 'elsewhere'"
    )
    assert backup.start.tablespaces == {oid: place}


@oldest_and_newest
def test_the_size_estimate_is_near(pg: PostgresServer, source: MakeSource) -> None:
    with source(pg).open(ANY) as backup:
        [part] = backup.parts()
        for _ in part.files():
            pass
        assert part.size is not None
        assert part.size == backup.start.size_estimate
        assert 0.9 < part.bytes_read / part.size < 1.1


@oldest_and_newest
def test_options_reach_the_server(pg: PostgresServer, source: MakeSource, until: Until) -> None:
    options = {"max_rate": "64MB", "checkpoint": "spread", "label": "my own label"}
    with source(pg, **options).open(ANY) as backup:
        [(command,)] = pg.execute("select query from pg_stat_activity where backend_type = 'walsender'")
        label = read_file(backup, "backup_label")
    assert "MAX_RATE 65536" in command
    assert "CHECKPOINT 'spread'" in command
    assert b"LABEL: my own label\n" in label


def test_over_a_unix_socket(pg_newest: PostgresServer, source: MakeSource) -> None:
    with source(pg_newest, dsn=pg_newest.dsn(host=str(pg_newest.root))).open(ANY) as backup:
        assert len(read_file(backup, "global/pg_control")) == 8192
        backup.end()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
@pytest.mark.skipif(17 not in available_majors(), reason="of the wheels only 17 is built with TLS")
def test_over_tls(source: MakeSource, until: Until) -> None:
    """A TLS record may be decrypted in part and wait inside the library, where no socket tells of it."""
    with PostgresServer(17) as server:
        turn_tls_on(server)
        server.execute("create table t as select g, repeat('x', 100) from generate_series(1, 300000) g")
        server.execute("checkpoint")
        path = server.execute("select pg_relation_filepath('t')")[0][0]
        dsn = server.dsn(sslmode="require")
        until(lambda: server.execute("show ssl") == [("on",)])
        with source(server, dsn=dsn).open(ANY) as backup:
            assert server.execute(
                "select ssl from pg_stat_ssl natural join pg_stat_activity where backend_type = 'walsender'"
            ) == [(True,)]
            assert read_file(backup, path) == (server.data / path).read_bytes()
            backup.end()
        with source(server, dsn=dsn, **SLOW).open(ANY) as backup:
            next(backup.parts()[0].files())
        assert "canceling statement due to user request" in server.log.read_text()


def test_the_files_come_once(pg_newest: PostgresServer, source: MakeSource) -> None:
    with source(pg_newest).open(ANY) as backup:
        next(backup.parts()[0].files())
        with pytest.raises(RuntimeError, match="come once"):
            next(backup.parts()[0].files())


# ----------------------------------------------------------------------------------------- ending it early


def test_left_early_the_server_sees_a_cancel_and_no_broken_connection(
    pg: PostgresServer, source: MakeSource, no_backup_on: NoBackupOn
) -> None:
    log_before = len(pg.log.read_text())
    with source(pg).open(ANY) as backup:
        next(backup.parts()[0].files())
    no_backup_on(pg)
    log = pg.log.read_text()[log_before:]
    assert "canceling statement due to user request" in log
    assert "connection" not in log.replace("replication connection", "")


@oldest_and_newest
def test_an_error_in_the_consumer(pg: PostgresServer, source: MakeSource, no_backup_on: NoBackupOn) -> None:
    with pytest.raises(ZeroDivisionError), source(pg, **SLOW).open(ANY) as backup:
        for _ in backup.parts()[0].files():
            raise ZeroDivisionError
    no_backup_on(pg)


@oldest_and_newest
def test_a_finished_backup_is_not_cancelled(pg: PostgresServer, source: MakeSource) -> None:
    log_before = len(pg.log.read_text())
    with source(pg).open(ANY) as backup:
        read_file(backup, "PG_VERSION")
        backup.end()
    assert "cancel" not in pg.log.read_text()[log_before:]


CONSUMER = """
import sys
from walshadow_core.api import BackupRequest
from walshadow_source_basebackup.plugin import walshadow_backup_source
source = walshadow_backup_source("base_backup", {"dsn": sys.argv[1], **dict(w.split("=") for w in sys.argv[2:])})
try:
    with source.open(BackupRequest(frozenset())) as backup:
        for file in backup.parts()[0].files():
            for chunk in file.chunks():
                pass
except KeyboardInterrupt:
    sys.exit(130)
"""


@oldest_and_newest
@pytest.mark.parametrize(
    ("phase", "options"),
    [
        ("streaming database files", ["max_rate=32kB"]),
        ("waiting for checkpoint to finish", ["checkpoint=spread"]),
    ],
)
def test_ctrl_c(pg: PostgresServer, no_backup_on: NoBackupOn, until: Until, phase: str, options: list[str]) -> None:
    """A real SIGINT, while data comes slowly, and while the server waits for a checkpoint of minutes."""
    pg.execute("create table dirty as select g, repeat('y', 500) from generate_series(1, 40000) g")
    consumer = subprocess.Popen([sys.executable, "-c", CONSUMER, pg.dsn(), *options])
    try:
        until(lambda: pg.execute("select phase from pg_stat_progress_basebackup") == [(phase,)])
        consumer.send_signal(signal.SIGINT)
        assert consumer.wait(30) == 130
        no_backup_on(pg)
    finally:
        consumer.kill()
        consumer.wait()
        pg.execute("drop table dirty; checkpoint")


def test_a_killed_consumer(pg_newest: PostgresServer, no_backup_on: NoBackupOn, until: Until) -> None:
    consumer = subprocess.Popen([sys.executable, "-c", CONSUMER, pg_newest.dsn(), "max_rate=1MB"])
    until(lambda: pg_newest.execute("select 1 from pg_stat_progress_basebackup where phase ~ 'streaming'"))
    consumer.kill()
    consumer.wait()
    no_backup_on(pg_newest)


@pytest.mark.parametrize("options", [SLOW, {}], ids=["server waits", "server sends"])
def test_the_connection_is_ended_at_the_source(
    pg: PostgresServer, source: MakeSource, no_backup_on: NoBackupOn, options: dict[str, str]
) -> None:
    with pytest.raises(SourceError) as caught, source(pg, **options).open(ANY) as backup:
        files = backup.parts()[0].files()
        next(files)
        pg.execute("select pg_terminate_backend(pid) from pg_stat_activity where backend_type = 'walsender'")
        for file in files:
            for _ in file.chunks():
                pass
    assert f"the backup of 127.0.0.1:{pg.port}" in caught.value.message
    assert caught.value.remedy is not None
    assert "run it again" in caught.value.remedy
    assert "\n" not in str(caught.value)
    no_backup_on(pg)


def test_cancelled_at_the_source(pg_newest: PostgresServer, source: MakeSource) -> None:
    says = pytest.raises(SourceError, match=r"SQLSTATE 57014.*someone cancelled it")
    with says as caught, source(pg_newest, **SLOW).open(ANY) as backup:
        files = backup.parts()[0].files()
        next(files)
        pg_newest.execute("select pg_cancel_backend(pid) from pg_stat_activity where backend_type = 'walsender'")
        for _ in files:
            pass
    assert "\n" not in str(caught.value)


def test_the_server_crashes(source: MakeSource, pg_newest: PostgresServer) -> None:
    with PostgresServer(pg_newest.major) as server:
        says = pytest.raises(SourceError, match="broke off")
        with says as caught, source(server, **SLOW).open(ANY) as backup:
            files = backup.parts()[0].files()
            next(files)
            server.kill()
            for _ in files:
                pass
        assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------------------------------ standbys


@newest
def test_a_standby_as_source(pg: PostgresServer, source: MakeSource) -> None:
    with PostgresServer(pg.major) as primary, PostgresServer(pg.major, standby_of=primary) as standby:
        primary.execute("create table t as select g from generate_series(1, 3000) g; checkpoint")
        standby.wait_replayed(primary.execute("select pg_current_wal_lsn()::text")[0][0])
        path = primary.execute("select pg_relation_filepath('t')")[0][0]
        chosen = source(standby)
        chosen.preflight()
        with chosen.open(ANY) as backup:
            content = read_file(backup, path)
            end = backup.end()
        assert content == (standby.data / path).read_bytes()
        assert end.b_end >= backup.start.b_redo

        with pytest.raises(SourceError, match="promoted") as caught, chosen.open(ANY) as backup:
            files = backup.parts()[0].files()
            next(files)
            standby.execute("select pg_promote()")
            for _ in files:
                pass
            backup.end()
        assert "\n" not in str(caught.value)


def test_a_standby_whose_primary_writes_no_full_pages(
    pg_newest: PostgresServer, source: MakeSource, no_backup_on: NoBackupOn
) -> None:
    major = pg_newest.major
    with (
        PostgresServer(major, settings={"full_page_writes": "off"}) as primary,
        PostgresServer(major, standby_of=primary) as standby,
    ):
        source(primary).preflight()  # a primary forces full pages while a backup runs
        chosen = source(standby)
        with pytest.raises(SourceError, match="full_page_writes = on at the primary, run CHECKPOINT there"):
            chosen.preflight()
        with pytest.raises(SourceError, match="full_page_writes"), chosen.open(ANY):
            pass
        primary.execute("alter system set full_page_writes = on")
        primary.execute("select pg_reload_conf()")
        primary.restart()
        primary.execute("checkpoint")
        standby.wait_replayed(primary.execute("select pg_current_wal_lsn()::text")[0][0])
        standby.execute("checkpoint")
        chosen.preflight()
        with chosen.open(ANY) as backup:
            read_file(backup, "PG_VERSION")
            backup.end()
