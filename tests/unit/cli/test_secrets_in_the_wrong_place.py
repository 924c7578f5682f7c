"""A password in a word where none belongs is not echoed by the error about that word."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).with_name("walshadow")
URL = "postgresql://repl:SECRETpw1@h/db"
ENDS = ("--source", "postgresql://localhost:1/x", "--to", "chdb:///nowhere/at/all?database=q")


@pytest.mark.parametrize(
    "words",
    [
        (URL,),
        ("load", "--table", "s", URL),
        ("load", "--table", URL, *ENDS),
        ("load", f"--into={URL}", "--table", "s", *ENDS),
        ("load", "--from", URL, "--table", "s", *ENDS),
    ],
)
def test_it_is_not_echoed(words: tuple[str, ...]) -> None:
    ran = subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False)
    assert ran.returncode in (1, 2)
    assert ran.stderr.strip()
    assert "SECRET" not in ran.stdout + ran.stderr
