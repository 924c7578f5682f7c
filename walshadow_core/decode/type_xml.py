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

START, VERSION, ENCODING, STANDALONE, EQUALS, YES, NO, DEFAULT, END, SAY_VERSION, SAY_YES, SAY_NO = range(12)
UNSAID: Final = -1
"""Of the standalone property, as YES and NO."""
_WORDS = np.array(
    [
        list(word.ljust(17, b"\0"))
        for word in (
            b"<?xml", b"version", b"encoding", b"standalone", b"=", b"yes", b"no", b"1.0", b"?>", b'<?xml version="',
            b' standalone="yes"', b' standalone="no"',
        )
    ],
    np.uint8,
)  # fmt: skip
PRINTED: Final = 48
"""Bytes that a printed declaration takes at most, beside its version."""

_IS_SPACE = np.zeros(256, np.uint8)
_IS_SPACE[list(b" \t\n\r")] = 1
_QUOTE, _APOSTROPHE, _NEWLINE = b"\"'\n"


@kernel
def _skip_word(buf: Bytes, at: int, end: int, word: Bytes) -> int:
    """Past a word of _WORDS; -1 if it is not there, or ``at`` is."""
    if at < 0:
        return -1
    for letter in word:
        if letter == 0:
            break
        if at >= end or buf[np.uint64(at)] != letter:
            return -1
        at += 1
    return at


@kernel
def _skip_spaces(buf: Bytes, at: int, end: int) -> int:
    while 0 <= at < end and _IS_SPACE[buf[np.uint64(at)]]:
        at += 1
    return at


@kernel
def _declaration(buf: Bytes, start: int, end: int) -> tuple[int, int, int, int]:
    """(end of the declaration, start and end of its version, standalone).

    The end is ``start`` if there is none, or none that can be parsed.
    """
    nothing = start, start, start, UNSAID
    after = _skip_word(buf, start, end, _WORDS[START])
    version = version_end = 0
    standalone = UNSAID
    for word in range(VERSION, STANDALONE + 1):
        at = _skip_spaces(buf, after, end)
        name = _skip_word(buf, at, end, _WORDS[word])
        if name < 0:
            if word == VERSION:
                return nothing
            continue
        quote = _skip_spaces(buf, _skip_word(buf, _skip_spaces(buf, name, end), end, _WORDS[EQUALS]), end)
        if at == after or not 0 <= quote < end:
            return nothing
        mark = buf[np.uint64(quote)]
        if mark != _QUOTE and mark != _APOSTROPHE:
            return nothing
        stop = quote + 1
        while stop < end and buf[np.uint64(stop)] != mark:
            stop += 1
        if stop == end:
            return nothing
        if word == VERSION:
            version, version_end = quote + 1, stop
        elif word == STANDALONE:
            if _skip_word(buf, quote + 1, stop, _WORDS[YES]) == stop:
                standalone = YES
            elif _skip_word(buf, quote + 1, stop, _WORDS[NO]) == stop:
                standalone = NO
            else:
                return nothing
        after = stop + 1
    at = _skip_word(buf, _skip_spaces(buf, after, end), end, _WORDS[END])
    for k in range(start, at):
        if buf[np.uint64(k)] > 127:
            return nothing
    return (at, version, version_end, standalone) if at >= 0 else nothing


@kernel
def _put_word(word: Bytes, out: Bytes, to: int) -> int:
    for letter in word:
        if letter == 0:
            break
        out[to] = letter
        to += 1
    return to


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
            count = int(np.int64(length[i]))
            if used + PRINTED + count > room:
                return NO_ROOM, i, used
            at = int(np.int64(offset[i]))
            end = at + count
            body, version, version_end, standalone = _declaration(buf, at, end)
            default = _skip_word(buf, version, version_end, _WORDS[DEFAULT]) == version_end
            if body > at and (not default or standalone != UNSAID):
                used = _put_word(_WORDS[SAY_VERSION], data, used)
                copy_bytes(buf, version, version_end - version, data, used)
                used += version_end - version
                data[used] = _QUOTE
                used += 1
                if standalone != UNSAID:
                    used = _put_word(_WORDS[standalone - YES + SAY_YES], data, used)
                used = _put_word(_WORDS[END], data, used)
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
