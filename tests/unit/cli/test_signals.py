"""Ctrl-C, SIGTERM and SIGHUP while the program starts: it ends, with a word and no traceback."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

_SLEEP = "(print('there', flush=True), time.sleep(60))"
BEFORE_A_COMMAND = f"import time; from walshadow_core.cli import signals; signals.begin(); {_SLEEP}"
WHILE_A_LOAD_STARTS = f"""
import sys, time
import walshadow_core.cli.warmup as warmup
from walshadow_core.cli.main import main
warmup.start_loading_kernels = lambda plugins: {_SLEEP}
sys.argv = ["walshadow", "load", "--source", "x", "--table", "t", "--to", "chdb:///nowhere"]
sys.exit(main())
"""
AT_WORK = f"""
import sys, time
from walshadow_core.cli import signals
signals.begin()
try:
    with signals.ending_at_once(), signals.interrupting():
        {_SLEEP}
except KeyboardInterrupt:
    sys.exit(130 if print("cleaned up") is None else 1)
"""


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda s: s.name)
@pytest.mark.parametrize(
    ("program", "says", "error"),
    [
        (BEFORE_A_COMMAND, "", "interrupted\n"),
        (WHILE_A_LOAD_STARTS, "", "interrupted\n"),
        (AT_WORK, "cleaned up\n", ""),
    ],
    ids=["before a command", "while a load starts", "at work"],
)
def test_the_program_ends(program: str, says: str, error: str, by: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        process.send_signal(by)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, says, error)


def test_who_calls_the_program_keeps_its_handlers() -> None:
    from walshadow_core.cli import signals

    before = signal.getsignal(signal.SIGINT)
    with signals.ending_at_once(), signals.interrupting():
        assert signal.getsignal(signal.SIGINT) is before
