"""Catalogs of a backup that are damaged or not all there: an error that names the file, never a crash or a guess."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.integration.catalog.backups import MadeBackup, MadeFile, MadeSource
from tests.integration.catalog.test_walg_catalogs import TABLES, backup_of
from walshadow_core.api import FormatError, SourceError, WalshadowError
from walshadow_core.catalog.files.read import Asked, read_backup
from walshadow_core.catalog.sql import CatalogSnapshot

PLAIN, CHECKSUMS = "none-pg18", "brotli-pg16"
APP = "base/16384"
CLASS, ATTRIBUTE, TYPE, INDEX, NAMESPACE = (f"{APP}/{number}" for number in (1259, 1249, 1247, 2610, 2615))


def read(backup: MadeBackup) -> CatalogSnapshot:
    return read_backup(MadeSource([backup]), Asked("app", list(TABLES))).snapshot


def changed(fixture: str, path: str, change: Callable[[bytearray], object]) -> MadeBackup:
    """The fixture with one file changed."""
    files = []
    for file in backup_of(fixture).made:
        content = bytearray(file.content)
        if file.path == path:
            change(content)
        files.append(MadeFile(file.path, bytes(content)))
    return replace(backup_of(fixture), made=files)


def without(fixture: str, path: str) -> MadeBackup:
    return replace(backup_of(fixture), made=[file for file in backup_of(fixture).made if file.path != path])


def flip(at: int, mask: int = 1) -> Callable[[bytearray], None]:
    def change(content: bytearray) -> None:
        content[at] ^= mask

    return change


@pytest.mark.parametrize("path", [CLASS, ATTRIBUTE, TYPE, INDEX, NAMESPACE, "global/16463"])
def test_a_flipped_bit_fails_the_checksum(path: str) -> None:
    for at in (8192 - 100, 30, 4000):
        with pytest.raises(FormatError, match=rf"^{path} \(pg_[a-z]+\): block 0 fails its checksum; .*take another"):
            read(changed(CHECKSUMS, path, flip(at)))


@pytest.mark.parametrize("path", [CLASS, ATTRIBUTE, TYPE, INDEX, NAMESPACE])
def test_a_damaged_page_is_named(path: str) -> None:
    with pytest.raises(FormatError, match=rf"^{path} \(pg_[a-z]+\): block 0 is damaged: "):
        read(changed(PLAIN, path, flip(19)))


def test_a_damaged_tuple_is_named() -> None:
    """Far more attributes than pg_class has, by t_infomask2 of each tuple of the first page."""

    def change(content: bytearray) -> None:
        lines = (int.from_bytes(content[12:14], "little") - 24) // 4
        for line in range(lines):
            pointer = int.from_bytes(content[24 + 4 * line : 28 + 4 * line], "little")
            if pointer >> 15 & 3 == 1:
                content[(pointer & 0x7FFF) + 18] ^= 0x08

    with pytest.raises(FormatError, match=rf"^{CLASS} \(pg_class\): the tuple has more attributes than the table"):
        read(changed(PLAIN, CLASS, change))


def test_a_file_that_is_cut_short() -> None:
    with pytest.raises(FormatError, match=rf"^pg_type: {TYPE} has \d+ bytes, not a whole number of pages"):
        read(changed(PLAIN, TYPE, lambda content: content.__delitem__(slice(-100, None))))
    with pytest.raises(WalshadowError, match="pg_type has no row for oid"):
        read(changed(PLAIN, TYPE, lambda content: content.__delitem__(slice(8192, None))))


@pytest.mark.parametrize("path", [CLASS, ATTRIBUTE, TYPE, INDEX, NAMESPACE])
def test_a_file_that_is_missing(path: str) -> None:
    with pytest.raises(SourceError, match=f"has no file of relation {path.rpartition('/')[2]}; take another"):
        read(without(PLAIN, path))


def test_maps_and_control_file() -> None:
    for path in (f"{APP}/pg_filenode.map", "global/pg_filenode.map"):
        with pytest.raises(FormatError, match=f"{path}: its CRC does not match"):
            read(changed(PLAIN, path, flip(20)))
        with pytest.raises(SourceError, match=r"has no pg_filenode\.map of"):
            read(without(PLAIN, path))
    with pytest.raises(FormatError, match="pg_control's CRC"):
        read(changed(PLAIN, "global/pg_control", flip(40)))
    with pytest.raises(SourceError, match="no global/pg_control"):
        backup = without(PLAIN, "global/pg_control")
        start = backup_of(PLAIN).start
        backup.__class__ = type("NoControl", (MadeBackup,), {"start": start})
        read(backup)


def test_status_that_is_missing() -> None:
    with pytest.raises(FormatError, match="no pg_xact"):
        read(without(PLAIN, "pg_xact/0000"))


def test_an_emptied_catalog_is_no_empty_database() -> None:
    """All pages zero: what a copy of a file that was truncated meanwhile looks like."""

    def wipe(content: bytearray) -> None:
        content[:] = bytes(len(content))

    for path, expected in (
        (CLASS, "has no row of pg_"),
        (ATTRIBUTE, "has attributes that pg_class does not know|has not the attributes"),
        (TYPE, "pg_type has no row for oid"),
    ):
        with pytest.raises(WalshadowError, match=expected):
            read(changed(PLAIN, path, wipe))
