"""Text and bytes: text, varchar, bpchar, json, name, bytea.

Text is stored in the database's encoding and leaves as UTF-8. A block's bytes are gathered as they are, and
checked or transcoded when it is finished.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from walshadow_core.api import Bytes, FormatError, TableRefused
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.columns import (
    DONE,
    NO_ROOM,
    SLACK,
    Codec,
    CodecMaker,
    DecodeOptions,
    TypeUse,
    VarColumn,
    VarFill,
    copy_value,
    load64,
)
from walshadow_core.decode.deform import KIND_VALUE
from walshadow_core.decode.encodings import InvalidText, refuse_encoding, transcode
from walshadow_core.pgformat.jit import kernel


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
        copy_value(buf, int(offset[i]), count, data, used)
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
            copy_value(buf, start, count, data, used)
        used += count
        offsets[row + i + 1] = used
    return DONE, kind.size, used


@kernel
def plain_text(text: Bytes) -> bool:
    """Whether all of it is ASCII without a zero byte: the same in every encoding, and valid in each."""
    ones, high = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
    found = np.uint64(0)
    at = np.uint64(0)
    # One less than a byte with its high bit set keeps that bit, unless the byte was zero (or 0x80).
    for _ in range(np.uint64(text.size >> 3)):
        word = load64(text, at)
        found |= word | ~((word | high) - ones)
        at += np.uint64(8)
    for i in range(at, np.uint64(text.size)):
        if text[i] == 0:
            return False
        found |= np.uint64(text[i])
    return bool(found & high == np.uint64(0))


class TextColumn(VarColumn):
    """Builder of UTF-8 strings out of text in the database's encoding."""

    def __init__(self, name: str, encoding: str, options: DecodeOptions, fill: VarFill, *, reason: str = "") -> None:
        super().__init__(pa.string(), fill, reason=reason)
        self._name = name
        self._encoding = encoding
        self._policy = options.invalid_text
        self._plain = True

    def append(self, buf: Bytes, offset: NDArray[np.int32], length: NDArray[np.int32], kind: NDArray[np.uint8]) -> None:
        """See ColumnBuilder."""
        before = self._used
        super().append(buf, offset, length, kind)
        # Now, while the bytes are in the CPU's cache.
        self._plain = self._plain and plain_text(self._data[before : self._used])

    def finish(self) -> pa.Array:
        """See ColumnBuilder. Raises FormatError naming the column if text is invalid and the policy is ``error``."""
        rows, offsets, data, bitmap, nulls = self.take()
        plain, self._plain = self._plain, True
        if not plain:
            try:
                data, offsets = transcode(data, offsets, self._encoding, self._policy)
            except InvalidText as error:
                raise FormatError(f'column "{self._name}": {error.message}', error.remedy) from None
        return pa.Array.from_buffers(pa.string(), rows, [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)], nulls)


def text_maker(fill: VarFill) -> CodecMaker:
    """The maker of a type whose values ``fill`` gives as text in the database's encoding."""

    def make(use: TypeUse) -> Codec:
        options = use.options
        reason = f"not a value of {use.type_name}"
        if options.invalid_text == "bytes":
            return Codec(pa.binary(), lambda: VarColumn(pa.binary(), fill, reason=reason))
        refused = refuse_encoding(use.encoding)
        if refused is not None:
            raise TableRefused(f'column "{use.column}": {refused.message}', refused.remedy)
        return Codec(pa.string(), lambda: TextColumn(use.column, use.encoding, options, fill, reason=reason))

    return make


def _make_bytea(use: TypeUse) -> Codec:
    return Codec(pa.binary(), lambda: VarColumn(pa.binary(), take_bytes))


CODECS: Mapping[int, CodecMaker] = {
    oid.TEXT: text_maker(take_bytes),
    oid.VARCHAR: text_maker(take_bytes),
    oid.BPCHAR: text_maker(take_bytes),
    oid.JSON: text_maker(take_bytes),
    oid.NAME: text_maker(take_names),
    oid.BYTEA: _make_bytea,
}
"""This family's types, by oid."""

EXTENSION_CODECS: Mapping[str, CodecMaker] = {"citext": CODECS[oid.TEXT]}
"""The same, by name."""
