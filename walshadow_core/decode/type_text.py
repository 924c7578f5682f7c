"""Text and bytes: text, varchar, bpchar, json, name, bytea.

Text is stored in the database's encoding and leaves as UTF-8. Every block is checked when it is finished, as a
whole and quickly if it is all ASCII.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from walshadow_core.api import Attribute, Bytes, FormatError
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.columns import (
    DONE,
    NO_ROOM,
    SLACK,
    Codec,
    CodecMaker,
    DecodeOptions,
    VarColumn,
    VarFill,
    load64,
    store64,
)
from walshadow_core.decode.deform import KIND_VALUE
from walshadow_core.pgformat.jit import kernel

UTF8_ENCODINGS: Final = frozenset({"UTF8", "SQL_ASCII"})
"""Database encodings whose text is taken as UTF-8. SQL_ASCII promises nothing, so all of it may be invalid."""


@kernel
def _append(buf: Bytes, first: int, count: int, data: Bytes, used: int) -> None:
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
def take_bytes(
    buf: Bytes,
    offset: NDArray[np.int32],
    length: NDArray[np.int32],
    kind: NDArray[np.uint8],
    first: int,
    offsets: NDArray[np.int32],
    data: Bytes,
    row: int,
    used: int,
) -> tuple[int, int, int]:
    """A VarFill for bytes as they are."""
    room = data.size - SLACK
    for i in range(first, kind.size):
        count = int(length[i]) if kind[i] == KIND_VALUE else 0
        if used + count > room:
            return NO_ROOM, i, used
        _append(buf, int(offset[i]), count, data, used)
        used += count
        offsets[row + i + 1] = used
    return DONE, kind.size, used


@kernel
def take_names(
    buf: Bytes,
    offset: NDArray[np.int32],
    length: NDArray[np.int32],
    kind: NDArray[np.uint8],
    first: int,
    offsets: NDArray[np.int32],
    data: Bytes,
    row: int,
    used: int,
) -> tuple[int, int, int]:
    """A VarFill for NameData: a C string in a field of fixed width, cut at its NUL."""
    room = data.size - SLACK
    for i in range(first, kind.size):
        count = 0
        if kind[i] == KIND_VALUE:
            start = int(offset[i])
            while count < length[i] and buf[np.uint64(start + count)] != 0:
                count += 1
            if used + count > room:
                return NO_ROOM, i, used
            _append(buf, start, count, data, used)
        used += count
        offsets[row + i + 1] = used
    return DONE, kind.size, used


@kernel
def _sequence(data: Bytes, at: int, stop: int) -> tuple[int, bool]:
    """The UTF-8 sequence at ``at``: (bytes, valid). Of an invalid one, the bytes that could have begun a valid one,
    at least one (Unicode's "maximal subpart", which Python replaces by one U+FFFD)."""
    lead = data[at]
    if lead < 0x80:
        return 1, True
    low, high = 0x80, 0xBF
    if 0xC2 <= lead <= 0xDF:
        need = 2
    elif 0xE0 <= lead <= 0xEF:
        need = 3
        if lead == 0xE0:
            low = 0xA0
        elif lead == 0xED:
            high = 0x9F
    elif 0xF0 <= lead <= 0xF4:
        need = 4
        if lead == 0xF0:
            low = 0x90
        elif lead == 0xF4:
            high = 0x8F
    else:
        return 1, False
    for k in range(1, need):
        if at + k >= stop or data[at + k] < low or data[at + k] > high:
            return k, False
        low, high = 0x80, 0xBF
    return need, True


@kernel
def first_invalid(data: Bytes, offsets: NDArray[np.int32]) -> int:
    """Index of the first value that is not valid UTF-8, or -1. Value i is ``data[offsets[i]:offsets[i + 1]]``."""
    for i in range(offsets.size - 1):
        at = int(offsets[i])
        stop = int(offsets[i + 1])
        while at < stop:
            size, valid = _sequence(data, at, stop)
            if not valid:
                return i
            at += size
    return -1


@kernel
def replace_invalid(
    data: Bytes, offsets: NDArray[np.int32], out: Bytes, out_offsets: NDArray[np.int32], room: int
) -> int:
    """Copy the values with U+FFFD for every invalid sequence; gives the bytes written, or -1 if ``out`` has no room.

    ``out`` has ``room`` bytes, ``out_offsets`` is int32[n + 1].
    """
    used = 0
    out_offsets[0] = 0
    for i in range(offsets.size - 1):
        at = int(offsets[i])
        stop = int(offsets[i + 1])
        while at < stop:
            size, valid = _sequence(data, at, stop)
            if used + max(size, 3) > room:
                return -1
            if valid:
                for k in range(size):
                    out[used + k] = data[at + k]
                used += size
            else:
                out[used] = 0xEF
                out[used + 1] = 0xBF
                out[used + 2] = 0xBD
                used += 3
            at += size
        out_offsets[i + 1] = used
    return used


def repaired(data: Bytes, offsets: NDArray[np.int32]) -> tuple[Bytes, NDArray[np.int32]]:
    """The values (data, offsets int32[n + 1]) with U+FFFD for every sequence that is not valid UTF-8."""
    room = 3 * data.size + 4
    out: Bytes = np.empty(room, np.uint8)
    out_offsets: NDArray[np.int32] = np.empty(offsets.size, np.int32)
    used = replace_invalid(data, offsets, out, out_offsets, room)
    return out[:used], out_offsets


class TextColumn(VarColumn):
    """Builder of UTF-8 strings out of text in the database's encoding."""

    def __init__(self, name: str, encoding: str, options: DecodeOptions, fill: VarFill) -> None:
        super().__init__(pa.string(), fill)
        self._name = name
        self._encoding = encoding
        self._policy = options.invalid_text

    def finish(self) -> pa.Array:
        """See ColumnBuilder. FormatError names the column if the text is invalid and the policy says ``error``."""
        rows, offsets, data, bitmap, nulls = self.take()
        if data.size and int(data.max()) >= 0x80:
            data, offsets = self._as_utf8(data, offsets)
        return pa.Array.from_buffers(pa.string(), rows, [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)], nulls)

    def _as_utf8(self, data: Bytes, offsets: NDArray[np.int32]) -> tuple[Bytes, NDArray[np.int32]]:
        if self._encoding not in UTF8_ENCODINGS:
            from walshadow_core.decode.encodings import transcode

            return transcode(data, offsets, self._encoding, self._policy)
        whole = pa.Array.from_buffers(
            pa.string(), offsets.size - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)], 0
        )
        try:
            whole.validate(full=True)
        except pa.ArrowInvalid:
            if self._policy == "replace":
                return repaired(data, offsets)
            bad = first_invalid(data, offsets)
            shown = data[offsets[bad] : offsets[bad + 1]].tobytes()[:60]
            raise FormatError(
                f'column "{self._name}" holds text that is not valid UTF-8: {shown!r}',
                "choose --invalid-text replace or --invalid-text bytes",
            ) from None
        return data, offsets


def _text(fill: VarFill) -> CodecMaker:
    def make(attribute: Attribute, encoding: str, options: DecodeOptions) -> Codec:
        if options.invalid_text == "bytes":
            return Codec(pa.binary(), lambda: VarColumn(pa.binary(), fill))
        return Codec(pa.string(), lambda: TextColumn(attribute.name, encoding, options, fill))

    return make


def _make_bytea(attribute: Attribute, encoding: str, options: DecodeOptions) -> Codec:
    return Codec(pa.binary(), lambda: VarColumn(pa.binary(), take_bytes))


CODECS: Mapping[int, CodecMaker] = {
    oid.TEXT: _text(take_bytes),
    oid.VARCHAR: _text(take_bytes),
    oid.BPCHAR: _text(take_bytes),
    oid.JSON: _text(take_bytes),
    oid.NAME: _text(take_names),
    oid.BYTEA: _make_bytea,
}
"""This family's types, by oid."""
