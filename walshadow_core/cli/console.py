"""Talking to the person: stderr, so that stdout is for results."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_WIDE = 1 << 16


def stderr_console() -> Console:
    """A console on stderr."""
    from rich.console import Console

    return Console(stderr=True)


def table_console() -> Console:
    """A console on stdout for tables. A pipe has no width: nothing is cut or folded there."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=_WIDE)


def say(console: Console, text: str) -> None:
    """One line, as it is: no markup, no highlighting, no wrapping."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)
