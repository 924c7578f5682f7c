"""What compiled code depends on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from walshadow_core.pgformat import sources

INNER = """
from walshadow_core.pgformat.jit import kernel

STEP = {step}

@kernel
def inner(x):
    return x + {plus}
"""
OUTER = """
from walshadow_core.pgformat.jit import kernel
from made_up.deep.inner import STEP, inner

@kernel
def outer(x):
    return inner(x) * STEP
"""


def test_what_is_imported_counts_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Directly or not, in every form of import; of its own package alone."""
    package = tmp_path / "pack_a"
    (package / "deep").mkdir(parents=True)
    for name, text in {
        "__init__": "", "deep/__init__": "", "a": "from pack_a import b\nfrom pack_a.deep import (\n    c,\n    d,\n)",
        "b": "import numpy", "deep/c": "import pack_a.e", "deep/d": "", "e": "x = 1", "other": "",
    }.items():  # fmt: skip
        (package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    __import__("pack_a")

    def digest() -> str:
        for function in (sources.digest, sources._source, sources._imports):
            function.cache_clear()
        return sources.digest("pack_a.a")

    before = digest()
    (package / "other.py").write_text("x = 2")
    assert digest() == before
    for name in ("a", "b", "deep/c", "deep/d", "e", "deep/__init__"):
        file = package / f"{name}.py"
        file.write_text(file.read_text() + "\n# changed\n")
        after = digest()
        assert after != before, name
        before = after


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled, so nothing can be stale")
def test_a_kernel_is_compiled_anew_when_one_inside_of_it_changes(tmp_path: Path) -> None:
    """Numba alone would go on with the old one: its own file is as it was."""
    deep = tmp_path / "made_up" / "deep"
    deep.mkdir(parents=True)
    for folder in (deep, deep.parent):
        (folder / "__init__.py").write_text("")
    (deep.parent / "outer.py").write_text(OUTER)
    environment = {**os.environ, "WALSHADOW_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}
    environment.pop("NUMBA_CACHE_DIR", None)

    def run(step: int, plus: int) -> int:
        (deep / "inner.py").write_text(INNER.format(step=step, plus=plus))
        code = "from made_up.outer import outer; print(outer(1))"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment, cwd=tmp_path
        )
        return int(done.stdout)

    assert [run(1, 1), run(1, 1), run(1, 5), run(3, 5)] == [2, 2, 6, 18]
