"""The one loop that NumPy has no word for: strings with their lengths before them.

Compiled by Numba on the first call on a machine and kept in the user's cache folder.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numba
import numpy as np
import platformdirs
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from walshadow_core.api import Bytes

STEP = 16
"""Bytes that copy_step moves."""

if not os.environ.get("NUMBA_CACHE_DIR") and not numba.config.CACHE_DIR:
    _root = os.environ.get("WALSHADOW_CACHE_DIR") or platformdirs.user_cache_dir("walshadow")
    _checked = "-boundscheck" if os.environ.get("NUMBA_BOUNDSCHECK", "0") not in ("", "0") else ""
    numba.config.CACHE_DIR = str(Path(_root) / f"kernels-numba-{numba.__version__}{_checked}")

if numba.config.DISABLE_JIT:

    def copy_step(target: Bytes, to: int, source: Bytes, at: int) -> None:
        """Copy STEP bytes."""
        target[to : to + STEP] = source[at : at + STEP]

else:

    @intrinsic
    def copy_step(typing_context: Any, target: Any, to: Any, source: Any, at: Any) -> Any:
        """Copy STEP bytes as one unaligned load and store; the caller has checked both ends."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            wide = ir.IntType(8 * STEP).as_pointer()
            into = cgutils.create_struct_proxy(signature.args[0])(context, builder, arguments[0])
            out_of = cgutils.create_struct_proxy(signature.args[2])(context, builder, arguments[2])
            value = builder.load(builder.bitcast(builder.gep(out_of.data, [arguments[3]]), wide), align=1)
            builder.store(value, builder.bitcast(builder.gep(into.data, [arguments[1]]), wide), align=1)
            return context.get_dummy_value()

        return types.void(target, to, source, at), generate


@numba.njit(cache=True, nogil=True, error_model="numpy")
def strings(offsets: NDArray[np.int32], data: Bytes, out: Bytes, position: int) -> int:
    """Write n strings to ``out`` from ``position``, each with its length before it as a base-128 varint.

    ``offsets`` is int32[n + 1] into ``data``; both are readonly arrays. Gives the position after the last byte,
    or -1 - i where string i has a negative length, ends past ``data``, or does not fit into ``out``.
    """
    end_of_data = len(data)
    end_of_out = len(out)
    p = position
    for i in range(len(offsets) - 1):
        start = int(offsets[i])
        length = int(offsets[i + 1]) - start
        if start < 0 or length < 0 or start + length > end_of_data or p + length + 5 > end_of_out:
            return -1 - i
        rest = length
        while rest >= 128:
            out[p] = np.uint8(rest & 127 | 128)
            rest >>= 7
            p += 1
        out[p] = np.uint8(rest)
        p += 1
        done = 0
        # Whole steps read and write up to STEP - 1 bytes past the string: only where both buffers have them.
        if start + length + STEP <= end_of_data and p + length + STEP <= end_of_out:
            while done < length:
                copy_step(out, p + done, data, start + done)
                done += STEP
        else:
            while done < length:
                out[p + done] = data[start + done]
                done += 1
        p += length
    return p


KERNELS = (strings,)
"""Every kernel of the plugin, for warmup and its test."""


def readonly(array: NDArray[Any]) -> NDArray[Any]:
    """The same memory as a readonly array, so that a kernel sees one type whoever made the buffer."""
    view = array.view()
    view.flags.writeable = False
    return view


def warmup() -> None:
    """Compile, or load from the cache, every kernel."""
    offsets = readonly(np.array([0, 1], np.int32))
    strings(offsets, readonly(np.zeros(1, np.uint8)), np.zeros(64, np.uint8), 0)
