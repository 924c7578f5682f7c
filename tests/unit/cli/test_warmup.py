"""``walshadow warmup``, and the first run on a machine."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import pytest
from rich.console import Console

import walshadow_core.decode.warmup
import walshadow_core.redo.warmup
import walshadow_core.toast.warmup
from walshadow_core.cli import main as program
from walshadow_core.cli import warmup
from walshadow_core.decode.warmup import FLOATS, GROUPS, JSON, USUAL


class FakePlugins:
    """Plugins with one that has kernels."""

    def __init__(self, done: list[str], version: str = "1") -> None:
        self._done = done
        self.usable = (type("Plugin", (), {"name": "sink", "version": version}),)

    def warmups(self) -> list[Any]:
        return [("sink", lambda: self._done.append("sink"))]


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What was warmed up so far; nothing is compiled, and the marker is in a folder of the test."""
    steps: list[str] = []
    monkeypatch.setattr(walshadow_core.decode.warmup, "warmup", lambda groups: steps.extend(groups))
    monkeypatch.setattr(walshadow_core.toast.warmup, "warmup", lambda: steps.append("toast"))
    monkeypatch.setattr(walshadow_core.redo.warmup, "warmup", lambda: steps.append("redo"))
    monkeypatch.setattr(warmup, "_cpus", lambda: 1)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 0)
    return steps


def first_run(plugins: Any, *groups: str) -> str:
    out = io.StringIO()
    warmup.warm_up_if_cold(Console(file=out), plugins, groups)
    return out.getvalue()


def test_the_first_run_says_that_it_compiles_and_the_second_says_nothing(done: list[str]) -> None:
    plugins: Any = FakePlugins(done)
    said = first_run(plugins)
    assert said.startswith("first run on this machine: compiling kernels ('walshadow warmup' does it ahead)\n")
    assert "[1/4] kernels of usual types: " in said
    assert "[4/4] kernels of sink: " in said
    assert first_run(plugins) == ""
    assert done == [USUAL, "toast", "redo", "sink"]


def test_with_several_cpus_processes_compile_and_the_program_loads(
    done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step is one process's alone, whose lines are shown."""
    monkeypatch.setattr(warmup, "_cpus", lambda: 2)
    monkeypatch.setattr(warmup, "_COMPILE_STEPS", "import sys; [print(f'{n} of', len(sys.argv)) for n in sys.argv[1:]]")
    plugins: Any = FakePlugins(done)
    lines = first_run(plugins).splitlines()
    names = {line.split("] ")[1].rpartition(" of ")[0] for line in lines[1:-1]}
    assert names == {"the WAL", "sink", "usual types", "out-of-line values"}
    assert [line.split("]")[0] for line in lines[1:-1]] == ["[1/4", "[2/4", "[3/4", "[4/4"]
    assert done == [USUAL, "toast", "redo", "sink"]
    assert first_run(plugins) == ""


def test_what_such_a_process_does(
    done: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("walshadow_core.plugins.Plugins.load", lambda: FakePlugins(done))
    warmup.compile_steps(["the WAL", "sink"])
    assert done == ["redo", "sink"]
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == [
        "kernels of the WAL",
        "kernels of sink",
    ]


def test_the_first_table_with_another_kind_of_type_compiles_what_it_needs(done: list[str]) -> None:
    """And nothing else; all else stays warm."""
    plugins: Any = FakePlugins(done)
    first_run(plugins)
    done.clear()
    said = first_run(plugins, JSON, USUAL)
    assert said.startswith("first tables of their kind on this machine: compiling kernels")
    assert done == [JSON]
    assert first_run(plugins, JSON) == ""
    assert first_run(plugins, FLOATS, JSON) != ""
    assert done == [JSON, FLOATS]


def test_another_version_is_a_first_run_again(done: list[str]) -> None:
    first_run(FakePlugins(done))
    assert first_run(FakePlugins(done, version="2")) != ""


def test_another_processor_is_a_first_run_again(done: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    first_run(FakePlugins(done))
    monkeypatch.setattr("llvmlite.binding.get_host_cpu_name", lambda: "another")
    assert first_run(FakePlugins(done)) != ""


def test_a_cache_that_cannot_be_written_is_no_reason_to_fail(done: list[str], tmp_path: Path) -> None:
    (tmp_path / "kernels").write_text("a file where the folder should be")
    assert "ready after" in first_run(FakePlugins(done))


def test_nothing_is_compiled_where_nothing_can_be(done: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    assert (first_run(FakePlugins(done)), done) == ("", [])


def test_the_command_shows_a_line_for_each_step_on_stderr(
    done: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("walshadow_core.plugins.Plugins.load", lambda: FakePlugins(done))
    assert program.main(["warmup"]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert [line.split(":")[0] for line in captured.err.splitlines()[:2]] == [
        f"[1/{len(GROUPS) + 3}] kernels of {USUAL}",
        f"[2/{len(GROUPS) + 3}] kernels of {JSON}",
    ]
    assert done == [*GROUPS, "toast", "redo", "sink"]


@pytest.mark.parametrize("blocked", [True, False])
def test_a_cache_folder_that_can_t_be_is_an_error_of_one_line(tmp_path: Path, blocked: bool) -> None:
    """As for a service account without a home. It is no bug, and the remedy works."""
    folder = tmp_path / "place"
    if blocked:
        folder.write_text("a file where the folder should be")
    environment = {**os.environ, "WALSHADOW_CACHE_DIR": str(folder / "cache")}
    for name in ("NUMBA_CACHE_DIR", "NUMBA_DISABLE_JIT"):
        environment.pop(name, None)
    code = (
        "import sys\nfrom walshadow_core.cli import main as program, warmup\n"
        "warmup._steps = lambda plugins, groups: []\n"
        "sys.exit(program.main(['warmup']))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    if not blocked:
        assert done.returncode == 0 and f"kept in {folder}/cache/" in done.stderr
        return
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "bug" not in done.stderr
    assert f"can't be kept in {folder}/cache/" in done.stderr and "; set WALSHADOW_CACHE_DIR to" in done.stderr
