"""Talking to the person: stderr, so that stdout is for results."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def stderr_console() -> Console:
    """A console on stderr."""
    from rich.console import Console

    return Console(stderr=True)


def say(console: Console, text: str) -> None:
    """One line, as it is: no markup, no highlighting, no wrapping."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)
