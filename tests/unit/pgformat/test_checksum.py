"""Page checksums, against pages that servers wrote and against pageinspect."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import psycopg
import pytest

from walshadow_core.api import FormatError
from walshadow_core.pgformat.checksum import bad_checksums, page_checksums
from walshadow_core.pgformat.heap import PAGE_SIZE
from walshadow_core.testing.postgres import PostgresServer, available_majors


@pytest.fixture(scope="module", params=available_majors(), ids=lambda m: f"pg{m}")
def server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    with PostgresServer(request.param, initdb=("--locale=C", "--encoding=UTF8", "-k")) as running:
        running.execute("create table t as select i, md5(i::text) from generate_series(1, 20000) i; checkpoint")
        yield running


def pages_of(server: PostgresServer, table: str) -> np.ndarray:
    path = server.execute(f"select pg_relation_filepath('{table}')")[0][0]
    return np.frombuffer(bytearray((server.data / path).read_bytes()), np.uint8)


def test_pages_of_a_server_with_checksums_are_good(server: PostgresServer) -> None:
    for table in ("t", "pg_class", "pg_proc_oid_index"):
        pages = pages_of(server, table)[: 24 * PAGE_SIZE]
        assert len(pages) >= PAGE_SIZE
        assert bad_checksums(pages, 0).tolist() == [], table


def test_a_flipped_bit_anywhere_is_found(server: PostgresServer) -> None:
    pages = pages_of(server, "t")[: 8 * PAGE_SIZE].copy()
    for block, byte in ((0, 0), (1, 8), (2, 9), (3, 10), (5, 4096), (7, PAGE_SIZE - 1)):
        pages[block * PAGE_SIZE + byte] ^= 0x40
    assert bad_checksums(pages, 0).tolist() == [0, 1, 2, 3, 5, 7]


def test_the_block_number_counts(server: PostgresServer) -> None:
    pages = pages_of(server, "t")[: 4 * PAGE_SIZE].copy()
    assert bad_checksums(pages, 1000).tolist() == [1000, 1001, 1002, 1003]
    assert bad_checksums(pages[2 * PAGE_SIZE :], 2).tolist() == []


def test_new_pages_have_no_checksum(server: PostgresServer) -> None:
    pages = pages_of(server, "t")[: 3 * PAGE_SIZE].copy()
    pages[PAGE_SIZE : 2 * PAGE_SIZE] = 0
    assert bad_checksums(pages, 0).tolist() == []


def test_an_unaligned_buffer_gives_the_same(server: PostgresServer) -> None:
    pages = pages_of(server, "t")[: 2 * PAGE_SIZE]
    buffer = np.empty(len(pages) + 16, np.uint8)
    for shift in range(5):
        view = buffer[shift : shift + len(pages)]
        view[:] = pages
        assert bad_checksums(view, 0).tolist() == []


def test_pageinspect_says_the_same(server: PostgresServer) -> None:
    """Over random pages and block numbers, the largest included."""
    try:
        server.execute("create extension if not exists pageinspect")
    except psycopg.errors.FeatureNotSupported:
        pytest.skip(f"pageinspect is not there for Postgres {server.major}")
    seed = int(np.random.default_rng().integers(1 << 32))
    print("seed", seed)
    rng = np.random.default_rng(seed)
    with server.connect() as conn:
        for block in (0, 1, 65535, 131072, 2**31 - 1):
            page = rng.integers(0, 256, PAGE_SIZE, np.uint8)
            page[12:20] = np.array([100, 200, PAGE_SIZE, PAGE_SIZE | 4], np.uint16).view(np.uint8)
            row = conn.execute("select page_checksum(%b, %s)", (page.tobytes(), block)).fetchone()
            assert row is not None
            assert page_checksums(page, block).tolist() == [row[0] & 0xFFFF]


def test_a_truncated_page_is_named() -> None:
    with pytest.raises(FormatError, match="block 8 is truncated: 100 of 8192"):
        bad_checksums(np.zeros(PAGE_SIZE + 100, np.uint8), 7)


def test_no_pages_no_checksums() -> None:
    assert bad_checksums(np.zeros(0, np.uint8), 0).tolist() == []


def test_a_block_past_the_largest_is_an_error() -> None:
    with pytest.raises(FormatError, match="largest block number"):
        page_checksums(np.zeros(PAGE_SIZE, np.uint8), 0xFFFFFFFF)
