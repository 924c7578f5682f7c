"""``walshadow warmup``: compile every kernel now, so that the first load does not.

A marker beside the compiled kernels says which versions were warmed, and for which processor: while it holds, a
load starts at once; where it does not, the load warms up first and says so, instead of seeming to hang.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from walshadow_core.cli.console import say, stderr_console

if TYPE_CHECKING:
    from rich.console import Console

    from walshadow_core.plugins import Plugins

MARKER = "warm"


def warmup() -> None:
    """Compile every kernel ahead of the first load, as for a container image.

    Compiled kernels are kept in the user's cache folder (or WALSHADOW_CACHE_DIR); a second run only loads
    them.
    """
    from walshadow_core.plugins import Plugins

    warm_up(stderr_console(), Plugins.load())


def warm_up(console: Console, plugins: Plugins) -> None:
    """Compile or load the kernels of the core and of every plugin, a line for each on ``console``."""
    steps = _steps(plugins)
    began = time.monotonic()
    for number, (name, compile_kernels) in enumerate(steps, 1):
        step_began = time.monotonic()
        with console.status(f"kernels of {name}"):
            compile_kernels()
        seconds = time.monotonic() - step_began
        say(console, f"[{number}/{len(steps)}] kernels of {name}: {seconds:.1f} s")
    _mark(plugins)
    say(console, f"ready after {time.monotonic() - began:.1f} s; kernels are kept in {_folder()}")


def load_kernels(plugins: Plugins) -> None:
    """Load every kernel from its cache, or compile it: after this, the first page is decoded at full speed."""
    for _, load in _steps(plugins):
        load()


def start_loading_kernels(plugins: Plugins) -> threading.Thread:
    """The same beside whatever comes first, such as talking to servers; nothing if these versions are not warm.
    What goes wrong here goes wrong again, and is reported, where the kernels are used."""

    def load() -> None:
        with contextlib.suppress(Exception):
            if is_warm(plugins):
                load_kernels(plugins)

    thread = threading.Thread(target=load, name="walshadow-kernels", daemon=True)
    thread.start()
    return thread


def _steps(plugins: Plugins) -> list[tuple[str, Callable[[], object]]]:
    return [("core", _warm_core), *plugins.warmups()]


def _warm_core() -> None:
    from walshadow_core.decode.warmup import warmup as warm_decoder
    from walshadow_core.redo.warmup import warmup as warm_redo
    from walshadow_core.toast.warmup import warmup as warm_toast

    warm_decoder()
    warm_toast()
    warm_redo()


def warm_up_if_cold(console: Console, plugins: Plugins) -> None:
    """As ``warm_up``, after saying why, unless these versions were warmed up on this machine before."""
    import numba

    if numba.config.DISABLE_JIT or is_warm(plugins):
        return
    say(console, "first run on this machine: compiling kernels ('walshadow warmup' does it ahead)")
    warm_up(console, plugins)


def is_warm(plugins: Plugins) -> bool:
    """Whether the kernels of these versions were compiled here before."""
    try:
        return (_folder() / MARKER).read_text(encoding="utf-8") == _versions(plugins)
    except OSError:
        return False


def _mark(plugins: Plugins) -> None:
    """A cache that can't be written costs time at every run, and is no reason to fail."""
    with contextlib.suppress(OSError):
        _folder().mkdir(parents=True, exist_ok=True)
        (_folder() / MARKER).write_text(_versions(plugins), encoding="utf-8")


def _folder() -> Path:
    import numba

    import walshadow_core.pgformat.jit  # noqa: F401 (sets Numba's cache folder)

    return Path(numba.config.CACHE_DIR)


def _versions(plugins: Plugins) -> str:
    """Everything that compiled kernels depend on, but for Numba's version, which is in the folder's name."""
    import platform

    from llvmlite import binding

    from walshadow_core.pgformat.sources import digest
    from walshadow_core.plugins import walshadow_version

    with_kernels = {name for name, _ in plugins.warmups()}
    facts = {"python": platform.python_version(), "cpu": binding.get_host_cpu_name(), "core": walshadow_version()}
    facts["sources"] = digest(__name__)
    facts |= {p.name: p.version for p in plugins.usable if p.name in with_kernels}
    return "".join(f"{name} {fact}\n" for name, fact in facts.items())
