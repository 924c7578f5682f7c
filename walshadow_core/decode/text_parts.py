"""What the texts of arrays, records and ranges share: their parts' strings, and when one of these goes in quotes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from walshadow_core.api import Bytes, FormatError
from walshadow_core.decode.columns import BadValue, VarColumn, VarFill, copy_bytes
from walshadow_core.decode.text_quote import DOUBLE_QUOTE, ROOM, put_quoted
from walshadow_core.pgformat.jit import leaf

QUOTED_ROOM: Final = ROOM + 2
"""Bytes that put_part needs besides two per byte of the string."""

_WHITESPACE: Final = b" \t\n\r\v\f"


def special_bytes(marks: bytes) -> NDArray[np.uint8]:
    """uint8[256], 1 for the bytes that a part is put in quotes for: ``marks``, whitespace, quote and backslash."""
    table: NDArray[np.uint8] = np.zeros(256, np.uint8)
    table[list(marks + _WHITESPACE + b'"\\')] = 1
    return table


@leaf
def put_part(buf: Bytes, at: int, stop: int, special: NDArray[np.uint8], mark: int, out: Bytes, to: int) -> int:
    """One part, in quotes where it needs them; where it ends. ``mark`` is what goes before a quote inside."""
    found = np.uint8(1) if at == stop else np.uint8(0)
    for k in range(np.uint64(at), np.uint64(stop)):
        found |= special[buf[k]]
    if found:
        return put_quoted(buf, at, stop, DOUBLE_QUOTE, mark, out, to)
    copy_bytes(buf, at, stop - at, out, to)
    return to + stop - at


@dataclass(frozen=True)
class Strings:
    """An Arrow array of strings or binaries as NumPy arrays: value i is data[offsets[i] : offsets[i + 1]], and null
    where valid[i] is 0."""

    offsets: NDArray[np.int32]
    data: Bytes
    valid: NDArray[np.uint8]

    @classmethod
    def of(cls, array: pa.Array) -> Strings:
        """The arrays; what our own builders made is not copied."""
        n, skipped = len(array), array.offset
        bitmap, offsets, data = array.buffers()
        valid: NDArray[np.uint8] = np.ones(n, np.uint8)
        if bitmap is not None:
            bits = np.frombuffer(bitmap, np.uint8)
            valid = np.unpackbits(bits, count=skipped + n, bitorder="little")[skipped:]
        ends: NDArray[np.int32] = np.zeros(1, np.int32) if n == 0 else np.frombuffer(offsets, np.int32)
        content: Bytes = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
        return cls(_writable(ends)[skipped : skipped + n + 1], _writable(content), valid)


def _writable(array: NDArray[Any]) -> NDArray[Any]:
    """To a kernel, an array that can't be written to is another type, for which it would be compiled once more."""
    return array if array.flags.writeable else array.copy()


def assemble(
    arrow: pa.DataType,
    column: str,
    fill: VarFill,
    data: Bytes,
    first: NDArray[np.int32],
    count: NDArray[np.int32],
    kind: NDArray[np.uint8],
) -> pa.Array:
    """Texts of n rows, made at once: ``fill`` gets ``data``, ``first`` and ``count`` for buf, offset and length.
    Raises FormatError naming the column."""
    made = VarColumn(arrow, fill)
    try:
        made.append(data, first, count, kind)
    except BadValue as error:
        raise FormatError(f'column "{column}": {error.reason}') from None
    return made.finish()
