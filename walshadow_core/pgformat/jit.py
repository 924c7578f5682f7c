"""The decorator of every kernel, and where compiled kernels are kept.

Kernels compile on their first call on a machine and are kept in the user's cache folder
(``WALSHADOW_CACHE_DIR`` or the platform's own); ``walshadow warmup`` does it ahead. ``NUMBA_BOUNDSCHECK=1`` and
``NUMBA_DISABLE_JIT=1`` work as Numba documents them; checked code has a cache of its own.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
import platformdirs

from walshadow_core.api import WalshadowError
from walshadow_core.pgformat.sources import digest

F = TypeVar("F", bound=Callable[..., Any])


def cache_folder() -> Path:
    """Where compiled kernels are kept."""
    root = os.environ.get("WALSHADOW_CACHE_DIR") or platformdirs.user_cache_dir("walshadow")
    checked = "-boundscheck" if os.environ.get("NUMBA_BOUNDSCHECK", "0") not in ("", "0") else ""
    return Path(root) / f"kernels-numba-{numba.__version__}{checked}"


def make_writable(folder: Path) -> None:
    """Make the folder if it is not there. Raises WalshadowError if kernels can't be kept in it: compiling them at
    every start would take most of a minute, and a shared temporary folder is no place to load code from."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise WalshadowError(
            f"compiled kernels can't be kept in {folder}: {error.strerror}",
            "set WALSHADOW_CACHE_DIR to a folder that this user can write",
        ) from None


if not os.environ.get("NUMBA_CACHE_DIR"):
    numba.config.CACHE_DIR = str(cache_folder())
    if not numba.config.DISABLE_JIT:
        make_writable(cache_folder())


def kernel(function: F) -> F:
    """Compile a function over arrays and scalars: cached on disk, GIL released, no Python objects inside.

    What is cached is good for the sources that it was made of, those of the kernels inside of it included.
    """
    return _compiled(function)


def leaf(function: F) -> F:
    """A kernel for other kernels to call once per value, which makes no arrays: it counts no references to those that
    it is given, which for a short value takes longer than to write it."""
    return _compiled(function, _nrt=False)


def _compiled(function: F, **options: Any) -> F:
    folder = numba.config.CACHE_DIR
    try:
        numba.config.CACHE_DIR = str(Path(folder) / digest(function.__module__))
        compiled: F = numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    finally:
        numba.config.CACHE_DIR = folder
    return compiled
