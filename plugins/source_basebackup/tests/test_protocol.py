"""The words of BASE_BACKUP."""

from __future__ import annotations

import pytest
from walshadow_source_basebackup import protocol

from walshadow_core.api import FormatError, Lsn


def test_the_command() -> None:
    command = protocol.base_backup_command(label="it's", checkpoint="fast", max_rate_kb=32)
    assert command.startswith("BASE_BACKUP (LABEL 'it''s', CHECKPOINT 'fast', ")
    for option in ("WAL false", "WAIT false", "MANIFEST 'no'", "VERIFY_CHECKSUMS false", "TABLESPACE_MAP true"):
        assert option in command
    assert command.endswith("MAX_RATE 32)")
    with pytest.raises(ValueError, match="zero byte"):
        protocol.quote_literal("a\0b")


def test_positions() -> None:
    assert protocol.parse_position(("1/2C", "3")) == (Lsn.parse("1/2C"), 3)
    for row in [(), ("0/1",), (None, "1"), ("0/1", None), ("x", "1"), ("0/1", "x")]:
        with pytest.raises(FormatError):
            protocol.parse_position(row)


def test_system() -> None:
    assert protocol.parse_system_identifier(("77", "1", "0/0", None)) == 77
    for row in [(), (None,), ("x",)]:
        with pytest.raises(FormatError):
            protocol.parse_system_identifier(row)


def test_tablespaces() -> None:
    rows = [("16400", "/far/off", "10"), (None, None, "5")]
    assert protocol.parse_tablespaces(rows) == ({16400: "/far/off"}, 15 * 1024)
    assert protocol.parse_tablespaces([(None, None, None)]) == ({}, None)
    for bad in [[("x", "", "1")], [(None, None)]]:
        with pytest.raises(FormatError):
            protocol.parse_tablespaces(bad)


def test_archives() -> None:
    base = protocol.parse_new_archive(memoryview(b"nbase.tar\0\0"))
    assert (base.name, base.tablespace, base.prefix) == ("base.tar", None, "")
    other = protocol.parse_new_archive(memoryview(b"n16400.tar\0/far/off\0"))
    assert (other.tablespace, other.prefix) == (16400, "pg_tblspc/16400/")
    for bad in [b"n", b"nbase.tar\0", b"nbase.tar\0\0more", b"nodd.tar\0/far\0"]:
        with pytest.raises(FormatError):
            protocol.parse_new_archive(memoryview(bad))
