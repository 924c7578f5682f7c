"""What a column is while it is built: NumPy buffers that kernels write and that Arrow takes over as they are.

A type family has kernels that turn (offset, length, kind) arrays into values, and wraps them in one of the
two builders here: FixedColumn (values of one width) or VarColumn (int32 offsets and bytes).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from walshadow_core.api import Attribute, Bytes, PgType
from walshadow_core.api import BadValue as BadValue
from walshadow_core.pgformat.jit import kernel, leaf
from walshadow_core.pgformat.words import SLACK as SLACK
from walshadow_core.pgformat.words import load64 as load64
from walshadow_core.pgformat.words import store64 as store64

DONE: Final = 0
NO_ROOM: Final = 1
BAD_VALUE: Final = 2
"""Status that a VarFill returns."""

FIRST_ROWS: Final = 4096
FIRST_BYTES: Final = 64 << 10
KEPT: Final = 2
"""Arrays that went out of a builder and are kept to be filled again, at most: one on its way, one being written."""
MAX_VAR_BYTES: Final = 2**31 - 1
"""What the int32 offsets of an Arrow string or binary array can span."""


@dataclass(frozen=True)
class DecodeOptions:
    """The user's policies for decoding.

    ``invalid_text``: what text that is not valid in the database's encoding becomes: ``error`` (FormatError),
    ``replace`` (U+FFFD per bad sequence; in a key still an error, as two keys could become one), ``bytes`` (text
    columns are binary, bytes as stored).
    """

    invalid_text: Literal["error", "replace", "bytes"] = "error"


class ColumnBuilder(Protocol):
    """Gathers the values of one column over many appends into one Arrow array."""

    @property
    def nbytes(self) -> int:
        """Bytes of values held."""
        ...

    def append(self, buf: Bytes, offset: NDArray[np.int32], length: NDArray[np.int32], kind: NDArray[np.uint8]) -> None:
        """Take n values: ``kind`` is KIND_NULL or KIND_VALUE, ``offset`` the first data byte in ``buf`` (varlena
        header excluded), ``length`` the count of data bytes. ``[offset, offset + length)`` is known to lie inside
        ``buf``; for a type of fixed width, length is that width. For a null, offset and length mean nothing.
        Raises BadValue; the builder is of no further use then."""
        ...

    def finish(self) -> pa.Array:
        """The values as an Arrow array, and start anew. Raises FormatError."""
        ...


@dataclass(frozen=True)
class Codec:
    """How one column is decoded: its Arrow type, and a maker of builders."""

    arrow: pa.DataType
    builder: Callable[[], ColumnBuilder]


@dataclass(frozen=True)
class TypeUse:
    """A type where it is used: of a column, or of what a column's values are made of (elements, fields, bounds).

    ``column`` is the column's name, for errors; ``type_name`` what format_type prints; ``encoding`` the
    database's; ``dimensions`` is attndims.
    """

    type: PgType
    typmod: int
    type_name: str
    column: str
    encoding: str
    options: DecodeOptions
    dimensions: int = 0


def use_of(attribute: Attribute, encoding: str, options: DecodeOptions) -> TypeUse:
    """The use of a column's type in a database of this encoding."""
    a = attribute
    known = a.type or PgType(a.type_oid, "pg_catalog", a.type_name, "b", a.length, a.alignment, a.by_value)
    return TypeUse(known, a.typmod, a.type_name, a.name, encoding, options, a.dimensions)


CodecMaker = Callable[[TypeUse], Codec]
"""A type's entry in a family's CODECS (its own Arrow form) or TEXTS (a string, as its output function prints it).
Raises TableRefused."""


class Codecs(Protocol):
    """What the codecs of a container's parts are."""

    def native(self, use: TypeUse) -> Codec:
        """In the type's own Arrow form. Raises TableRefused."""
        ...

    def text(self, use: TypeUse) -> Codec:
        """As the type's output function prints it. Raises TableRefused."""
        ...


ContainerMaker = Callable[[TypeUse, Codecs], Codec]
"""The same for a type that is made of others."""

FixedFill = Callable[[Bytes, NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8], NDArray[Any], int], int]
"""``fill(buf, offset, length, kind, values, row) -> bad``: write n values from ``values[row * width]`` on (zeros
for nulls). Gives -1, or the index of the first value that the type can't have."""

VarFill = Callable[
    [
        Bytes,
        NDArray[np.int32],
        NDArray[np.int32],
        NDArray[np.uint8],
        int,
        NDArray[np.int32],
        Bytes,
        int,
        int,
    ],
    tuple[int, int, int],
]
"""``fill(buf, offset, length, kind, first, offsets, data, row, used) -> (status, next, used)``.

Append values ``first..n`` to ``data``, of which ``used`` bytes are taken, and write the END of value i to
``offsets[row + i + 1]`` (a null's end is the one before it). ``row`` belongs to index 0, whatever ``first``.
Status DONE; NO_ROOM: ``data`` has no room for value ``next`` and SLACK bytes more (the caller makes it larger
and calls again with ``first = next``); BAD_VALUE: value ``next`` is one that the type can't have. ``used`` comes
back as the new count."""


@leaf
def copy_bytes(buf: Bytes, first: int, count: int, data: Bytes, used: int) -> None:
    """Copy ``count`` bytes to ``data[used:]``, eight at a time; up to seven bytes after them become anything."""
    source = np.uint64(first)
    target = np.uint64(used)
    stop = np.uint64(first + count)
    if first + count + 7 <= buf.size:
        while source < stop:
            store64(data, target, load64(buf, source))
            source += np.uint64(8)
            target += np.uint64(8)
    else:
        while source < stop:
            data[target] = buf[source]
            source += np.uint64(1)
            target += np.uint64(1)


@kernel
def copy_value(buf: Bytes, first: int, count: int, data: Bytes, used: int) -> None:
    """Copy ``count`` bytes to ``data[used:]``, 32 at a time; what a VarFill may write past them becomes anything."""
    source = np.uint64(first)
    target = np.uint64(used)
    stop = np.uint64(first + count)
    if first + count + SLACK <= buf.size:
        while source < stop:
            # All loads before the first store: LLVM makes one wide move of them.
            a = load64(buf, source)
            b = load64(buf, source + np.uint64(8))
            c = load64(buf, source + np.uint64(16))
            d = load64(buf, source + np.uint64(24))
            store64(data, target, a)
            store64(data, target + np.uint64(8), b)
            store64(data, target + np.uint64(16), c)
            store64(data, target + np.uint64(24), d)
            source += np.uint64(32)
            target += np.uint64(32)
    else:
        copy_bytes(buf, first, count, data, used)


@kernel
def append_validity(kind: NDArray[np.uint8], bitmap: Bytes, row: int) -> int:
    """Write n validity bits from bit ``row`` on, least significant bit first; gives the count of nulls.

    ``kind`` holds KIND_NULL (0) and KIND_VALUE (1) alone, so that eight of them fold into a byte.
    """
    n = kind.size
    valid = np.uint64(0)
    i = 0
    while i < n:
        at = np.uint64((row + i) >> 3)
        shift = (row + i) & 7
        if shift == 0 and i + 8 <= n:
            bits = load64(kind, np.uint64(i))
            count = bits + (bits >> np.uint64(32))
            count += count >> np.uint64(16)
            count += count >> np.uint64(8)
            valid += count & np.uint64(15)
            bits |= bits >> np.uint64(7)
            bits |= bits >> np.uint64(14)
            bits |= bits >> np.uint64(28)
            bitmap[at] = np.uint8(bits & np.uint64(255))
            i += 8
        else:
            stop = min(i + 8 - shift, n)
            byte = np.uint64(bitmap[at]) & np.uint64((1 << shift) - 1)
            for k in range(i, stop):
                byte |= np.uint64(kind[k]) << np.uint64(shift + k - i)
                valid += np.uint64(kind[k])
            bitmap[at] = np.uint8(byte)
            i = stop
    return n - int(np.int64(valid))


def enlarged(array: NDArray[Any], used: int, needed: int) -> NDArray[Any]:
    """An array of that dtype, of ``needed`` elements or twice the old if more; the first ``used`` are copied."""
    larger = np.empty(max(needed, 2 * array.size), array.dtype)
    larger[:used] = array[:used]
    return larger


class Spare:
    """Arrays of one dtype that went into Arrow, and are filled again when nobody holds them any more: memory that is
    touched for the first time costs as much as filling it."""

    def __init__(self) -> None:
        self._lent: list[NDArray[Any]] = []

    def instead_of(self, array: NDArray[Any], size: int) -> NDArray[Any]:
        """An array of that dtype, of at least ``size`` elements; ``array`` goes out, and is remembered. Every view and
        every Arrow buffer on an array holds it, so that its reference count says whether one is left."""
        lent = self._lent
        # One that is far too large is not kept: it was made for a block that was out of the ordinary.
        found = None
        for at in range(len(lent)):
            if _references(lent, at) == _UNUSED and size <= lent[at].size <= 4 * size:
                found = lent.pop(at)
                break
        lent.append(array)
        del lent[:-KEPT]
        return np.empty(size, array.dtype) if found is None else found


def _references(arrays: list[NDArray[Any]], at: int) -> int:
    return sys.getrefcount(arrays[at])


_UNUSED: Final = _references([np.empty(0)], 0)
"""What the count is of an array that only the list holds."""


class Gathered:
    """Numbers that come in over many appends; ``used`` of ``array``'s elements are taken."""

    def __init__(self, dtype: DTypeLike) -> None:
        self.array: NDArray[Any] = np.empty(FIRST_ROWS, dtype)
        self._spare = Spare()
        self.used = 0

    def room(self, n: int) -> NDArray[Any]:
        """The array, with room for ``n`` elements more."""
        if self.used + n > self.array.size:
            self.array = enlarged(self.array, self.used, self.used + n)
        return self.array

    def more(self, n: int) -> NDArray[Any]:
        """The next ``n`` elements, to be written to now; they are taken."""
        first = self.used
        array = self.room(n)
        self.used += n
        return array[first : self.used]

    def take(self) -> NDArray[Any]:
        """The elements that are taken, and start anew."""
        array = self.array[: self.used]
        self.array = self._spare.instead_of(self.array, self.array.size)
        self.used = 0
        return array


class Validity:
    """The validity bitmap of a column, absent from the array if no null came."""

    def __init__(self) -> None:
        self._bits: Bytes = np.empty(FIRST_ROWS // 8, np.uint8)
        self._spare = Spare()
        self.nulls = 0

    def append(self, kind: NDArray[np.uint8], row: int) -> None:
        """Take the kinds of the rows from ``row`` on (the count of rows before)."""
        needed = (row + kind.size + 7) >> 3
        if needed > self._bits.size:
            self._bits = enlarged(self._bits, (row + 7) >> 3, needed)
        self.nulls += append_validity(kind, self._bits, row)

    def take(self, rows: int) -> tuple[pa.Buffer | None, int]:
        """(the bitmap or None, count of nulls), and start anew."""
        nulls, bits = self.nulls, self._bits
        self.nulls = 0
        if nulls == 0:
            return None, 0
        self._bits = self._spare.instead_of(bits, bits.size)
        return pa.py_buffer(bits[: (rows + 7) >> 3]), nulls


class FixedColumn:
    """Builder of values of one width: ``width`` elements of ``dtype`` each (decimal128: two uint64).

    ``reason`` completes "column X: …" for a value that ``fill`` calls bad.
    """

    def __init__(
        self, arrow: pa.DataType, dtype: DTypeLike, fill: FixedFill, *, width: int = 1, reason: str = ""
    ) -> None:
        self._arrow = arrow
        self._fill = fill
        self._width = width
        self._reason = reason or f"not a value of {arrow}"
        self._values: NDArray[Any] = np.empty(FIRST_ROWS * width, dtype)
        self._spare = Spare()
        self._validity = Validity()
        self._rows = 0

    @property
    def nbytes(self) -> int:
        """Bytes of values held."""
        return self._rows * self._width * self._values.itemsize

    def append(self, buf: Bytes, offset: NDArray[np.int32], length: NDArray[np.int32], kind: NDArray[np.uint8]) -> None:
        """See ColumnBuilder."""
        row = self._rows
        needed = (row + kind.size) * self._width
        if needed > self._values.size:
            self._values = enlarged(self._values, row * self._width, needed)
        bad = self._fill(buf, offset, length, kind, self._values, row)
        if bad >= 0:
            raise BadValue(bad, self._reason)
        self._validity.append(kind, row)
        self._rows = row + kind.size

    def finish(self) -> pa.Array:
        """See ColumnBuilder."""
        rows, values = self._rows, self._values
        used = rows * self._width
        bitmap, nulls = self._validity.take(rows)
        self._rows = 0
        self._values = self._spare.instead_of(values, values.size)
        return pa.Array.from_buffers(self._arrow, rows, [bitmap, pa.py_buffer(values[:used])], nulls)


class VarColumn:
    """Builder of strings or binaries: int32 offsets and bytes. ``reason`` as in FixedColumn."""

    def __init__(self, arrow: pa.DataType, fill: VarFill, *, reason: str = "") -> None:
        self._arrow = arrow
        self._fill = fill
        self._reason = reason or f"not a value of {arrow}"
        self._data: Bytes = np.empty(FIRST_BYTES, np.uint8)
        self._offsets: NDArray[np.int32] = np.empty(FIRST_ROWS + 1, np.int32)
        self._offsets[0] = 0
        self._spare_data, self._spare_offsets = Spare(), Spare()
        self._validity = Validity()
        self._rows = 0
        self._used = 0

    @property
    def nbytes(self) -> int:
        """Bytes of values and offsets held."""
        return self._used + 4 * self._rows

    def append(self, buf: Bytes, offset: NDArray[np.int32], length: NDArray[np.int32], kind: NDArray[np.uint8]) -> None:
        """See ColumnBuilder."""
        row = self._rows
        needed = row + kind.size + 1
        if needed > self._offsets.size:
            self._offsets = enlarged(self._offsets, row + 1, needed)
        first = 0
        while True:
            status, first, self._used = self._fill(
                buf, offset, length, kind, first, self._offsets, self._data, row, self._used
            )
            if status == DONE:
                break
            if status == BAD_VALUE:
                raise BadValue(first, self._reason)
            self._enlarge_data(first)
        self._validity.append(kind, row)
        self._rows = row + kind.size

    def _enlarge_data(self, row: int) -> None:
        size = min(2 * self._data.size, MAX_VAR_BYTES + SLACK)
        if size == self._data.size:
            raise BadValue(row, "a block's values need more than 2 GiB")
        data: Bytes = np.empty(size, np.uint8)
        data[: self._used] = self._data[: self._used]
        self._data = data

    def take(self) -> tuple[int, NDArray[np.int32], Bytes, pa.Buffer | None, int]:
        """(rows, offsets int32[rows+1], data bytes, bitmap or None, nulls), and start anew."""
        rows, used, offsets, data = self._rows, self._used, self._offsets, self._data
        bitmap, nulls = self._validity.take(rows)
        self._rows = self._used = 0
        self._offsets = self._spare_offsets.instead_of(offsets, offsets.size)
        self._offsets[0] = 0
        self._data = self._spare_data.instead_of(data, max(FIRST_BYTES, used + (used >> 4) + SLACK))
        return rows, offsets[: rows + 1], data[:used], bitmap, nulls

    def finish(self) -> pa.Array:
        """See ColumnBuilder."""
        rows, offsets, data, bitmap, nulls = self.take()
        return pa.Array.from_buffers(self._arrow, rows, [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)], nulls)


def ascii_maker(fill: VarFill) -> CodecMaker:
    """The maker of a type whose values ``fill`` gives as ASCII."""

    def make(use: TypeUse) -> Codec:
        reason = f"not a value of {use.type_name}"
        return Codec(pa.string(), lambda: VarColumn(pa.string(), fill, reason=reason))

    return make
