"""The workspace holds together: no distribution, and no module, is left out of a check."""

from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DISTRIBUTIONS = sorted(p.parent for p in ROOT.glob("p*/*/pyproject.toml")) + sorted(
    p.parent for p in ROOT.glob("examples/*/pyproject.toml")
)


def toml(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text())


TOOLS = toml(ROOT)["tool"]


def package_of(folder: Path) -> str:
    (package,) = [p.parent.name for p in folder.glob("*/__init__.py")]
    return package


def test_there_are_plugins_and_an_example() -> None:
    assert {d.name for d in DISTRIBUTIONS} >= {"source_basebackup", "sink_clickhouse", "walshadow-sink-parquet"}


@pytest.mark.parametrize("folder", DISTRIBUTIONS, ids=lambda d: d.name)
def test_every_distribution_is_whole(folder: Path) -> None:
    project, package = toml(folder)["project"], package_of(folder)
    assert project["name"].replace("-", "_") == package
    assert project["version"] == toml(ROOT)["project"]["version"]
    assert project["requires-python"] == ">=3.11"
    assert any(d.split(">")[0] == "walshadow" for d in project["dependencies"])
    assert list(project["entry-points"]) == ["walshadow"]
    assert (folder / package / "py.typed").exists()
    assert (folder / "README.md").read_text().count("\n") > 5


@pytest.mark.parametrize("folder", DISTRIBUTIONS, ids=lambda d: d.name)
def test_every_distribution_is_in_every_check(folder: Path) -> None:
    name, package = toml(folder)["project"]["name"], package_of(folder)
    place = str(folder.relative_to(ROOT))
    assert any(folder.match(m) for m in TOOLS["uv"]["workspace"]["members"])
    assert TOOLS["uv"]["sources"][name] == {"workspace": True}
    assert package in TOOLS["mypy"]["packages"]
    assert place in TOOLS["mypy"]["mypy_path"].split(":")
    assert package in TOOLS["importlinter"]["root_packages"]
    _, plugins, core = TOOLS["importlinter"]["contracts"]
    assert package in plugins["source_modules"]
    assert package in core["forbidden_modules"]
    assert any(place.startswith(t) for t in TOOLS["pytest"]["ini_options"]["testpaths"])
    makefile = (ROOT / "Makefile").read_text()
    assert place in makefile.split("PROJECTS :=")[1].split("\n")[0]
    assert f"-e {place}" in makefile.replace("'", "")


def modules_of_the_core() -> set[str]:
    core = ROOT / "walshadow_core"
    files = {f.stem for f in core.glob("*.py")} - {"__init__"}
    return {f"walshadow_core.{m}" for m in files | {f.parent.name for f in core.glob("*/__init__.py")}}


def test_every_module_of_the_core_has_its_layer() -> None:
    layers = TOOLS["importlinter"]["contracts"][0]["layers"]
    placed = [m.strip() for layer in layers for m in layer.replace("|", ":").split(":")]
    assert sorted(placed) == sorted(modules_of_the_core())


def test_plugins_may_see_the_api_and_the_contract_suites_alone() -> None:
    allowed = {"walshadow_core.api", "walshadow_core.testing"}
    assert set(TOOLS["importlinter"]["contracts"][1]["forbidden_modules"]) == modules_of_the_core() - allowed


def test_types_are_checked_strictly() -> None:
    assert TOOLS["mypy"]["strict"] is True


def make(*words: str) -> str:
    # What a make around us says to its children is not for this one.
    environ = {k: v for k, v in os.environ.items() if not k.startswith("MAKE") and k != "MFLAGS"}
    return subprocess.run(
        ["make", "--no-print-directory", *words], cwd=ROOT, env=environ, capture_output=True, text=True, check=True
    ).stdout


def test_make_alone_says_what_there_is() -> None:
    lines = [line.split()[1] for line in make().splitlines()]
    assert lines[:5] == ["help", "venv", "demo", "test", "test-all"]
    assert lines[5:] == ["lint", "format", "bench", "bench-check", "dist", "clean"]


def test_make_test_lints_before_it_tests() -> None:
    steps = make("-n", "test")
    order = [
        steps.index(s) for s in ("ruff check", "mypy", "lint-imports", "pytest -n 2", "DISABLE_JIT", "BOUNDSCHECK")
    ]
    assert order == sorted(order)


def test_ci_runs_make_test() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "make test" in script.read_text()
