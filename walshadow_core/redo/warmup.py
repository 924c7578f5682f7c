"""Compiles (or loads from the cache) the kernels that read the WAL and bring pages forward, with a load's types."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from walshadow_core.api import Bytes, Lsn
from walshadow_core.pgformat.heap import PAGE_SIZE
from walshadow_core.pgformat.walrecord import parse_records
from walshadow_core.redo.apply import apply_records
from walshadow_core.redo.images import SCRATCH
from walshadow_core.redo.store import PageStore
from walshadow_core.redo.window import Redo
from walshadow_core.stream.reader import WalReader


def warmup() -> None:
    """Read a page that has no WAL, and apply no records."""
    for _ in WalReader(Lsn(0), 15, 1 << 20).feed(bytes(PAGE_SIZE)):
        pass
    none = np.zeros(0, np.int64)
    buf: Bytes = np.zeros(PAGE_SIZE, np.uint8)
    records = parse_records(buf, none, none, none, none)
    with tempfile.TemporaryDirectory() as folder:
        Redo(15, {}, PageStore(0, Path(folder))).apply(records)
    b = records.blocks
    pages = np.zeros((0, PAGE_SIZE), np.uint8)
    apply_records(
        15, none, none, none, np.zeros(0, np.uint8), pages, pages, np.zeros(SCRATCH, np.uint8),
        records.buf, records.end, records.rmgr, records.info, records.xid, records.data_offset, records.data_length,
        records.first_block, b.block_id, b.flags, b.block, b.image_offset, b.image_length, b.image_info,
        b.hole_offset, b.hole_length, b.data_offset, b.data_length,
    )  # fmt: skip
