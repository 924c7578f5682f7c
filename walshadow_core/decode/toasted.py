"""Compressed and out-of-line values of a column, turned into plain ones in a buffer beside the tuples'.

The builders of columns know neither: before they see a stretch of tuples, a column that has such values gets a
buffer of its own, with all its values plain, one after the other (``varatt.h``, ``access/toast_compression.h``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import BadValue, Bytes
from walshadow_core.decode.deform import KIND_COMPRESSED, KIND_EXTERNAL, KIND_NULL, KIND_VALUE, Deformed
from walshadow_core.pgformat.heap import load32
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.lz4 import lz4_decompress
from walshadow_core.pgformat.pglz import pglz_decompress
from walshadow_core.pgformat.varlena import (
    COMPRESSED_HEADER_SIZE,
    EXTERNAL_HEADER_SIZE,
    EXTERNAL_SIZE,
    EXTSIZE_BITS,
    EXTSIZE_MASK,
    HEADER_SIZE,
    METHOD_LZ4,
    METHOD_PGLZ,
    VARATT_EXTERNAL,
)
from walshadow_core.pgformat.words import SLACK, copy_bytes, copy_words

METHOD_SIZE: Final = COMPRESSED_HEADER_SIZE - HEADER_SIZE
"""va_tcinfo, which stands before what is compressed, in line and out of line."""
_RAWSIZE_AT: Final = EXTERNAL_HEADER_SIZE
_EXTINFO_AT: Final = EXTERNAL_HEADER_SIZE + 4
_MOST: Final = 256
"""Neither method makes more bytes of one."""

_GOOD, _BAD_STREAM, _BAD_METHOD, _BAD_SIZE = 0, 1, 2, 3
_REASONS: Final = {
    _BAD_STREAM: "a compressed value does not decompress to its size",
    _BAD_METHOD: "a value is compressed by an unknown method",
    _BAD_SIZE: "the sizes of a compressed or out-of-line value contradict each other",
}


class MissingValue(Exception):
    """A value out of line is not there, or not as a whole. ``index`` is its place in what was asked for; ``reason``
    completes "TOAST value 123 …"."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index = index
        self.reason = reason


class BadToasted(BadValue):
    """The BadValue of a value that could not be made plain, with its column's number."""

    def __init__(self, column: int, row: int, reason: str) -> None:
        super().__init__(row, reason)
        self.column = column


class OutsideValues(Protocol):
    """Where the values of a table's TOAST relation can be had."""

    def fetch(self, ids: NDArray[np.uint32], sizes: NDArray[np.int64]) -> Bytes:
        """The stored bytes of the values ``ids`` (ascending, no two alike), one after the other; ``sizes`` says how
        many each has. Raises MissingValue for one that is not there as a whole, FormatError, WalshadowError."""
        ...


@kernel
def raw_sizes(
    buf: Bytes,
    offset: NDArray[np.int32],
    length: NDArray[np.int32],
    kind: NDArray[np.uint8],
    sizes: NDArray[np.int64],
) -> None:
    """Write to ``sizes`` int64[n] how many bytes each value of a column will have as a plain one, 0 for a NULL, and for
    what can't be right."""
    for i in range(kind.size):
        at = int(offset[i])
        raw = 0
        if kind[i] == KIND_VALUE:
            raw = int(length[i])
        elif kind[i] == KIND_COMPRESSED:
            raw = load32(buf, at + HEADER_SIZE) & EXTSIZE_MASK
            if raw > _MOST * int(length[i]):
                raw = 0
        elif kind[i] == KIND_EXTERNAL:
            raw = load32(buf, at + _RAWSIZE_AT) - HEADER_SIZE
            if raw < 0 or raw > _MOST * (load32(buf, at + _EXTINFO_AT) & EXTSIZE_MASK):
                raw = 0
        sizes[i] = raw


@kernel
def make_plain(
    buf: Bytes,
    outside: Bytes,
    offset: NDArray[np.int32],
    length: NDArray[np.int32],
    kind: NDArray[np.uint8],
    place: NDArray[np.int64],
    out: Bytes,
    out_offset: NDArray[np.int32],
    out_length: NDArray[np.int32],
    out_kind: NDArray[np.uint8],
) -> tuple[int, int]:
    """Write n values of a column to ``out``, one after the other: copied, decompressed, or both. ``place`` int64[n] is
    where in ``outside`` the bytes of an out-of-line value begin. Gives (status, the value that is bad or n)."""
    used = 0
    n = kind.size
    for i in range(n):
        out_offset[i] = used
        out_length[i] = 0
        out_kind[i] = KIND_NULL
        if kind[i] == KIND_NULL:
            continue
        at, size = int(offset[i]), int(length[i])
        inside = True
        plain = kind[i] == KIND_VALUE
        raw = size
        method = -1
        if kind[i] == KIND_EXTERNAL:
            inside = False
            raw = load32(buf, at + _RAWSIZE_AT) - HEADER_SIZE
            info = load32(buf, at + _EXTINFO_AT)
            size = info & EXTSIZE_MASK
            method = info >> EXTSIZE_BITS
            at = int(place[i])
            plain = size == raw
            if size > raw or at < 0 or at + size > outside.size:
                return _BAD_SIZE, i
        elif not plain:
            at += HEADER_SIZE
            size -= HEADER_SIZE
        if not plain:
            if size < METHOD_SIZE:
                return _BAD_SIZE, i
            info = load32(buf, at) if inside else load32(outside, at)
            if inside:
                raw = info & EXTSIZE_MASK
            elif raw != info & EXTSIZE_MASK or method != info >> EXTSIZE_BITS:
                return _BAD_SIZE, i
            method = info >> EXTSIZE_BITS
            at += METHOD_SIZE
            size -= METHOD_SIZE
        if raw < 0 or used + raw > out.size:
            return _BAD_SIZE, i
        source = buf if inside else outside
        if plain:
            if at + size + SLACK <= source.size and used + size + SLACK <= out.size:
                copy_words(source, np.uint64(at), out, np.uint64(used), np.uint64(size))
            else:
                copy_bytes(source, np.uint64(at), out, np.uint64(used), np.uint64(size))
        elif method == METHOD_PGLZ:
            if not pglz_decompress(source, at, size, out, used, raw):
                return _BAD_STREAM, i
        elif method == METHOD_LZ4:
            if not lz4_decompress(source, at, size, out, used, raw):
                return _BAD_STREAM, i
        else:
            return _BAD_METHOD, i
        out_length[i] = raw
        out_kind[i] = KIND_VALUE
        used += raw
    return _GOOD, n


Column = tuple[Bytes, NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8]]
"""(buf, offset, length, kind), as a ColumnBuilder takes them."""

_NOTHING: Final = np.empty(0, np.uint8)


class PlainColumns:
    """The columns of one stretch of tuples with all values plain, a few rows at a time.

    ``toast_oid`` is the oid of the table's TOAST relation, ``outside`` has its values (None: no row points there).
    """

    def __init__(
        self, deformed: Deformed, toast_oid: int, outside: OutsideValues | None, scratch: PlainScratch
    ) -> None:
        self._deformed = deformed
        self._toast_oid = toast_oid
        self._outside = outside
        self._scratch = scratch
        most = deformed.kind.max(axis=1)
        self._external = np.flatnonzero(most == KIND_EXTERNAL).tolist()
        self._sizes = {
            c: np.empty(deformed.kind.shape[1], np.int64) for c in np.flatnonzero(most > KIND_VALUE).tolist()
        }
        for c, sizes in self._sizes.items():
            raw_sizes(deformed.buf, deformed.offset[c], deformed.length[c], deformed.kind[c], sizes)

    def parts(self, limit: int) -> list[tuple[int, int]]:
        """The stretch as ranges of rows whose values have about ``limit`` bytes together, but of one row at least."""
        ends = np.cumsum(sum(self._sizes.values()))
        parts, first, before = [], 0, 0
        while first < len(ends):
            last = max(first + 1, int(np.searchsorted(ends, before + limit, "right")))
            parts.append((first, last))
            first, before = last, int(ends[last - 1])
        return parts

    def columns(self, first: int, last: int) -> Iterator[tuple[int, Column]]:
        """(number, column) of every column, for rows [first, last). A column is valid until the next one is asked for.
        Raises BadToasted, with a row of the range."""
        d, rows = self._deformed, slice(first, last)
        outside, places = self._fetch(first, last)
        for c in range(len(d.kind)):
            offset, length, kind = d.offset[c, rows], d.length[c, rows], d.kind[c, rows]
            if c not in self._sizes:
                yield c, (d.buf, offset, length, kind)
                continue
            out = self._scratch.take(int(self._sizes[c][rows].sum()) + SLACK, last - first)
            place = places.get(c, self._scratch.no_place[: last - first])
            status, row = make_plain(d.buf, outside, offset, length, kind, place, *out)
            if status != _GOOD:
                raise BadToasted(c, row, _REASONS[status])
            yield c, out

    def _fetch(self, first: int, last: int) -> tuple[Bytes, dict[int, NDArray[np.int64]]]:
        """(bytes of all out-of-line values of rows [first, last), where in them those of each column begin)."""
        kind = self._deformed.kind
        found = [(c, np.flatnonzero(kind[c, first:last] == KIND_EXTERNAL)) for c in self._external]
        column = np.repeat([c for c, _ in found], [len(rows) for _, rows in found])
        if not len(column):
            return _NOTHING, {}
        row = np.concatenate([rows for _, rows in found])
        pointers = self._pointers(column, row, first)
        ids, example, inverse = np.unique(pointers["valueid"], return_index=True, return_inverse=True)
        size = (pointers["extinfo"] & EXTSIZE_MASK).astype(np.int64)
        sizes = size[example]
        differs = np.flatnonzero(size != sizes[inverse])
        if len(differs):
            raise BadToasted(int(column[differs[0]]), int(row[differs[0]]), _REASONS[_BAD_SIZE])
        assert self._outside is not None
        try:
            outside = self._outside.fetch(ids, sizes)
        except MissingValue as error:
            k = int(example[error.index])
            reason = f"TOAST value {ids[error.index]} {error.reason}"
            raise BadToasted(int(column[k]), int(row[k]), reason) from None
        start = (np.cumsum(sizes) - sizes)[inverse]
        places = {}
        for c in self._external:
            places[c] = np.zeros(last - first, np.int64)
            places[c][row[column == c]] = start[column == c]
        return outside, places

    def _pointers(self, column: NDArray[np.int64], row: NDArray[np.int64], first: int) -> NDArray[np.void]:
        """The varatt_external of these values, checked; rows count from row ``first`` of the stretch."""
        d = self._deformed
        at = d.offset[column, first + row]
        data = d.buf[at[:, None] + np.arange(EXTERNAL_HEADER_SIZE, EXTERNAL_SIZE)]
        pointers = np.ascontiguousarray(data).view(VARATT_EXTERNAL).reshape(-1)
        size = (pointers["extinfo"] & EXTSIZE_MASK).astype(np.int64)
        bad_size = (size == 0) | (size > pointers["rawsize"].astype(np.int64) - HEADER_SIZE)
        elsewhere = pointers["toastrelid"] != self._toast_oid
        wrong = np.flatnonzero(bad_size | elsewhere | (self._outside is None))
        if len(wrong):
            k = int(wrong[0])
            reason = "a pointer to TOAST in a tuple whose header denies that it has one"
            if bad_size[k]:
                reason = _REASONS[_BAD_SIZE]
            elif elsewhere[k]:
                reason = (
                    f"TOAST value {pointers['valueid'][k]} should be in relation {pointers['toastrelid'][k]}, which "
                    f"is not the table's ({self._toast_oid})"
                )
            raise BadToasted(int(column[k]), int(row[k]), reason)
        return pointers


class PlainScratch:
    """Room for one plain column at a time, used again and again up to ``limit`` bytes."""

    def __init__(self, limit: int, rows: int) -> None:
        self._limit = limit
        self._out: Bytes = _NOTHING
        self._offset: NDArray[np.int32] = np.empty(rows, np.int32)
        self._length: NDArray[np.int32] = np.empty(rows, np.int32)
        self._kind: NDArray[np.uint8] = np.empty(rows, np.uint8)
        self.no_place: NDArray[np.int64] = np.zeros(rows, np.int64)

    def take(self, size: int, rows: int) -> Column:
        """Room for ``size`` bytes and as many rows."""
        out = self._out
        if size > len(out):
            out = np.empty(size, np.uint8)
            if size <= self._limit:
                self._out = out
        return out, self._offset[:rows], self._length[:rows], self._kind[:rows]
