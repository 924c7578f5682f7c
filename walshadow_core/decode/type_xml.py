"""xml as xml_out prints it (``utils/adt/xml.c``): text, but for the declaration at its start.

The declaration is printed anew, without its encoding, and only if the version is not 1.0 or there is a
standalone property; if it is left out, so is one newline at its end. One that is not as it should be stays as it
is stored. A cast to text gives the text as it is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.columns import DONE, NO_ROOM, CodecMaker, copy_bytes
from walshadow_core.decode.deform import KIND_VALUE
from walshadow_core.decode.type_text import CODECS as TEXT_CODECS
from walshadow_core.decode.type_text import text_maker
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.words import SLACK

YES, NO, UNSAID = 1, 0, -1
"""The standalone property."""
PRINTED: Final = 48
"""Bytes that a printed declaration takes at most, beside its version."""

_SPACES = np.frombuffer(b" \t\n\r", np.uint8)
_START = np.frombuffer(b"<?xml", np.uint8)
_VERSION = np.frombuffer(b"version", np.uint8)
_ENCODING = np.frombuffer(b"encoding", np.uint8)
_STANDALONE = np.frombuffer(b"standalone", np.uint8)
_YES = np.frombuffer(b"yes", np.uint8)
_NO = np.frombuffer(b"no", np.uint8)
_END = np.frombuffer(b"?>", np.uint8)
_DEFAULT = np.frombuffer(b"1.0", np.uint8)
_PRINT_VERSION = np.frombuffer(b'<?xml version="', np.uint8)
_PRINT_YES = np.frombuffer(b' standalone="yes"', np.uint8)
_PRINT_NO = np.frombuffer(b' standalone="no"', np.uint8)
_EQUALS, _QUOTE, _APOSTROPHE, _NEWLINE = b"=\"'\n"


@kernel
def _starts_with(buf: Bytes, at: int, end: int, word: Bytes) -> bool:
    k = 0
    while k < word.size and at + k < end and buf[np.uint64(at + k)] == word[k]:
        k += 1
    return k == word.size


@kernel
def _skip_spaces(buf: Bytes, at: int, end: int) -> int:
    while at < end:
        byte = buf[np.uint64(at)]
        if byte != _SPACES[0] and byte != _SPACES[1] and byte != _SPACES[2] and byte != _SPACES[3]:
            break
        at += 1
    return at


@kernel
def _skip_equals(buf: Bytes, at: int, end: int) -> int:
    """Past ``=`` and the spaces around it; -1 if there is none."""
    at = _skip_spaces(buf, at, end)
    if at >= end or buf[np.uint64(at)] != _EQUALS:
        return -1
    return _skip_spaces(buf, at + 1, end)


@kernel
def _end_quote(buf: Bytes, at: int, end: int) -> int:
    """Where the quotation that starts at ``at`` has its second quote; -1 if there is no quotation."""
    if at < 0 or at >= end:
        return -1
    quote = buf[np.uint64(at)]
    if quote != _QUOTE and quote != _APOSTROPHE:
        return -1
    at += 1
    while at < end:
        if buf[np.uint64(at)] == quote:
            return at
        at += 1
    return -1


@kernel
def _declaration(buf: Bytes, start: int, end: int) -> tuple[int, int, int, int]:
    """(end of the declaration, start and end of its version, standalone).

    The end is ``start`` if there is none, or none that can be parsed.
    """
    nothing = start, start, start, UNSAID
    if not _starts_with(buf, start, end, _START):
        return nothing
    after = start + _START.size
    at = _skip_spaces(buf, after, end)
    if at == after or not _starts_with(buf, at, end, _VERSION):
        return nothing
    version = _skip_equals(buf, at + _VERSION.size, end)
    version_end = _end_quote(buf, version, end)
    if version_end < 0:
        return nothing
    after = version_end + 1
    at = _skip_spaces(buf, after, end)
    if _starts_with(buf, at, end, _ENCODING):
        quote = _end_quote(buf, _skip_equals(buf, at + _ENCODING.size, end), end)
        if at == after or quote < 0:
            return nothing
        after = quote + 1
        at = _skip_spaces(buf, after, end)
    standalone = UNSAID
    if _starts_with(buf, at, end, _STANDALONE):
        value = _skip_equals(buf, at + _STANDALONE.size, end)
        quote = _end_quote(buf, value, end)
        if at == after or quote < 0:
            return nothing
        if quote == value + 1 + _YES.size and _starts_with(buf, value + 1, quote, _YES):
            standalone = YES
        elif quote == value + 1 + _NO.size and _starts_with(buf, value + 1, quote, _NO):
            standalone = NO
        else:
            return nothing
        at = _skip_spaces(buf, quote + 1, end)
    if not _starts_with(buf, at, end, _END):
        return nothing
    at += _END.size
    for k in range(start, at):
        if buf[np.uint64(k)] > 127:
            return nothing
    return at, version + 1, version_end, standalone


@kernel
def _put(word: Bytes, out: Bytes, to: int) -> int:
    for k in range(word.size):
        out[to + k] = word[k]
    return to + word.size


@kernel
def xml_to_text(
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
    """A columns.VarFill for xml."""
    room = data.size - SLACK
    for i in range(first, kind.size):
        if kind[i] == KIND_VALUE:
            count = int(length[i])
            if used + PRINTED + count > room:
                return NO_ROOM, i, used
            at = int(offset[i])
            end = at + count
            body, version, version_end, standalone = _declaration(buf, at, end)
            default = version_end - version == _DEFAULT.size and _starts_with(buf, version, version_end, _DEFAULT)
            if body > at and (not default or standalone != UNSAID):
                used = _put(_PRINT_VERSION, data, used)
                copy_bytes(buf, version, version_end - version, data, used)
                used += version_end - version
                data[used] = _QUOTE
                used += 1
                if standalone != UNSAID:
                    used = _put(_PRINT_YES if standalone == YES else _PRINT_NO, data, used)
                used = _put(_END, data, used)
            elif body < end and buf[np.uint64(body)] == _NEWLINE:
                body += 1
            copy_bytes(buf, body, end - body, data, used)
            used += end - body
        offsets[row + i + 1] = used
    return DONE, kind.size, used


CODECS: Mapping[int, CodecMaker] = {oid.XML: text_maker(xml_to_text)}
"""This family's types, by oid."""

CAST_TEXTS: Mapping[int, CodecMaker] = {oid.XML: TEXT_CODECS[oid.TEXT]}
"""Types that a cast to text prints otherwise."""
