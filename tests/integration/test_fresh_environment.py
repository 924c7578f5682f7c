"""Wheels of every distribution, installed into an environment that had nothing of ours before."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from walshadow_core.testing.postgres import PostgresServer

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = (".", "plugins/source_basebackup", "plugins/sink_clickhouse", "examples/walshadow-sink-parquet")
NOT_SOURCES = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")
UV = Path(sys.executable).with_name("uv")

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def run(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, timeout=500, **options)
    assert ran.returncode == 0, f"{words}: {ran.stdout}{ran.stderr}"
    return ran


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources: a build leaves files beside them."""
    folder = tmp_path_factory.mktemp("sources") / "walshadow"
    shutil.copytree(ROOT, folder, ignore=NOT_SOURCES)
    return folder


@pytest.fixture(scope="module")
def wheels(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheels of all distributions."""
    folder = tmp_path_factory.mktemp("wheels")
    for project in PROJECTS:
        if UV.exists():
            run(UV, "build", "--wheel", "--out-dir", folder, sources / project)
        else:
            run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder, sources / project)
    return folder


@pytest.fixture(scope="module")
def fresh(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """``fresh("list")`` runs the program of a new environment, in a folder with nothing in it."""
    folder = tmp_path_factory.mktemp("fresh")
    environment = folder / "venv"
    found = [str(w) for w in sorted(wheels.glob("*.whl"))]
    torn = torn_wheel(folder)
    if UV.exists():
        run(UV, "venv", "--python", sys.executable, environment)
        python = environment / "bin" / "python"
        run(UV, "pip", "install", "--python", python, "--find-links", wheels, *found, torn)
    else:
        run(sys.executable, "-m", "venv", environment)
        python = environment / "bin" / "python"
        run(python, "-m", "pip", "install", "--find-links", wheels, *found, torn)
    empty = folder / "empty"
    empty.mkdir()
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "WALSHADOW_", "VIRTUAL_ENV"))}

    def program(*words: object, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(python.with_name("walshadow")), *map(str, words)],
            capture_output=True,
            text=True,
            check=False,
            cwd=empty,
            env={**ours, **environ},
            timeout=500,
        )

    return program


def torn_wheel(folder: Path) -> Path:
    """A plugin whose module does not parse, as a wheel."""
    wheel = folder / "walshadow_torn-0.1-py3-none-any.whl"
    info = "walshadow_torn-0.1.dist-info"
    files = {
        "walshadow_torn.py": "def torn(:\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: walshadow-torn\nVersion: 0.1\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[walshadow]\ntorn = walshadow_torn\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return wheel


def test_wheels_hold_the_packages_and_their_types_and_no_tests(sources: Path, wheels: Path) -> None:
    found = sorted(wheels.glob("*.whl"))
    assert len(found) == len(PROJECTS)
    for wheel in found:
        names = zipfile.ZipFile(wheel).namelist()
        packages = {n.split("/")[0] for n in names if ".dist-info/" not in n}
        assert len(packages) == 1, f"{wheel.name}: {packages}"
        (package,) = packages
        assert f"{package}/py.typed" in names
        assert not [n for n in names if "test_" in n or "/tests/" in n or n.startswith("tests/")]
        trees = [sources / project for project in PROJECTS]
        modules = {f.relative_to(t).as_posix() for t in trees for f in t.glob(f"{package}/**/*.py")}
        assert modules == {n for n in names if n.endswith(".py")}


def test_the_program_is_there(fresh: Run) -> None:
    ran = fresh("--version")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("walshadow ")


def test_the_plugins_are_found_and_a_broken_one_stops_none_of_them(fresh: Run) -> None:
    ran = fresh("plugins", "list", "--json")
    assert ran.returncode == 0, ran.stderr
    listed = {p["name"]: p for p in json.loads(ran.stdout)}
    assert set(listed) == {"gate", "source-basebackup", "sink-clickhouse", "sink-parquet", "torn"}
    torn = listed.pop("torn")
    assert {p["status"] for p in listed.values()} == {"ok"}, listed
    assert torn["status"] == "broken"
    assert torn["distribution"] == "walshadow-torn"
    assert torn["error"].startswith("SyntaxError: ")


def test_a_plugin_can_be_left_out(fresh: Run) -> None:
    ran = fresh("plugins", "list", "--json", WALSHADOW_DISABLE_PLUGINS="torn,sink-parquet")
    assert {p["name"] for p in json.loads(ran.stdout) if p["status"] == "disabled"} == {"torn", "sink-parquet"}


def test_settings_of_an_installed_plugin_are_shown(fresh: Run) -> None:
    shown = json.loads(fresh("plugins", "show", "sink-parquet", "--json").stdout)
    assert [s["name"] for s in shown["settings"]] == ["compression", "rows_per_file", "out_of_range", "storage_options"]


def test_a_load_through_the_third_party_sink(fresh: Run, pg_newest: PostgresServer, tmp_path: Path) -> None:
    pg_newest.execute(
        "create table parquet_orders (id bigint primary key, amount numeric(10,2), placed timestamptz, note text);"
        "insert into parquet_orders select i, i / 4.0, '2024-01-01 00:00+00', nullif('note ' || i % 5, 'note 3')"
        " from generate_series(1, 1000) i; delete from parquet_orders where id <= 10"
    )
    try:
        ran = fresh(
            "load", "--source", pg_newest.dsn(), "--table", "parquet_orders", "--to", f"parquet+file://{tmp_path}/lake",
            "--json",
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        expected = pg_newest.execute("select id, amount, placed, note from parquet_orders order by id")
    finally:
        pg_newest.execute("drop table parquet_orders")
    assert json.loads(ran.stdout)["tables"][0]["rows_written"] == 990
    got = pq.read_table(tmp_path / "lake" / "parquet_orders").sort_by("id").to_pylist()
    assert [(r["id"], r["amount"], r["placed"], r["note"]) for r in got] == expected
    assert not list((tmp_path / "lake").glob("*__wsstg*"))
