"""Ranges and multiranges as text (``utils/adt/rangetypes.c``, ``multirangetypes.c``).

After its varlena header a range has its type's oid, then the bounds that it has, each aligned as the subtype wants it,
and last a byte of flags. A multirange has its type's oid and the number of ranges n; n - 1 words that help to find a
range; n bytes of flags; then, aligned, the bounds of each range as they stand in a range. Offsets count from the
varlena header, four bytes before what we have. Ranges of discrete types are canonical on disk already.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from walshadow_core.api import Bytes, PgType, TableRefused
from walshadow_core.decode.columns import BadValue, Codec, Codecs, ContainerMaker, Gathered, TypeUse
from walshadow_core.decode.deform import ALIGNMENTS, KIND_VALUE, datum_at
from walshadow_core.decode.text_range import HAS_NO_LOWER, HAS_NO_UPPER, range_text
from walshadow_core.pgformat.heap import load32
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.varlena import HEADER_SIZE

CHUNK: Final = 1 << 12
"""Bounds that are handed on at a time."""
COUNT_AT, ITEMS_AT = 4, 8
"""Places in a multirange's payload."""
BOUNDS_AT: Final = 4
"""Where a range's bounds begin."""

_BAD: Final = "a range runs past its end, or has another type's oid"


@kernel
def count_ranges(
    buf: Bytes,
    offset: NDArray[np.int32],
    length: NDArray[np.int32],
    kind: NDArray[np.uint8],
    type_oid: int,
    multi: bool,
    count: NDArray[np.int32],
) -> tuple[int, int]:
    """How many ranges each of n values has: (-1 or the first bad value, their sum)."""
    total = 0
    for i in range(kind.size):
        count[i] = 0
        if kind[i] != KIND_VALUE:
            continue
        start, size = int(offset[i]), int(length[i])
        many = 1
        if size < (ITEMS_AT if multi else BOUNDS_AT + 1) or load32(buf, start) != type_oid:
            return i, total
        if multi:
            many = load32(buf, start + COUNT_AT)
            if many > 0 and ITEMS_AT + 4 * (many - 1) + many > size:
                return i, total
        count[i] = many
        total += many
    return -1, total


@kernel
def take_bounds(
    buf: Bytes,
    offset: NDArray[np.int32],
    length: NDArray[np.int32],
    count: NDArray[np.int32],
    multi: bool,
    attlen: int,
    align: int,
    i: int,
    done: int,
    at: int,
    flags: NDArray[np.uint8],
    used: int,
    bounds: NDArray[np.int32],
    out_offset: NDArray[np.int32],
    out_length: NDArray[np.int32],
    out_kind: NDArray[np.uint8],
) -> tuple[bool, int, int, int, int, int]:
    """Where the next bounds are, as many as the output has room for, from range ``done`` of value i on, whose bounds
    are looked for at ``at`` (for the first range: anything).

    The flags of the ranges go to ``flags[used:]``, how many bounds a range has to ``bounds``, at the same index. Gives
    (whether all is well, i, done, at, used, bounds found).
    """
    filled = 0
    while i < count.size:
        start = int(offset[i])
        base = start - HEADER_SIZE
        stop = start + int(length[i])
        many = int(count[i])
        flags_at = stop - 1
        if multi:
            flags_at = start + ITEMS_AT + 4 * (many - 1)
            if done == 0:
                at = flags_at + many
        else:
            stop -= 1
            at = start + BOUNDS_AT
        while done < many:
            if filled + 2 > out_kind.size:
                return True, i, done, at, used, filled
            if multi:
                at = base + ((at - base + align - 1) & -align)
            flag = buf[np.uint64(flags_at + done)]
            before = filled
            for missing in (HAS_NO_LOWER, HAS_NO_UPPER):
                if flag & missing == 0:
                    first, width, found, at, wrong = datum_at(buf, at, base, stop, attlen, align)
                    if wrong != 0 or found != KIND_VALUE:
                        return False, i, done, at, used, filled
                    out_offset[filled] = first
                    out_length[filled] = width
                    out_kind[filled] = KIND_VALUE
                    filled += 1
            flags[used] = flag
            bounds[used] = filled - before
            used += 1
            done += 1
        i += 1
        done = 0
    return True, i, done, at, used, filled


@dataclass(frozen=True)
class _Ranges:
    """A range or multirange type, and how its bounds are made text."""

    type: PgType
    subtype: PgType
    bound: Codec
    column: str

    @property
    def multi(self) -> bool:
        return self.type.kind == "m"


class RangeTextColumn:
    """Builder of texts of ranges or multiranges."""

    def __init__(self, ranges: _Ranges) -> None:
        self._ranges = ranges
        self._bounds = ranges.bound.builder()
        self._kind = Gathered(np.uint8)
        self._count = Gathered(np.int32)
        self._flags = Gathered(np.uint8)
        self._bounds_of = Gathered(np.int32)
        self._offset: NDArray[np.int32] = np.empty(CHUNK, np.int32)
        self._length: NDArray[np.int32] = np.empty(CHUNK, np.int32)
        self._kinds: NDArray[np.uint8] = np.empty(CHUNK, np.uint8)

    @property
    def nbytes(self) -> int:
        """Bytes of bounds and flags held."""
        return self._bounds.nbytes + 5 * self._flags.used + 5 * self._kind.used

    def append(self, buf: Bytes, offset: NDArray[np.int32], length: NDArray[np.int32], kind: NDArray[np.uint8]) -> None:
        """See ColumnBuilder."""
        r = self._ranges
        count = self._count.more(kind.size)
        bad, total = count_ranges(buf, offset, length, kind, r.type.oid, r.multi, count)
        if bad >= 0:
            raise BadValue(bad, _BAD)
        self._kind.more(kind.size)[:] = kind
        flags, bounds = self._flags.more(total), self._bounds_of.more(total)
        align = ALIGNMENTS[r.subtype.alignment]
        i = done = at = used = 0
        while i < kind.size:
            first = i
            good, i, done, at, used, filled = take_bounds(
                buf, offset, length, count, r.multi, r.subtype.length, align, i, done, at, flags, used, bounds,
                self._offset, self._length, self._kinds,
            )  # fmt: skip
            if not good:
                raise BadValue(i, _BAD)
            try:
                self._bounds.append(buf, self._offset[:filled], self._length[:filled], self._kinds[:filled])
            except BadValue as error:
                row = self._row_of(offset, length, first, int(self._offset[error.row]))
                raise BadValue(row, f"a bound of a range: {error.reason}") from None

    @staticmethod
    def _row_of(offset: NDArray[np.int32], length: NDArray[np.int32], first: int, at: int) -> int:
        """The value from ``first`` on that byte ``at`` belongs to."""
        inside = (offset[first:] <= at) & (at <= offset[first:] + length[first:])
        return first + int(np.argmax(inside))

    def finish(self) -> pa.Array:
        """See ColumnBuilder."""
        r = self._ranges
        return range_text(
            r.bound.arrow, r.column, self._bounds.finish(), self._kind.take(), self._count.take(), self._flags.take(),
            self._bounds_of.take(), r.multi,
        )  # fmt: skip


def text(use: TypeUse, codecs: Codecs) -> Codec:
    """What range_out or multirange_out prints: a range's own form is its text."""
    whole = use.type.range if use.type.kind == "m" else use.type
    subtype = whole.subtype if whole is not None else None
    if subtype is None:
        raise TableRefused(f'column "{use.column}": what the range type {use.type_name} is made of is not known')
    bound = codecs.text(replace(use, type=subtype, typmod=-1, type_name=subtype.name, dimensions=0))
    ranges = _Ranges(use.type, subtype, bound, use.column)
    return Codec(bound.arrow, lambda: RangeTextColumn(ranges))


CONTAINERS: dict[str, ContainerMaker] = {"r": text, "m": text}
"""By PgType.kind."""
