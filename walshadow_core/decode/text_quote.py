"""A kernel that writes a string between quotes, as hstore_out, tsvectorout and tsqueryout do."""

from __future__ import annotations

from typing import Final

import numpy as np

from walshadow_core.api import Bytes
from walshadow_core.decode.columns import load64, store64
from walshadow_core.pgformat.jit import leaf

ROOM: Final = 32
"""Bytes that every step has ahead of it: eight doubled bytes, and punctuation."""

DOUBLE_QUOTE, SINGLE_QUOTE, BACKSLASH = b"\"'\\"

_EACH = np.uint64(0x0101010101010101)
_LOW = np.uint64(0x7F7F7F7F7F7F7F7F)
_HIGH = np.uint64(0x8080808080808080)
_BACKSLASHES = np.uint64(0x5C5C5C5C5C5C5C5C)
_EIGHT = np.uint64(8)


@leaf
def put_quoted(buf: Bytes, at: int, stop: int, quote: int, mark: int, data: Bytes, to: int) -> int:
    """Write buf[at:stop] to ``data[to:]`` between ``quote``; before a quote inside comes ``mark``, and a backslash is
    doubled. Gives the end, or -1 if there is no room.

    The caller has checked that the range lies in ``buf`` and that ROOM bytes are left in ``data``; at least ROOM - 18
    of them are left afterwards. The bytes may be of any encoding of a server: in all of them a byte below 0x80 is
    ASCII.
    """
    room = data.size - ROOM
    quotes = _EACH * np.uint64(quote)
    data[np.uint64(to)] = quote
    to += 1
    while at < stop:
        if to > room:
            return -1
        many = min(8, stop - at)
        if at + 8 <= buf.size:
            word = load64(buf, np.uint64(at))
            # The high bit of every byte that is neither; sums carry over no byte.
            other = word ^ quotes
            plain = ((other & _LOW) + _LOW) | other
            other = word ^ _BACKSLASHES
            plain &= ((other & _LOW) + _LOW) | other
            if (~plain & _HIGH) << (_EIGHT * np.uint64(8 - many)) == np.uint64(0):
                store64(data, np.uint64(to), word)
                at += many
                to += many
                continue
        for k in range(at, at + many):
            byte = buf[np.uint64(k)]
            before = mark if byte == quote else BACKSLASH if byte == BACKSLASH else 0
            if before != 0:
                data[np.uint64(to)] = before
                to += 1
            data[np.uint64(to)] = byte
            to += 1
        at += many
    data[np.uint64(to)] = quote
    return to + 1
