"""What the integration tests share: a database of one's own, and the two commands."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from tests.conftest import Ran
from walshadow_core.testing.postgres import PostgresServer

Run = Callable[..., Ran]


class HasUrl(Protocol):
    """A destination, as far as the commands need it."""

    url: str


@contextmanager
def database(pg: PostgresServer, options: str = "") -> Iterator[str]:
    """A database of the test's own."""
    name = f"d_{uuid.uuid4().hex[:12]}"
    pg.execute(f"create database {name} {options}")
    try:
        yield name
    finally:
        pg.execute(f"drop database {name} with (force)")


_PEAK = """
import sys
from walshadow_core.cli.main import main
code = main(sys.argv[1:])
with open("/proc/self/status") as status:
    peak = next(line.split()[1] for line in status if line.startswith("VmHWM"))
print(code, peak, file=sys.stderr)
"""


def with_peak(*words: str) -> tuple[Ran, float]:
    """Run the program in a process of its own; also the most memory that it had resident, in MiB."""
    done = subprocess.run([sys.executable, "-c", _PEAK, *words], capture_output=True, text=True, check=True)
    said, _, last = done.stderr.rstrip().rpartition("\n")
    code, peak = last.split()
    return Ran(int(code), done.stdout, said), int(peak) / 1024


def load(run: Run, pg: PostgresServer, db: str, to: HasUrl, *words: str) -> Ran:
    """Load tables; ``words`` are further words of the command line."""
    return run("load", "--source", pg.dsn(db), "--to", to.url, "--json", "--no-progress", *words)


def assert_equal(run: Run, pg: PostgresServer, db: str, to: HasUrl, table: str, *words: str) -> Ran:
    """Every row is there with every value, as verify sees it."""
    checked = run("verify", "--source", pg.dsn(db), "--to", to.url, "--table", table, "--json", *words)
    assert checked.code == 0, checked.err + checked.out
    return checked
