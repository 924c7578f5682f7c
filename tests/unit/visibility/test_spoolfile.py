"""Bytes that wait in memory and in files come back; the number of files is not what ends a pass."""

from __future__ import annotations

import random
import resource
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from walshadow_core.api import WalshadowError
from walshadow_core.visibility.spoolfile import ByteSpool, MemoryBudget, SpoolFile, allow_many_files


@pytest.mark.parametrize("limit", [0, 1000, 5000, 1 << 20])
def test_bytes_are_read_at_any_place(tmp_path: Path, limit: int) -> None:
    rng = random.Random(limit)
    budget = MemoryBudget(limit)
    whole = b""
    with closing(ByteSpool(budget, tmp_path, "bytes")) as spool:
        for _ in range(60):
            part = rng.randbytes(rng.choice([0, 1, 7, 100, 600]))
            spool.append(np.frombuffer(part, np.uint8))
            whole += part
        assert spool.size == len(whole) and budget.used <= limit
        assert spool.spilled == len(whole) - budget.used
        for _ in range(200):
            first = rng.randrange(len(whole))
            out = np.empty(rng.randrange(len(whole) - first + 1), np.uint8)
            spool.read_into(first, out)
            assert out.tobytes() == whole[first : first + len(out)]
        with pytest.raises(WalshadowError, match="shorter than what was written"):
            spool.read_into(len(whole) - 1, np.empty(2, np.uint8))
    assert budget.used == 0 and list(tmp_path.iterdir()) == []


def test_more_files_than_the_soft_limit(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(entry.name) for entry in Path("/proc/self/fd").iterdir())
    if before[1] != resource.RLIM_INFINITY and before[1] < used + 200:
        pytest.skip("this process may not open that many files")
    allow_many_files.cache_clear()
    files = [SpoolFile(tmp_path, "bytes") for _ in range(100)]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 20, before[1]))
        for number, file in enumerate(files):
            file.append(bytes([number]))
        assert [file.read(0, 1)[0] for file in files] == list(range(100))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for file in files:
            file.close()
