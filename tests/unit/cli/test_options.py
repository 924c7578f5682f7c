"""Options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from walshadow_core.api import UsageError
from walshadow_core.cli.options import FromOption, Source, To, parse_options


def asked(*words: str, **environ: str) -> Any:
    app = typer.Typer()

    @app.command()
    def trial(source: Source, to: To = "nowhere", from_option: FromOption = None) -> None:
        typer.echo(f"{source}|{to}|{parse_options(from_option, '--from-option')}")

    return CliRunner().invoke(app, list(words), env=environ)


def test_source_and_destination_come_from_options_or_the_environment() -> None:
    assert asked("--source", "a", "--to", "b").stdout.startswith("a|b|")
    assert asked(WALSHADOW_SOURCE="c", WALSHADOW_TO="d").stdout.startswith("c|d|")
    assert asked("--source", "a", WALSHADOW_SOURCE="c").stdout.startswith("a|")


def test_and_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "dsn").write_text("  host=db password=x\n")
    assert asked("--source", f"@{tmp_path}/dsn").stdout.startswith("host=db password=x|")
    assert asked(WALSHADOW_SOURCE=f"@{tmp_path}/dsn").stdout.startswith("host=db password=x|")


@pytest.mark.parametrize(("name", "reason"), [("missing", "can't be read"), ("empty", "is empty")])
def test_a_file_that_has_no_dsn_is_wrong_usage(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "empty").write_text("\n")
    result = asked("--source", f"@{tmp_path}/{name}")
    assert isinstance(result.exception, UsageError)
    assert reason in str(result.exception)


def test_a_source_that_is_not_given_is_wrong_usage() -> None:
    result = asked()
    assert result.exit_code == 2
    assert "WALSHADOW_SOURCE" in result.stderr


def test_options_of_plugins_are_pairs() -> None:
    assert parse_options(["max-rate=32MB", "empty=", "b=c=d"], "--x") == {"max_rate": "32MB", "empty": "", "b": "c=d"}
    assert parse_options(None, "--x") == {}


@pytest.mark.parametrize("word", ["hunter2", "=hunter2", " = hunter2"])
def test_a_word_that_is_no_pair_is_refused_and_not_shown(word: str) -> None:
    with pytest.raises(UsageError, match="--to-option wants NAME=VALUE") as caught:
        parse_options([word], "--to-option")
    assert "hunter2" not in str(caught.value)


def test_an_option_given_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="--x max_rate is given twice"):
        parse_options(["max_rate=1", "max-rate=2"], "--x")
