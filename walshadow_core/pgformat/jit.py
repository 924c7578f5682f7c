"""The decorator of every kernel, and where compiled kernels are kept.

Kernels compile on their first call on a machine and are kept in the user's cache folder
(``WALSHADOW_CACHE_DIR`` or the platform's own); ``walshadow warmup`` does it ahead. ``NUMBA_BOUNDSCHECK=1`` and
``NUMBA_DISABLE_JIT=1`` work as Numba documents them; checked code has a cache of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
import platformdirs

F = TypeVar("F", bound=Callable[..., Any])


def cache_folder() -> Path:
    """Where compiled kernels are kept."""
    root = os.environ.get("WALSHADOW_CACHE_DIR") or platformdirs.user_cache_dir("walshadow")
    checked = "-boundscheck" if os.environ.get("NUMBA_BOUNDSCHECK", "0") not in ("", "0") else ""
    return Path(root) / f"kernels-numba-{numba.__version__}{checked}"


if not os.environ.get("NUMBA_CACHE_DIR"):
    numba.config.CACHE_DIR = str(cache_folder())


def kernel(function: F) -> F:
    """Compile a function over arrays and scalars: cached on disk, GIL released, no Python objects inside."""
    compiled: F = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    return compiled
