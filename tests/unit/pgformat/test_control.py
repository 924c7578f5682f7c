"""pg_control, field by field against pg_controldata of real servers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import google_crc32c
import pytest

from walshadow_core.api import FormatError, Lsn
from walshadow_core.pgformat.control import CONTROL_PATH, WAL_LEVELS, ClusterState, ControlFile, parse_control
from walshadow_core.testing.postgres import PostgresServer, available_majors

STATES = {"in production": ClusterState.IN_PRODUCTION, "shut down": ClusterState.SHUT_DOWN}


def controldata(server: PostgresServer) -> dict[str, str]:
    lines = server.run("pg_controldata", "-D", str(server.data)).stdout.splitlines()
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def when(text: str) -> int:
    return int(datetime.strptime(text, "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC).timestamp())


def expected(shown: dict[str, str]) -> dict[str, object]:
    """The fields of ControlFile as pg_controldata shows them."""
    epoch, _, xid = shown["Latest checkpoint's NextXID"].partition(":")
    on = {"on": True, "off": False, "yes": True, "no": False}
    return {
        "system_identifier": int(shown["Database system identifier"]),
        "pg_control_version": int(shown["pg_control version number"]),
        "catalog_version": int(shown["Catalog version number"]),
        "state": STATES[shown["Database cluster state"]],
        "time": when(shown["pg_control last modified"]),
        "checkpoint": Lsn.parse(shown["Latest checkpoint location"]),
        "redo": Lsn.parse(shown["Latest checkpoint's REDO location"]),
        "timeline": int(shown["Latest checkpoint's TimeLineID"]),
        "previous_timeline": int(shown["Latest checkpoint's PrevTimeLineID"]),
        "full_page_writes": on[shown["Latest checkpoint's full_page_writes"]],
        "next_xid": (int(epoch) << 32) | int(xid),
        "next_oid": int(shown["Latest checkpoint's NextOID"]),
        "next_multi": int(shown["Latest checkpoint's NextMultiXactId"]),
        "next_multi_offset": int(shown["Latest checkpoint's NextMultiOffset"]),
        "oldest_xid": int(shown["Latest checkpoint's oldestXID"]),
        "oldest_xid_database": int(shown["Latest checkpoint's oldestXID's DB"]),
        "oldest_multi": int(shown["Latest checkpoint's oldestMultiXid"]),
        "oldest_multi_database": int(shown["Latest checkpoint's oldestMulti's DB"]),
        "checkpoint_time": when(shown["Time of latest checkpoint"]),
        "oldest_commit_ts_xid": int(shown["Latest checkpoint's oldestCommitTsXid"]),
        "newest_commit_ts_xid": int(shown["Latest checkpoint's newestCommitTsXid"]),
        "oldest_active_xid": int(shown["Latest checkpoint's oldestActiveXID"]),
        "unlogged_lsn": Lsn.parse(shown["Fake LSN counter for unlogged rels"]),
        "min_recovery_point": Lsn.parse(shown["Minimum recovery ending location"]),
        "min_recovery_timeline": int(shown["Min recovery ending loc's timeline"]),
        "backup_start_point": Lsn.parse(shown["Backup start location"]),
        "backup_end_point": Lsn.parse(shown["Backup end location"]),
        "backup_end_required": on[shown["End-of-backup record required"]],
        "wal_level": WAL_LEVELS.index(shown["wal_level setting"]),
        "wal_log_hints": on[shown["wal_log_hints setting"]],
        "max_connections": int(shown["max_connections setting"]),
        "max_worker_processes": int(shown["max_worker_processes setting"]),
        "max_wal_senders": int(shown["max_wal_senders setting"]),
        "max_prepared_xacts": int(shown["max_prepared_xacts setting"]),
        "max_locks_per_xact": int(shown["max_locks_per_xact setting"]),
        "track_commit_timestamp": on[shown["track_commit_timestamp setting"]],
        "max_align": int(shown["Maximum data alignment"]),
        "blcksz": int(shown["Database block size"]),
        "relseg_size": int(shown["Blocks per segment of large relation"]),
        "xlog_blcksz": int(shown["WAL block size"]),
        "xlog_seg_size": int(shown["Bytes per WAL segment"]),
        "name_data_len": int(shown["Maximum length of identifiers"]),
        "index_max_keys": int(shown["Maximum columns in an index"]),
        "toast_max_chunk_size": int(shown["Maximum size of a TOAST chunk"]),
        "loblksize": int(shown["Size of a large-object chunk"]),
        "float8_by_value": shown["Float8 argument passing"] == "by value",
        "data_checksum_version": int(shown["Data page checksum version"]),
    }


def shown_by(control: ControlFile) -> dict[str, object]:
    return {name: getattr(control, name) for name in ControlFile.__dataclass_fields__}


@pytest.fixture(scope="module", params=[15, 16, 17, 18])
def stopped(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    """A stopped server whose control file has no two equal neighbours where that can be arranged."""
    if request.param not in available_majors():
        pytest.skip(f"no Postgres {request.param} here")
    settings = {
        "wal_level": "logical", "wal_log_hints": "on", "max_connections": "31", "max_worker_processes": "12",
        "max_wal_senders": "7", "max_prepared_transactions": "13", "max_locks_per_transaction": "73",
        "track_commit_timestamp": "on",
    }  # fmt: skip
    server = PostgresServer(
        request.param, settings=settings, initdb=("--locale=C", "--encoding=UTF8", "-k", "--wal-segsize=1")
    )
    with server:
        server.execute("create table t (i int); insert into t values (1)")
        with server.connect(autocommit=False) as one, server.connect(autocommit=False) as two:
            one.execute("select * from t for key share")
            two.execute("select * from t for key share")
            two.commit()
            one.commit()
        server.execute("checkpoint")
        running = (server.data / CONTROL_PATH).read_bytes()
        assert shown_by(parse_control(running)) == expected(controldata(server))
        server.stop()
        yield server


def test_every_field_is_what_pg_controldata_prints(stopped: PostgresServer) -> None:
    control = parse_control((stopped.data / CONTROL_PATH).read_bytes())
    assert shown_by(control) == expected(controldata(stopped))
    assert control.state is ClusterState.SHUT_DOWN
    assert control.next_multi > 1
    assert control.data_checksum_version == 1
    assert control.xlog_seg_size == 1 << 20


def test_a_changed_byte_fails_the_crc(stopped: PostgresServer) -> None:
    data = bytearray((stopped.data / CONTROL_PATH).read_bytes())
    data[100] ^= 1
    with pytest.raises(FormatError, match="CRC"):
        parse_control(bytes(data))


def test_a_short_file_is_named(stopped: PostgresServer) -> None:
    data = (stopped.data / CONTROL_PATH).read_bytes()
    for length in (0, 15, 16, 200, 288):
        with pytest.raises(FormatError, match="bytes"):
            parse_control(data[:length])


def test_another_version_is_named() -> None:
    data = bytes(8) + (1201).to_bytes(4, "little") + bytes(500)
    with pytest.raises(FormatError, match="version 1201"):
        parse_control(data)


def test_an_unknown_state_is_named(stopped: PostgresServer) -> None:
    data = bytearray((stopped.data / CONTROL_PATH).read_bytes())
    end = 292 if stopped.major == 18 else 288
    data[16:20] = (99).to_bytes(4, "little")
    data[end : end + 4] = google_crc32c.value(bytes(data[:end])).to_bytes(4, "little")
    with pytest.raises(FormatError, match="cluster state 99"):
        parse_control(bytes(data))
