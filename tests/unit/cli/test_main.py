"""What leaves the program: exit codes, one-line errors, quiet pipes, and a quick --help."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

import pytest
import typer

from walshadow_core.api import DestinationError, UsageError
from walshadow_core.cli import main as program
from walshadow_core.cli.options import Source

START = "import sys; from walshadow_core.cli.main import main; sys.exit(main())"
LOGGERS = ("walshadow", "walshadow_core", "walshadow_sink_clickhouse", "walshadow_source_basebackup")
HEAVY = ("numpy", "numba", "pyarrow", "psycopg", "rich", "walshadow_core.api")


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[..., Any]], None]]:
    """``command(f)`` makes f the command ``trial`` for this test."""
    monkeypatch.delenv(program.TRACEBACK_VARIABLE, raising=False)
    before = list(program.app.registered_commands)
    root, levels = logging.getLogger(), {n: logging.getLogger(n).level for n in LOGGERS}
    handlers = list(root.handlers)

    def add(function: Callable[..., Any]) -> None:
        program.app.command("trial")(function)

    yield add
    program.app.registered_commands[:] = before
    root.handlers[:] = handlers
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    os.environ.pop(program.TRACEBACK_VARIABLE, None)


def raising(error: BaseException) -> Callable[[], None]:
    def trial() -> None:
        raise error

    return trial


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from walshadow_core.cli.main import main; code = main(['load', '--help']) or main(['--help']); "
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stderr.strip() == "[]"
    for word in ("load", "verify", "demo", "warmup", "plugins", "Exit codes", "130 interrupted"):
        assert word in ran.stdout


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--version"]) == 0
    assert capsys.readouterr().out == f"walshadow {version('walshadow')}\n"


def test_without_a_command_it_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main([]) == 2
    captured = capsys.readouterr()
    assert "Commands:" in captured.out + captured.err


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UsageError("no such thing", "try another"), 2, "error: no such thing; try another\n"),
        (DestinationError("it\n failed"), 1, "error: it failed\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (SystemExit(3), 3, ""),
        (typer.Exit(4), 4, ""),
    ],
)
def test_errors_become_one_line_and_an_exit_code(
    error: BaseException, code: int, said: str, command: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    command(raising(error))
    assert program.main(["trial"]) == code
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", said)


def test_a_bug_says_so_and_how_to_report_it(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    command(raising(ZeroDivisionError("by zero")))
    assert program.main(["trial"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ZeroDivisionError: by zero; this is a bug: run with --traceback")
    assert said.count("\n") == 1


def test_a_traceback_is_shown_when_asked_for(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    command(raising(ZeroDivisionError("by zero")))
    assert program.main(["--traceback", "trial"]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_secrets_of_this_run_are_in_no_error_no_traceback_and_no_log_line(
    command: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def trial(source: Source) -> None:
        logging.getLogger("walshadow").warning("connecting with %s", source)
        raise ValueError(f"can't parse {source}")

    command(trial)
    assert program.main(["--traceback", "trial", "--source", "postgresql://me:hunter2@db/shop"]) == 1
    said = capsys.readouterr().err
    assert "hunter2" not in said
    assert said.count("postgresql://me:") >= 3


def test_log_levels(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def trial() -> None:
        for level in ("debug", "info", "warning"):
            getattr(logging.getLogger("walshadow_core.x"), level)(f"a {level}")
            getattr(logging.getLogger("somebody.else"), level)(f"their {level}")
            getattr(logging.getLogger("walshadow_sink_clickhouse.writer"), level)(f"a plugin's {level}")

    command(trial)

    def said(*words: str) -> list[str]:
        assert program.main([*words, "trial"]) == 0
        captured = capsys.readouterr()
        assert captured.out == ""
        return [line.split(maxsplit=3)[-1] for line in captured.err.splitlines()]

    assert said() == ["a warning", "a plugin's warning"]
    assert said("-v") == ["a info", "a plugin's info", "a warning", "their warning", "a plugin's warning"]
    assert said("-vv") == said("--log-level", "debug") == ["a debug", "a plugin's debug", *said("-v")]
    assert said("--log-level", "error") == []


@pytest.mark.parametrize(
    "words",
    [["nonsense"], ["load", "--nonsense"], ["--log-level", "loud", "load"], ["plugins", "show", "nope"]],
    ids=lambda words: words[-1],
)
def test_wrong_usage_exits_2_and_says_which_word(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert (words[-1] if words[-1] != "load" else "loud") in captured.err


def test_ctrl_c_ends_with_130() -> None:
    code = (
        "import os, signal, sys\n"
        "from walshadow_core.cli import main\n"
        "main.app.command('trial')(lambda: os.kill(os.getpid(), signal.SIGINT) or signal.pause())\n"
        "sys.exit(main.main(['trial']))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert (ran.returncode, ran.stderr) == (130, "interrupted\n")


def test_a_reader_that_leaves_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    words = [sys.executable, "-c", START, "plugins", "list", "--json"]
    ran = subprocess.run(words, stdout=write, stderr=subprocess.PIPE, text=True, check=False, timeout=120)
    os.close(write)
    assert ran.stderr == ""


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def colours() -> int:
        assert program.main(["plugins", "list"]) == 0
        return capsys.readouterr().out.count("\x1b[3")

    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert colours() > 0
    monkeypatch.setenv("NO_COLOR", "1")
    assert colours() == 0
