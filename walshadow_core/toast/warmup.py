"""Compiles (or loads from the cache) the kernels of the chunk store, with the types that a load brings."""

from __future__ import annotations

import tempfile
from pathlib import Path

from walshadow_core.decode.warmup import sample_page
from walshadow_core.pgformat.heap import PageWalker
from walshadow_core.toast.chunks import CHUNK_ATTRIBUTES, DATA_AT, ChunkWriter
from walshadow_core.visibility.spoolfile import MemoryBudget


def warmup() -> None:
    """Take one made-up chunk."""
    page = sample_page(bytes((*range(1, DATA_AT + 1), 5, 1)), CHUNK_ATTRIBUTES)
    writer = ChunkWriter(MemoryBudget(0), Path(tempfile.gettempdir()))
    writer.add(PageWalker(max_pages=1).walk(page, 0), page)
    writer.close()
