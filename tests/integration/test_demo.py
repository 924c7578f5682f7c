"""``walshadow demo`` as its users run it: a process of its own, and nothing left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A TMPDIR that every user can enter: root's server runs as another one."""
    with tempfile.TemporaryDirectory(prefix="walshadow-test-demo-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def demo(scratch: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run it with that TMPDIR."""
    return subprocess.run(
        [Path(sys.executable).parent / "walshadow", "demo", "--no-progress", *words],
        capture_output=True, text=True, check=False, timeout=300, env={**os.environ, "TMPDIR": str(scratch)},
    )  # fmt: skip


def test_the_demo_loads_verifies_and_cleans_up(scratch: Path, tmp_path: Path) -> None:
    """Three tables come over and verify finds no difference; temporary folders and servers are gone after it."""
    kept = tmp_path / "kept"
    done = demo(scratch, "--keep", str(kept))
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "Traceback" not in said
    for table, rows in (("customers", 40_000), ("orders", 117_074), ("order_lines", 234_148)):
        assert f"equal: shop.{table} and {table}: {rows:,} rows" in said
    assert list(scratch.iterdir()) == [], "temporary folders are left"
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(scratch) not in running, "a server of the demo still runs"
    assert kept.is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's server runs as another user")
def test_a_private_tmpdir_is_named(scratch: Path) -> None:
    """The server's user can't enter it: one line that says so."""
    scratch.chmod(0o700)
    done = demo(scratch)
    assert done.returncode == 1
    assert "TMPDIR" in done.stderr
    assert "Traceback" not in done.stderr
    assert "this is a bug" not in done.stderr
