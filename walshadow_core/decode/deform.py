"""Tuples to attribute positions: one pass over all attributes of every tuple.

What a tuple's data looks like is said by ``access/htup_details.h`` (null bitmap, natts), ``access/tupmacs.h``
(alignment, measured from the start of the tuple's data) and ``varatt.h`` (varlena headers, little-endian).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Attribute, Bytes, FormatError, RelationDescriptor
from walshadow_core.pgformat.heap import TupleData
from walshadow_core.pgformat.jit import kernel, leaf
from walshadow_core.pgformat.varlena import (
    COMPRESSED_BIT,
    COMPRESSED_HEADER_SIZE,
    EXTERNAL_MARKER,
    EXTERNAL_SIZE,
    HEADER_SIZE,
    SHORT_BIT,
    TAG_ONDISK,
)

KIND_NULL: Final = 0
KIND_VALUE: Final = 1
KIND_COMPRESSED: Final = 2
KIND_EXTERNAL: Final = 3
"""What an attribute of a tuple is (uint8)."""

VARLENA: Final = -1
CSTRING: Final = -2
"""attlen of types without a fixed width."""

ALIGNMENTS: Final = {"c": 1, "s": 2, "i": 4, "d": 8}

GROUP: Final = 512
"""Tuples that are deformed attribute by attribute at a time: their bytes stay in the CPU's first caches."""

OUTSIDE: Final = 1
TOO_MANY: Final = 2
PAST_END: Final = 3
BAD_LENGTH: Final = 4
BAD_TAG: Final = 5
REASONS: Final = {
    OUTSIDE: "the tuple lies outside of its buffer",
    TOO_MANY: "the tuple has more attributes than the table",
    PAST_END: "an attribute runs past the end of the tuple",
    BAD_LENGTH: "an attribute has an impossible length",
    BAD_TAG: "an attribute is an out-of-line pointer of an unknown sort",
}
"""Why a tuple is bad, by the code that the kernel leaves."""


@kernel
def _start_tuples(
    a: int,
    b: int,
    buf: Bytes,
    m: int,
    data_start: NDArray[np.int32],
    bitmap_start: NDArray[np.int32],
    natts: NDArray[np.int32],
    has_nulls: NDArray[np.uint8],
    end: NDArray[np.int32],
    position: NDArray[np.int32],
    reason: NDArray[np.uint8],
    common: NDArray[np.uint8],
) -> None:
    """Check where tuples [a, b) lie, and leave in ``common`` (a bitmap of the m attributes) which attributes
    have a value in all of them."""
    common[:] = 255
    for i in range(a, b):
        base = int(data_start[i])
        bits = int(bitmap_start[i])
        stop = int(end[i])
        count = int(natts[i])
        nulls = has_nulls[i] != 0
        wrong = 0
        outside = base < 0 or count < 0 or base > stop or stop > buf.size
        if outside or (nulls and (bits < 0 or bits + ((count + 7) >> 3) > stop)):
            wrong = OUTSIDE
        elif count > m:
            wrong = TOO_MANY
        position[i] = 0
        reason[i] = wrong
        if wrong != 0 or count < m:
            common[:] = 0
        elif nulls:
            for k in range(common.size):
                common[k] &= buf[np.uint64(bits + k)]


@leaf
def _aligned(at: int, base: int, align: int) -> int:
    return base + ((at - base + (align - 1)) & -align)


@leaf
def _fixed(at: int, base: int, stop: int, width: int, align: int) -> tuple[int, int, int, int, int]:
    """Where the attribute of that width at or after ``at`` is: (first byte, bytes, kind, what follows, reason)."""
    first = _aligned(at, base, align)
    return first, width, KIND_VALUE, first + width, (PAST_END if first + width > stop else 0)


@leaf
def _varlena(buf: Bytes, at: int, base: int, stop: int, align: int) -> tuple[int, int, int, int, int]:
    """The same for a varlena."""
    if at >= stop:
        return at, 0, KIND_NULL, at, PAST_END
    header = int(np.int64(buf[np.uint64(at)]))
    if header & SHORT_BIT:
        if header != EXTERNAL_MARKER:
            after = at + (header >> 1)
            return at + 1, (header >> 1) - 1, KIND_VALUE, after, (PAST_END if after > stop else 0)
        after = at + EXTERNAL_SIZE
        if after > stop:
            return at, 0, KIND_NULL, at, PAST_END
        wrong = 0 if buf[np.uint64(at + 1)] == TAG_ONDISK else BAD_TAG
        return at, EXTERNAL_SIZE, KIND_EXTERNAL, after, wrong
    if header == 0:
        # Pad bytes are zero, and the first byte of a header that stands unaligned never is.
        at = _aligned(at, base, align)
    if at + HEADER_SIZE > stop:
        return at, 0, KIND_NULL, at, PAST_END
    first = np.uint64(at)
    word = (
        np.uint32(buf[first])
        | (np.uint32(buf[first + np.uint64(1)]) << np.uint32(8))
        | (np.uint32(buf[first + np.uint64(2)]) << np.uint32(16))
        | (np.uint32(buf[first + np.uint64(3)]) << np.uint32(24))
    )
    header = int(np.int64(word))
    total = header >> 2
    after = at + total
    wrong = PAST_END if after > stop else 0
    if header & 3 == 0:
        return at + HEADER_SIZE, total - HEADER_SIZE, KIND_VALUE, after, (wrong if total >= HEADER_SIZE else BAD_LENGTH)
    if header & 3 == COMPRESSED_BIT:
        return at, total, KIND_COMPRESSED, after, (wrong if total >= COMPRESSED_HEADER_SIZE else BAD_LENGTH)
    return at, 0, KIND_NULL, at, BAD_LENGTH


@leaf
def _cstring(buf: Bytes, at: int, base: int, stop: int, align: int) -> tuple[int, int, int, int, int]:
    """The same for a C string; its NUL is not counted."""
    first = _aligned(at, base, align)
    after = first
    while after < stop and buf[np.uint64(after)] != 0:
        after += 1
    return first, after - first, KIND_VALUE, after + 1, (PAST_END if after >= stop else 0)


@leaf
def datum_at(buf: Bytes, at: int, base: int, stop: int, attlen: int, align: int) -> tuple[int, int, int, int, int]:
    """The same for a datum of any attlen: where the next one is that stands at or after ``at``, aligned from ``base``
    and not past ``stop``. The caller has checked that base <= at, and that stop lies in ``buf``."""
    if attlen == VARLENA:
        return _varlena(buf, at, base, stop, align)
    if attlen == CSTRING:
        return _cstring(buf, at, base, stop, align)
    return _fixed(at, base, stop, attlen, align)


@kernel
def _fixed_of_all(
    a: int,
    b: int,
    width: int,
    align: int,
    data_start: NDArray[np.int32],
    end: NDArray[np.int32],
    position: NDArray[np.int32],
    reason: NDArray[np.uint8],
    live: bool,
    offset: NDArray[np.int32],
    length: NDArray[np.int32],
    kind: NDArray[np.uint8],
) -> bool:
    """Step over an attribute of that width, which has a value in all tuples [a, b); False if one turned bad."""
    past = False
    for i in range(np.uint64(a), np.uint64(b)):
        first = (position[i] + (align - 1)) & -align
        position[i] = first + width
        past |= data_start[i] + first + width > end[i]
        if live:
            offset[i] = data_start[i] + first
            length[i] = width
            kind[i] = KIND_VALUE
    if past:
        for i in range(a, b):
            if data_start[i] + position[i] > end[i]:
                reason[i] = PAST_END
    return not past


@kernel
def _varlena_of_all(
    a: int,
    b: int,
    buf: Bytes,
    align: int,
    data_start: NDArray[np.int32],
    end: NDArray[np.int32],
    position: NDArray[np.int32],
    reason: NDArray[np.uint8],
    live: bool,
    offset: NDArray[np.int32],
    length: NDArray[np.int32],
    kind: NDArray[np.uint8],
) -> bool:
    """The same for a varlena."""
    good = True
    for i in range(np.uint64(a), np.uint64(b)):
        base = int(data_start[i])
        first, width, found, after, wrong = _varlena(buf, base + position[i], base, int(end[i]), align)
        position[i] = after - base
        if live:
            offset[i] = first
            length[i] = width
            kind[i] = found
        if wrong != 0:
            reason[i] = wrong
            good = False
    return good


@kernel
def _attribute_of_each(
    a: int,
    b: int,
    j: int,
    buf: Bytes,
    attlen: int,
    align: int,
    data_start: NDArray[np.int32],
    bitmap_start: NDArray[np.int32],
    natts: NDArray[np.int32],
    has_nulls: NDArray[np.uint8],
    end: NDArray[np.int32],
    position: NDArray[np.int32],
    reason: NDArray[np.uint8],
    missing_start: int,
    missing_length: int,
    live: bool,
    offset: NDArray[np.int32],
    length: NDArray[np.int32],
    kind: NDArray[np.uint8],
) -> bool:
    """Step over attribute j of any sort: tuple by tuple it may be there, NULL or missing, and bad ones are left out."""
    good = True
    for i in range(np.uint64(a), np.uint64(b)):
        if reason[i] != 0:
            continue
        first = width = wrong = 0
        found = KIND_NULL
        if j >= natts[i]:
            if missing_length >= 0:
                first = missing_start
                width = missing_length
                found = KIND_VALUE
        elif has_nulls[i] == 0 or (buf[np.uint64(bitmap_start[i] + (j >> 3))] >> np.uint8(j & 7)) & 1 != 0:
            base = int(data_start[i])
            first, width, found, after, wrong = datum_at(buf, base + position[i], base, int(end[i]), attlen, align)
            position[i] = after - base
        if wrong != 0:
            reason[i] = wrong
            good = False
        elif live:
            offset[i] = first
            length[i] = width
            kind[i] = found
    return good


@kernel
def deform_tuples(
    buf: Bytes,
    data_start: NDArray[np.int32],
    bitmap_start: NDArray[np.int32],
    natts: NDArray[np.int32],
    has_nulls: NDArray[np.uint8],
    end: NDArray[np.int32],
    attlen: NDArray[np.int32],
    align: NDArray[np.int32],
    column: NDArray[np.int32],
    missing: NDArray[np.int32],
    missing_base: int,
    offset: NDArray[np.int32],
    length: NDArray[np.int32],
    kind: NDArray[np.uint8],
    position: NDArray[np.int32],
    common: NDArray[np.uint8],
    bad: NDArray[np.int32],
    reason: NDArray[np.uint8],
) -> int:
    """Positions of n tuples' attributes; gives the count of bad tuples.

    ``attlen``, ``align``, ``column`` (output column or -1) are int32[m], one per physical attribute; ``missing`` is
    int32[m, 2], where in the missing values' bytes (which begin at ``missing_base``) and how long, length -1: NULL.
    ``offset``, ``length``, ``kind`` are [columns, n or more]; ``position`` (int32[n], from the data's start) and
    ``common`` (uint8[(m + 7) / 8]) are scratch. ``bad`` and ``reason`` get index and REASONS code of the bad tuples,
    whose columns are NULL.

    It goes attribute by attribute over a group of tuples that fits in the CPU's first cache: the tuples of one
    group don't wait for each other, while the attributes of one tuple do.
    """
    n = data_start.size
    m = attlen.size
    for a in range(0, n, GROUP):
        b = min(a + GROUP, n)
        _start_tuples(a, b, buf, m, data_start, bitmap_start, natts, has_nulls, end, position, reason, common)
        good = True
        for j in range(m):
            live = column[j] >= 0
            c = max(column[j], 0)
            width = int(attlen[j])
            step = int(align[j])
            if not good or width == CSTRING or (common[j >> 3] >> np.uint8(j & 7)) & 1 == 0:
                good &= _attribute_of_each(
                    a, b, j, buf, width, step, data_start, bitmap_start, natts, has_nulls, end, position, reason,
                    missing_base + missing[j, 0], int(missing[j, 1]), live, offset[c], length[c], kind[c],
                )  # fmt: skip
            elif width == VARLENA:
                good = _varlena_of_all(
                    a, b, buf, step, data_start, end, position, reason, live, offset[c], length[c], kind[c]
                )
            else:
                good = _fixed_of_all(
                    a, b, width, step, data_start, end, position, reason, live, offset[c], length[c], kind[c]
                )
    bads = 0
    for i in range(n):
        if reason[i] != 0:
            offset[:, i] = 0
            length[:, i] = 0
            kind[:, i] = KIND_NULL
            bad[bads] = i
            reason[bads] = reason[i]
            bads += 1
    return bads


@dataclass(frozen=True)
class TuplePlan:
    """The physical attributes of a relation, as the kernel wants them: see deform_tuples for the arrays.

    ``missing`` points into ``missing_bytes``; ``columns`` is the count of output columns.
    """

    attlen: NDArray[np.int32]
    align: NDArray[np.int32]
    column: NDArray[np.int32]
    missing: NDArray[np.int32]
    missing_bytes: Bytes
    columns: int

    @classmethod
    def of(cls, relation: RelationDescriptor) -> TuplePlan:
        """The plan that gives ``relation.columns`` in order. A dropped attribute keeps its place in the tuple; a
        virtual one has an attribute number and a null bit, and no bytes. Raises FormatError for a missing value
        that does not have its type's width."""
        return cls.of_attributes(relation.attributes, relation.columns, relation.qualified_name)

    @classmethod
    def of_attributes(cls, attributes: Sequence[Attribute], columns: Sequence[Attribute], name: str) -> TuplePlan:
        """The same for the tuples of anything; ``name`` is for errors."""
        output = {a.number: c for c, a in enumerate(columns)}
        missing = np.full((len(attributes), 2), -1, np.int32)
        pieces = bytearray()
        for j, a in enumerate(attributes):
            if a.missing is not None and a.number in output:
                if a.length >= 0 and len(a.missing) != a.length:
                    raise FormatError(
                        f'{name}: the missing value of column "{a.name}" has {len(a.missing)} bytes, not {a.length}'
                    )
                missing[j] = len(pieces), len(a.missing)
                pieces += a.missing
        virtual = [a.generated == "v" for a in attributes]
        return cls(
            attlen=np.array([0 if v else a.length for a, v in zip(attributes, virtual, strict=True)], np.int32),
            align=np.array([ALIGNMENTS[a.alignment] for a in attributes], np.int32),
            column=np.array([output.get(a.number, -1) for a in attributes], np.int32),
            missing=missing,
            missing_bytes=np.frombuffer(pieces, np.uint8),
            columns=len(output),
        )

    def with_missing(self, buf: Bytes, data: TupleData) -> Bytes:
        """``buf`` itself, or if a tuple is so short that it may need a missing value, a copy with ``missing_bytes``
        after it."""
        if not self.missing_bytes.size or not len(data) or data.natts.min() >= self.attlen.size:
            return buf
        return np.concatenate((buf, self.missing_bytes))


class DeformScratch:
    """Room for the positions of up to ``rows`` tuples of a plan, used again and again: also for plans of as many
    columns that have no more attributes.

    A row of the arrays is a little longer than a power of two, so that the same tuple's entries in different
    columns don't fall into the same set of the CPU's cache.
    """

    def __init__(self, plan: TuplePlan, rows: int) -> None:
        self.rows = rows
        shape = max(1, plan.columns), ((rows + 15) & ~15) + 16
        self.offset: NDArray[np.int32] = np.empty(shape, np.int32)
        self.length: NDArray[np.int32] = np.empty(shape, np.int32)
        self.kind: NDArray[np.uint8] = np.empty(shape, np.uint8)
        self.position: NDArray[np.int32] = np.empty(rows, np.int32)
        self.common: NDArray[np.uint8] = np.empty((plan.attlen.size + 7) >> 3, np.uint8)
        self.bad: NDArray[np.int32] = np.empty(rows, np.int32)
        self.reason: NDArray[np.uint8] = np.empty(rows, np.uint8)


@dataclass(frozen=True, slots=True)
class Deformed:
    """Where the columns of n tuples are: views on a DeformScratch, valid until it is used again.

    ``offset`` and ``length`` (int32[columns, n]) count in ``buf``: first data byte and data bytes of a KIND_VALUE,
    the varlena header and the whole datum of KIND_COMPRESSED and KIND_EXTERNAL, zeros for KIND_NULL. ``kind`` is
    uint8[columns, n]. ``bad`` (int32[k], ascending) are the tuples that don't fit the plan, NULL in all columns;
    ``reason`` (uint8[k]) says why, see REASONS.
    """

    buf: Bytes
    offset: NDArray[np.int32]
    length: NDArray[np.int32]
    kind: NDArray[np.uint8]
    bad: NDArray[np.int32]
    reason: NDArray[np.uint8]


def deform(
    buf: Bytes, data: TupleData, plan: TuplePlan, out: DeformScratch, first: int = 0, count: int | None = None
) -> Deformed:
    """Positions of the columns of tuples ``[first, first + count)``, all by default; at most ``out.rows``.

    ``buf`` is what ``plan.with_missing`` gave for these tuples. Raises nothing for bad tuples: see Deformed.
    """
    n = len(data) - first if count is None else count
    if n > out.rows:
        raise ValueError(f"{n} tuples for a scratch of {out.rows}")
    part = slice(first, first + n)
    bads = deform_tuples(
        buf, data.data_start[part], data.bitmap_start[part], data.natts[part], data.has_nulls[part], data.end[part],
        plan.attlen, plan.align, plan.column, plan.missing, buf.size - plan.missing_bytes.size, out.offset, out.length,
        out.kind, out.position, out.common[: (plan.attlen.size + 7) >> 3], out.bad, out.reason,
    )  # fmt: skip
    return Deformed(buf, out.offset[:, :n], out.length[:, :n], out.kind[:, :n], out.bad[:bads], out.reason[:bads])
