"""Catalogs of a backup with spoilt bytes: descriptors or an error of ours, and no other exception."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.integration.catalog.backups import MadeFile, MadeSource
from tests.integration.catalog.test_walg_catalogs import TABLES, backup_of
from walshadow_core.api import WalshadowError
from walshadow_core.catalog.files.read import Asked, read_backup

WITHOUT_CHECKSUMS = ("lzma-pg15", "zstd-pg17", "none-pg18")
CATALOGS = ("1259", "1249", "1247", "2615", "2610", "2611", "3541", "global/16463", "global/16473", "pg_xact/0000")

CHANGES = st.lists(
    st.tuples(
        st.integers(0, len(CATALOGS) - 1),
        st.integers(0, 2**20),
        st.one_of(st.integers(0, 40), st.integers(0, 8191), st.integers(7000, 8191)),
        st.one_of(st.integers(0, 7).map(lambda bit: 1 << bit), st.integers(1, 255)),
    ),
    min_size=1,
    max_size=200,
)
"""Bytes to spoil: which catalog, which page, where in the page, and what to xor it with."""


def spoilt(fixture: str, changes: list[tuple[int, int, int, int]]) -> MadeSource:
    backup = backup_of(fixture)
    files = []
    for file in backup.made:
        content = bytearray(file.content)
        for catalog, page, at, mask in changes:
            if file.path.endswith(CATALOGS[catalog]) and "16385" not in file.path and content:
                pages = max(1, len(content) // 8192)
                content[(page % pages * 8192 + at) % len(content)] ^= mask
        files.append(MadeFile(file.path, bytes(content)))
    return MadeSource([replace(backup, made=files)])


def check(fixture: str, changes: list[tuple[int, int, int, int]]) -> None:
    try:
        found = read_backup(spoilt(fixture, changes), Asked("app", list(TABLES))).snapshot
    except WalshadowError as error:
        assert str(error)
    else:
        assert len(found.relations) + len(found.refused) == len(TABLES)
        for relation in found.relations:
            assert len(relation.key_names) == len(relation.key)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(WITHOUT_CHECKSUMS), CHANGES)
def test_spoilt_catalogs(fixture: str, changes: list[tuple[int, int, int, int]]) -> None:
    check(fixture, changes)


@pytest.mark.slow
@settings(max_examples=3000, deadline=None)
@given(st.sampled_from(WITHOUT_CHECKSUMS), CHANGES)
def test_many_spoilt_catalogs(fixture: str, changes: list[tuple[int, int, int, int]]) -> None:
    check(fixture, changes)
