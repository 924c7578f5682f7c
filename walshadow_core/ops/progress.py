"""The display of a load: live on a terminal, plain log lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

_LOG_EVERY = 5.0
_PHASE_STYLE = {"done": "green", "failed": "bold red", "walking": "cyan", "publishing": "magenta"}


class TableProgress(Protocol):
    """What the display shows of one table."""

    phase: str
    rows_walked: int
    rows_deferred: int
    rows_gated: int
    rows_written: int
    bytes_walked: int

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int: ...


class Progress(Protocol):
    """What the display shows of a load. Counters are read while others count."""

    phase: str
    bytes_read: int
    bytes_total: int | None
    started: float

    @property
    def progress_tables(self) -> Sequence[TableProgress]: ...


def human_bytes(count: float) -> str:
    """``1536`` to ``1.5 KiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def human_seconds(seconds: float) -> str:
    """``75`` to ``1:15``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def time_left(done: int, total: int | None, elapsed: float) -> float | None:
    """Seconds left at the rate so far, None where that can't be told."""
    if not total or not done or done > total:
        return None
    return elapsed * (total - done) / done


def render(progress: Progress, now: float) -> RenderableType:
    """The whole display at one moment (``now`` as time.monotonic gives it)."""
    elapsed = max(now - progress.started, 1e-3)
    done, total = progress.bytes_read, progress.bytes_total
    head = Table.grid(padding=(0, 2))
    size = human_bytes(done) + (f" of {human_bytes(total)}" if total else "")
    left = time_left(done, total, elapsed)
    head.add_row(
        Text(progress.phase, style="bold"),
        ProgressBar(total=total or 1, completed=min(done, total or 1), width=30),
        size,
        f"{human_bytes(done / elapsed)}/s",
        f"{human_seconds(left)} left" if left is not None and progress.phase == "reading" else human_seconds(elapsed),
    )
    body = Table(box=None, padding=(0, 2), header_style="dim")
    body.add_column("table")
    body.add_column("phase")
    for title in ("read", "rows walked", "deferred", "gated", "written"):
        body.add_column(title, justify="right")
    for t in progress.progress_tables:
        body.add_row(
            Text(t.name),
            Text(t.phase, style=_PHASE_STYLE.get(t.phase, "")),
            f"{human_bytes(t.bytes_walked)} of {human_bytes(t.size)}",
            *(f"{count:,}" for count in (t.rows_walked, t.rows_deferred, t.rows_gated, t.rows_written)),
        )
    return Group(head, body)


def log_line(progress: Progress, now: float) -> str:
    """One plain line that says where the load is."""
    elapsed = max(now - progress.started, 1e-3)
    total = f" of {human_bytes(progress.bytes_total)}" if progress.bytes_total else ""
    tables = progress.progress_tables
    written = sum(t.rows_written for t in tables)
    walked = sum(t.rows_walked for t in tables)
    return (
        f"{progress.phase}: {human_bytes(progress.bytes_read)}{total} read, "
        f"{human_bytes(progress.bytes_read / elapsed)}/s, {walked:,} rows walked, {written:,} written, "
        f"{human_seconds(elapsed)}"
    )


class LoadDisplay:
    """Shows a load while its context is open, from a thread of its own."""

    def __init__(self, progress: Progress, console: Console, *, live: bool, every: float = _LOG_EVERY) -> None:
        """``live`` redraws in place; otherwise a line every ``every`` seconds and at each change of phase."""
        self._progress = progress
        self._console = console
        self._live = live
        self._every = every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="walshadow-display", daemon=True)

    def __enter__(self) -> LoadDisplay:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        if self._live:
            with Live(console=self._console, auto_refresh=False) as live:
                while not self._stop.wait(0.1):
                    live.update(render(self._progress, time.monotonic()), refresh=True)
                live.update(render(self._progress, time.monotonic()), refresh=True)
            return
        phase, last = "", 0.0
        while not self._stop.wait(0.1):
            now = time.monotonic()
            if self._progress.phase != phase or now - last >= self._every:
                phase, last = self._progress.phase, now
                self._console.print(log_line(self._progress, now), markup=False, highlight=False, soft_wrap=True)
