"""``walshadow plugins``, as a person and as a script see it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, SecretStr

from walshadow_core.cli import main as program
from walshadow_core.cli import plugins as command
from walshadow_core.plugins import Plugins

FACTS = {
    "name", "entry_point", "distribution", "version", "summary", "provides", "modes", "schemes", "resolvers",
    "fetchers", "commands", "status", "error",
}  # fmt: skip


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert program.main(["plugins", *words]) == 0
    return capsys.readouterr().out


def test_the_list_for_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    listed = {p["name"]: p for p in json.loads(said(capsys, "list", "--json"))}
    assert all(set(p) == FACTS for p in listed.values())
    assert listed["source-basebackup"]["modes"] == ["base_backup"]
    assert listed["sink-clickhouse"]["schemes"] == ["clickhouse", "clickhouses", "chdb"]
    assert listed["sink-clickhouse"]["commands"] == ["engine"]
    assert listed["sink-parquet"]["provides"] == ["destination"]
    assert {p["status"] for p in listed.values()} == {"ok"}


def test_the_list_for_people(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("WALSHADOW_DISABLE_PLUGINS", "sink-clickhouse")
    shown = said(capsys, "list")
    for words in ("name", "version", "provides", "status", "parquet+…://", "base_backup", "disabled"):
        assert words in shown


def test_a_broken_plugin_is_listed_with_its_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    dist = tmp_path / "walshadow_torn-0.1.dist-info"
    dist.mkdir()
    (dist / "METADATA").write_text("Metadata-Version: 2.1\nName: walshadow-torn\nVersion: 0.1\n")
    (dist / "entry_points.txt").write_text("[walshadow]\ntorn = no_such_module_anywhere\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    torn = next(p for p in json.loads(said(capsys, "list", "--json")) if p["name"] == "torn")
    assert (torn["status"], torn["error"]) == (
        "broken",
        "ModuleNotFoundError: No module named 'no_such_module_anywhere'",
    )
    assert "torn: ModuleNotFoundError: No module named 'no_such_module_anywhere'" in said(capsys, "list")


def test_show_prints_the_settings(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown = said(capsys, "show", "sink-parquet")
    for words in ("Parquet files on any fsspec", "out_of_range", "null | error", "24:00:00", "storage_options"):
        assert words in shown


def test_show_for_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    shown = json.loads(said(capsys, "show", "sink-parquet", "--json"))
    settings = {s["name"]: s for s in shown["settings"]}
    assert set(shown) == FACTS | {"settings"}
    assert settings["rows_per_file"] == {
        "name": "rows_per_file",
        "type": "int",
        "required": False,
        "default": 5_000_000,
        "secret": False,
        "description": "Rows of a file at most; then the next one is begun.",
    }
    assert settings["storage_options"]["secret"]


def test_every_setting_of_our_own_plugins_says_what_it_means() -> None:
    for info in Plugins.load(environ={}).infos:
        for name, field in (info.settings.model_fields if info.settings else {}).items():
            assert field.description, f"{info.name}: {name}"


def test_settings_are_shown_as_a_person_would_write_them() -> None:
    class Model(BaseModel):
        must: str
        maybe: int | None = Field(None, description="perhaps")
        choice: Literal["a", "b"] = "a"
        password: SecretStr = SecretStr("hunter2")
        tagged: str = Field("hunter2", json_schema_extra={"secret": True})
        several: list[int] = Field(default_factory=lambda: [1])

    shown: dict[str, Any] = {n: command._setting(n, f) for n, f in Model.model_fields.items()}
    assert "hunter2" not in json.dumps(shown)
    assert [(s["type"], s["default"]) for s in shown.values()] == [
        ("str", None),
        ("int | none", None),
        ("a | b", "a"),
        ("str", None),
        ("str", None),
        ("list[int]", "[1]"),
    ]
    assert [n for n, s in shown.items() if s["secret"]] == ["password", "tagged"]
    assert [n for n, s in shown.items() if s["required"]] == ["must"]


def test_a_plugins_command_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["engine", "--help"]) == 0
    assert "serve" in capsys.readouterr().out
