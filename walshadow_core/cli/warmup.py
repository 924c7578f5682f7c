"""``walshadow warmup``: compile every kernel now, so that the first load does not.

A marker beside the compiled kernels says which versions were warmed, and for which processor: while it holds, a
load starts at once; where it does not, the load warms up first and says so, instead of seeming to hang.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
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
    from walshadow_core.decode.warmup import GROUPS

    steps = _steps(plugins, groups)
    began = time.monotonic()
    in_processes = _cpus() > 1 and not is_warm(plugins, groups if groups is not None else GROUPS)
    with console.status("compiling kernels"):
        if in_processes:
            _compile_in_processes([name for name, _ in steps], console)
        for number, (name, compile_kernels) in enumerate(steps, 1):
            step_began = time.monotonic()
            compile_kernels()
            if not in_processes:
                say(console, f"[{number}/{len(steps)}] kernels of {name}: {time.monotonic() - step_began:.1f} s")
    _mark(plugins, groups)
    say(console, f"ready after {time.monotonic() - began:.1f} s; kernels are kept in {_folder()}")


def _compile_in_processes(names: list[str], console: Console) -> None:
    """The steps in as many processes as there are CPUs: the compiler does not let threads share one. What fails there
    fails again in the caller, which loads, or compiles, all of it once more."""
    shares: list[list[str]] = [[] for _ in range(min(_cpus(), len(names)))]
    for name in sorted(names, key=lambda name: -_WEIGHT.get(name, 1)):
        min(shares, key=lambda share: sum(_WEIGHT.get(n, 1) for n in share)).append(name)
    done = itertools.count(1)

    def compile_share(share: list[str]) -> None:
        command = [sys.executable, "-c", _COMPILE_STEPS, *share]
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                say(console, f"[{next(done)}/{len(names)}] {line.rstrip()}")

    with ThreadPoolExecutor(max(1, len(shares))) as pool:
        list(pool.map(compile_share, shares))


_WEIGHT = {
    "the WAL": 12,
    "usual types": 11,
    "arrays, composites, ranges": 14,
    "other types": 12,
    "jsonb": 4,
    "jsonpath": 3,
}
"""About how long steps take, compared with others."""
_COMPILE_STEPS = "import sys; from walshadow_core.cli.warmup import compile_steps; compile_steps(sys.argv[1:])"


def compile_steps(names: Sequence[str]) -> None:
    """Compile the kernels of some steps of ``warm_up``, into the cache; a line on stdout for each."""
    from walshadow_core.plugins import Plugins

    steps = dict(_steps(Plugins.load(), None))
    for name in names:
        began = time.monotonic()
        steps[name]()
        print(f"kernels of {name}: {time.monotonic() - began:.1f} s", flush=True)


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
