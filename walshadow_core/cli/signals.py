"""What Ctrl-C, SIGTERM and SIGHUP do to the program.

Where there is something to clean up, they raise KeyboardInterrupt. Where there is not yet, they end the program at
once: in the middle of an import an exception may be lost, or leave half a module behind.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from types import FrameType

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ours = False
"""Whether this process is the program's own, and not one that calls it."""


def begin() -> None:
    """This process is the program: until a command runs, it ends at once."""
    global _ours
    _ours = True
    for number in _NUMBERS:
        signal.signal(number, _end)


@contextlib.contextmanager
def interrupting() -> Iterator[None]:
    """A signal raises KeyboardInterrupt in here."""
    with _handled_by(_interrupt):
        yield


@contextlib.contextmanager
def ending_at_once() -> Iterator[None]:
    """A signal ends the program in here: there is nothing to clean up."""
    with _handled_by(_end):
        yield


@contextlib.contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    if not _ours:
        yield
        return
    before = [signal.signal(number, handler) for number in _NUMBERS]
    try:
        yield
    finally:
        for number, handled in zip(_NUMBERS, before, strict=True):
            signal.signal(number, handled)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"interrupted\n")
    os._exit(130)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
