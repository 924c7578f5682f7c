"""Compiles (or loads from the cache) the kernels of gate and spool, with the types that a load brings."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from walshadow_core.decode.warmup import sample_page
from walshadow_core.pgformat.heap import PageWalker
from walshadow_core.visibility.gate import Gate
from walshadow_core.visibility.recent import RecentXids
from walshadow_core.visibility.spool import CHUNK_BYTES, DeferredSpool
from walshadow_core.visibility.status import CopiedStatus


def warmup() -> None:
    """Decide and spool one made-up tuple."""
    page = sample_page(b"\1")
    walk = PageWalker(max_pages=1).walk(page, 0)
    Gate(CopiedStatus()).decide(walk.headers)
    RecentXids(0).add(walk.headers)
    spool = DeferredSpool(CHUNK_BYTES, Path(tempfile.gettempdir()))
    spool.add(walk, page, np.zeros(1, np.intp))
    spool.close()
