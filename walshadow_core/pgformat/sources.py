"""What compiled code depends on: a module's source and those of all modules of its package that it imports.

A kernel has the kernels that it calls, and the constants that it uses, inside of its machine code, while Numba looks
only at the file that the kernel itself stands in when it asks whether compiled code is still good.
"""

from __future__ import annotations

import hashlib
import re
import sys
from functools import cache
from pathlib import Path

_IMPORT = re.compile(r"^(?:from\s+([\w.]+)\s+import\s+(\([^)]*\)|[^\n]*)|import\s+([\w.]+))", re.MULTILINE)
_NAME = re.compile(r"\w+")


@cache
def digest(module: str) -> str:
    """A digest of the sources of ``module`` (its full name; its package is loaded) and of what it imports, directly
    or not, from its own top-level package."""
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += _imports(name)
    whole = hashlib.blake2b(digest_size=10)
    for name in sorted(seen):
        whole.update(f"{name}\0{_source(name)}\0".encode())
    return whole.hexdigest()


def _file(module: str) -> Path | None:
    """The module's source file, None if there is no such module (a name in it, for one)."""
    top, *rest = module.split(".")
    loaded = sys.modules.get(top)
    if loaded is None or loaded.__file__ is None:
        return None
    base = Path(loaded.__file__)
    if not rest:
        return base
    path = base.parent.joinpath(*rest)
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return file
    return None


@cache
def _source(module: str) -> str:
    file = _file(module)
    return "" if file is None else file.read_text(encoding="utf-8")


@cache
def _imports(module: str) -> tuple[str, ...]:
    """The modules of the same top-level package that it imports."""
    top = module.split(".", 1)[0]
    found = []
    for parent, names, whole in _IMPORT.findall(_source(module)):
        if whole:
            candidates = [whole]
        else:
            candidates = [parent, *(f"{parent}.{name}" for name in _NAME.findall(names))]
        found += [c for c in candidates if c.split(".", 1)[0] == top and _file(c) is not None]
    return tuple(found)
