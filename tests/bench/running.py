"""What all benchmarks share: a contender in a process of its own, and what they say."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from tables import BenchTable

from walshadow_core.testing.postgres import PostgresServer

HERE = Path(__file__).parent

console = Console()
say = console.print


def contend(name: str, table: BenchTable, server: PostgresServer, to: str | None = None) -> dict[str, Any]:
    """One run of one contender in a process of its own."""
    command = [sys.executable, str(HERE / "contender.py"), name, "--dsn", server.dsn(), "--key", table.key]
    done = subprocess.run(
        [*command, *(["--to", to] if to else [])], capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode:
        raise SystemExit(f"{name} failed on {table.name}: {done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if result["rows"] != table.rows:
        raise SystemExit(f"{name} loaded {result['rows']} of {table.rows} rows of {table.name}")
    return result


def machine() -> str:
    """What the figures are of."""
    return f"{os.cpu_count()} CPUs, {platform.machine()}, Python {platform.python_version()}"
