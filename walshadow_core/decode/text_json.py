"""Kernels that write a value inside a JSON text: strings, numbers, words. jsonb and jsonpath are made of them."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.decode.columns import BAD_VALUE, DONE, load64, store64
from walshadow_core.decode.type_numeric import PLAIN_ROOM, put_numeric, put_plain_numeric
from walshadow_core.pgformat.heap import load32
from walshadow_core.pgformat.jit import kernel, leaf
from walshadow_core.pgformat.varlena import HEADER_SIZE, SHORT_BIT

ROOM: Final = 64
"""Bytes that every step has ahead of it in ``data``: eight escapes of six bytes, and punctuation."""

_QUOTE, _BACKSLASH, _SMALL_U, _ZERO, _SMALL_A = b'"\\u0a'
_SHORT_ESCAPES = np.zeros(256, np.uint8)
for _byte, _letter in zip(b'\b\f\n\r\t"\\', b'bfnrt"\\', strict=True):
    _SHORT_ESCAPES[_byte] = _letter
"""What follows the backslash of bytes that have a short escape."""

_LOW = np.uint64(0x7F7F7F7F7F7F7F7F)
_HIGH = np.uint64(0x8080808080808080)
_FROM_SPACE = np.uint64(0x6060606060606060)
_QUOTES = np.uint64(0x2222222222222222)
_BACKSLASHES = np.uint64(0x5C5C5C5C5C5C5C5C)
_EIGHT = np.uint64(8)


@leaf
def put_json_string(buf: Bytes, at: int, stop: int, data: Bytes, to: int) -> int:
    """Write buf[at:stop] to ``data[to:]`` as escape_json does, in quotes; gives the end, or -1 if there is no room.

    The caller has checked that the range lies in ``buf`` and that ROOM bytes are left in ``data``; at least
    ROOM - 50 of them are left afterwards. The bytes may be of any encoding of a server: in all of them a byte
    below 0x80 is ASCII.
    """
    room = data.size - ROOM
    data[np.uint64(to)] = _QUOTE
    to += 1
    while at < stop:
        if to > room:
            return -1
        many = min(8, stop - at)
        if at + 8 <= buf.size:
            word = load64(buf, np.uint64(at))
            # The high bit of every byte that is no control, no quote and no backslash; sums carry over no byte.
            plain = ((word & _LOW) + _FROM_SPACE) | word
            other = word ^ _QUOTES
            plain &= ((other & _LOW) + _LOW) | other
            other = word ^ _BACKSLASHES
            plain &= ((other & _LOW) + _LOW) | other
            if (~plain & _HIGH) << (_EIGHT * np.uint64(8 - many)) == np.uint64(0):
                store64(data, np.uint64(to), word)
                at += many
                to += many
                continue
        for k in range(at, at + many):
            byte = buf[np.uint64(k)]
            escape = _SHORT_ESCAPES[byte]
            if escape != 0:
                data[np.uint64(to)] = _BACKSLASH
                data[np.uint64(to + 1)] = escape
                to += 2
            elif byte < 32:
                low = np.uint8(byte & np.uint8(15))
                data[np.uint64(to)] = _BACKSLASH
                data[np.uint64(to + 1)] = _SMALL_U
                data[np.uint64(to + 2)] = _ZERO
                data[np.uint64(to + 3)] = _ZERO
                data[np.uint64(to + 4)] = _ZERO + (byte >> np.uint8(4))
                data[np.uint64(to + 5)] = _ZERO + low if low < 10 else _SMALL_A + low - 10
                to += 6
            else:
                data[np.uint64(to)] = byte
                to += 1
        at += many
    data[np.uint64(to)] = _QUOTE
    return to + 1


@leaf
def put_word(word: Bytes, data: Bytes, to: int) -> int:
    """Write a word that there is room for; gives its end."""
    for k in range(word.size):
        data[np.uint64(to + k)] = word[np.uint64(k)]
    return to + word.size


@leaf
def put_stored_numeric(buf: Bytes, base: int, at: int, stop: int, data: Bytes, to: int) -> tuple[int, int]:
    """Write the numeric with its varlena header that begins at or after ``at``, aligned from ``base``, and ends by
    ``stop``: (DONE, NO_ROOM or BAD_VALUE, end of the text)."""
    at = base + ((at - base + 3) & -4)
    if at >= stop:
        return BAD_VALUE, to
    header = int(np.int64(buf[np.uint64(at)]))
    if header & SHORT_BIT:
        many = (header >> 1) - 1
        at += 1
    else:
        if at + HEADER_SIZE > stop:
            return BAD_VALUE, to
        header = load32(buf, at)
        many = (header >> 2) - HEADER_SIZE if header & 3 == 0 else -1
        at += HEADER_SIZE
    if many < 0 or at + many > stop:
        return BAD_VALUE, to
    if to + PLAIN_ROOM <= data.size:
        end = put_plain_numeric(buf, at, many, data, to)
        if end >= 0:
            return DONE, end
    status, to = put_numeric(buf, at, many, data, to)
    return (BAD_VALUE if status < 0 else status), to


@kernel
def deeper(stack: NDArray[np.int64]) -> NDArray[np.int64]:
    """A copy of a stack of frames with room for twice as many."""
    larger = np.empty((2 * stack.shape[0], stack.shape[1]), np.int64)
    larger[: stack.shape[0]] = stack
    return larger
