"""``walshadow warmup``: compile every kernel now, so that the first load does not.

A marker beside the compiled kernels says which versions were warmed, and for which processor: while it holds, a
load starts at once; where it does not, the load warms up first and says so, instead of seeming to hang.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import threading
import time
from collections.abc import Callable, Collection
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


def warm_up(console: Console, plugins: Plugins, groups: Collection[str] | None = None) -> None:
    """Compile or load the kernels of the core, for these groups of types (all, if not given), and of every plugin; a
    line for each on ``console``."""
    steps = _steps(plugins, groups)
    began = time.monotonic()
    for number, (name, compile_kernels) in enumerate(steps, 1):
        step_began = time.monotonic()
        with console.status(f"kernels of {name}"):
            compile_kernels()
        seconds = time.monotonic() - step_began
        say(console, f"[{number}/{len(steps)}] kernels of {name}: {seconds:.1f} s")
    _mark(plugins, groups)
    say(console, f"ready after {time.monotonic() - began:.1f} s; kernels are kept in {_folder()}")


def load_kernels(plugins: Plugins, groups: Collection[str] | None = None) -> None:
    """Load those kernels from their cache, or compile them: after this, the first page is decoded at full speed."""
    for _, load in _steps(plugins, groups):
        load()
    # A million objects that never go: to look through them again and again holds up every thread, each time for a tenth
    # of a second.
    gc.freeze()


def start_loading_kernels(plugins: Plugins) -> threading.Thread:
    """The same of the usual types, beside whatever comes first, such as talking to servers; nothing if these versions
    are not warm. What goes wrong here goes wrong again, and is reported, where the kernels are used."""

    def load() -> None:
        with contextlib.suppress(Exception):
            from walshadow_core.decode.warmup import USUAL

            if is_warm(plugins, {USUAL}):
                load_kernels(plugins, {USUAL})

    thread = threading.Thread(target=load, name="walshadow-kernels", daemon=True)
    thread.start()
    return thread


def _steps(plugins: Plugins, groups: Collection[str] | None) -> list[tuple[str, Callable[[], object]]]:
    from walshadow_core.decode.warmup import GROUPS, USUAL
    from walshadow_core.decode.warmup import warmup as warm_decoder
    from walshadow_core.redo.warmup import warmup as warm_redo
    from walshadow_core.toast.warmup import warmup as warm_toast

    wanted = [group for group in GROUPS if groups is None or group in groups]
    steps: list[tuple[str, Callable[[], object]]] = [(g, functools.partial(warm_decoder, {g})) for g in wanted]
    if USUAL in wanted:
        steps += [("out-of-line values", warm_toast), ("the WAL", warm_redo), *plugins.warmups()]
    return steps


def warm_up_if_cold(console: Console, plugins: Plugins, groups: Collection[str] = ()) -> None:
    """As ``warm_up`` for the usual types and these groups, after saying why, but for what these versions were warmed
    up for on this machine before."""
    import numba

    from walshadow_core.decode.warmup import USUAL

    cold = {USUAL, *groups} - _warm_groups(plugins)
    if numba.config.DISABLE_JIT or not cold:
        return
    what = "first run on this machine" if USUAL in cold else "first tables of their kind on this machine"
    say(console, f"{what}: compiling kernels ('walshadow warmup' does it ahead)")
    warm_up(console, plugins, cold)


def is_warm(plugins: Plugins, groups: Collection[str]) -> bool:
    """Whether the kernels of these versions, and of these groups of types, were compiled here before."""
    return set(groups) <= _warm_groups(plugins)


def _warm_groups(plugins: Plugins) -> set[str]:
    try:
        versions, _, groups = (_folder() / MARKER).read_text(encoding="utf-8").partition("\n\n")
    except OSError:
        return set()
    return set(groups.splitlines()) if versions + "\n" == _versions(plugins) else set()


def _mark(plugins: Plugins, groups: Collection[str] | None) -> None:
    """A cache that can't be written costs time at every run, and is no reason to fail."""
    from walshadow_core.decode.warmup import GROUPS

    warm = sorted(_warm_groups(plugins) | set(GROUPS if groups is None else groups))
    with contextlib.suppress(OSError):
        _folder().mkdir(parents=True, exist_ok=True)
        (_folder() / MARKER).write_text("\n".join([_versions(plugins), *warm]), encoding="utf-8")


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
