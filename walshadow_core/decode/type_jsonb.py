"""jsonb: the tree of ``utils/jsonb.h`` to the text that jsonb_out prints.

A container (array or object) is a uint32 with the count of its elements or pairs and JB_FARRAY or JB_FOBJECT, a JEntry
(uint32) for every child, and then the children's bytes. An object has its keys first, in the order in which they
are printed, then the values. A JEntry holds the child's type and either its length or (JENTRY_HAS_OFF) where it ends,
counted from the first child's bytes. Numerics (with their varlena header) and containers are aligned to
four bytes from the start of the value; what pads them counts as theirs. A scalar that stands alone is an array of one
child with JB_FSCALAR.

Children never overlap in what Postgres writes. That is checked here, so that damaged bytes can't make a text that
grows with a power of their length.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.decode import type_oids
from walshadow_core.decode.columns import BAD_VALUE, DONE, NO_ROOM, CodecMaker, load64, store64
from walshadow_core.decode.deform import KIND_VALUE
from walshadow_core.decode.type_numeric import put_numeric
from walshadow_core.decode.type_text import text_maker
from walshadow_core.pgformat.heap import load32
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.varlena import HEADER_SIZE, SHORT_BIT

COUNT_MASK: Final = 0x0FFFFFFF
SCALAR: Final = 0x10000000
OBJECT: Final = 0x20000000
ARRAY: Final = 0x40000000
"""JB_CMASK, JB_FSCALAR, JB_FOBJECT, JB_FARRAY: of a container's header."""

OFFLEN_MASK: Final = 0x0FFFFFFF
TYPE_MASK: Final = 0x70000000
HAS_OFF: Final = 0x80000000
STRING: Final = 0x00000000
NUMERIC: Final = 0x10000000
FALSE: Final = 0x20000000
TRUE: Final = 0x30000000
NULL: Final = 0x40000000
CONTAINER: Final = 0x50000000
"""Of a JEntry."""

ROOM: Final = 64
"""Bytes that every step has ahead of it in ``data``: eight escapes of six bytes, and punctuation."""

_QUOTE, _BACKSLASH, _COMMA, _COLON, _SPACE, _SMALL_U, _ZERO, _ONE, _SMALL_A = b'"\\,: u01a'
_OPEN_ARRAY, _CLOSE_ARRAY, _OPEN_OBJECT, _CLOSE_OBJECT = b"[]{}"
_NULL_TEXT = np.frombuffer(b"null", np.uint8)
_TRUE_TEXT = np.frombuffer(b"true", np.uint8)
_FALSE_TEXT = np.frombuffer(b"false", np.uint8)
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

_FRAME = 8
_FIRST_DEPTH = 32


@kernel
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


@kernel
def _put_word(word: Bytes, data: Bytes, to: int) -> int:
    for k in range(word.size):
        data[np.uint64(to + k)] = word[np.uint64(k)]
    return to + word.size


@kernel
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
    status, to = put_numeric(buf, at, many, data, to)
    return (BAD_VALUE if status < 0 else status), to


@kernel
def jsonb_to_text(
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
    """jsonb as jsonb_out prints it: a columns.VarFill.

    The containers around the one that is being printed are on a stack that grows: how deep a value is nested is
    bounded by its length alone.
    """
    n = offset.size
    room = data.size - ROOM
    stack = np.empty((_FIRST_DEPTH, _FRAME), np.int64)
    for i in range(first, n):
        if kind[i] != KIND_VALUE:
            offsets[row + i + 1] = used
            continue
        base = int(offset[i])
        # The container that is opened next lies in [at, limit).
        at = base
        limit = base + int(length[i])
        if base < 0 or length[i] < 0 or limit > buf.size:
            return BAD_VALUE, i, used
        to = used
        depth = 0
        while True:
            if to > room:
                return NO_ROOM, i, used
            at = base + ((at - base + 3) & -4)
            if at + 4 > limit:
                return BAD_VALUE, i, used
            header = load32(buf, at)
            count = header & COUNT_MASK
            shape = header & ~COUNT_MASK
            scalar = shape == ARRAY | SCALAR
            pairs = shape == OBJECT
            if not (pairs or shape == ARRAY or (scalar and depth == 0 and count == 1)):
                return BAD_VALUE, i, used
            entries = at + 4
            body = entries + (8 if pairs else 4) * count
            if body > limit:
                return BAD_VALUE, i, used
            # Where the next key and the next value begin, and where the keys end: from ``body`` on.
            key = 0
            value = 0
            if pairs:
                k = count - 1
                while k >= 0:
                    entry = load32(buf, entries + 4 * k)
                    value += entry & OFFLEN_MASK
                    if entry & HAS_OFF:
                        break
                    k -= 1
            keys = value
            if body + keys > limit:
                return BAD_VALUE, i, used
            if not scalar:
                data[np.uint64(to)] = _OPEN_OBJECT if pairs else _OPEN_ARRAY
                to += 1
            index = 0
            opened = False
            while True:
                if to > room:
                    return NO_ROOM, i, used
                if index == count:
                    if not scalar:
                        data[np.uint64(to)] = _CLOSE_OBJECT if pairs else _CLOSE_ARRAY
                        to += 1
                    if depth == 0:
                        break
                    depth -= 1
                    index = stack[depth, 0]
                    count = stack[depth, 1]
                    pairs = stack[depth, 2] != 0
                    entries = stack[depth, 3]
                    limit = stack[depth, 4]
                    key = stack[depth, 5]
                    value = stack[depth, 6]
                    keys = stack[depth, 7]
                    body = entries + (8 if pairs else 4) * count
                    scalar = False
                    continue
                if index > 0:
                    data[np.uint64(to)] = _COMMA
                    data[np.uint64(to + 1)] = _SPACE
                    to += 2
                child = entries + 4 * index
                if pairs:
                    entry = load32(buf, child)
                    stop = entry & OFFLEN_MASK
                    if entry & HAS_OFF == 0:
                        stop += key
                    if entry & TYPE_MASK != STRING or stop < key or stop > keys:
                        return BAD_VALUE, i, used
                    to = put_json_string(buf, body + key, body + stop, data, to)
                    if to < 0 or to > room:
                        return NO_ROOM, i, used
                    key = stop
                    data[np.uint64(to)] = _COLON
                    data[np.uint64(to + 1)] = _SPACE
                    to += 2
                    child += 4 * count
                entry = load32(buf, child)
                stop = entry & OFFLEN_MASK
                if entry & HAS_OFF == 0:
                    stop += value
                if stop < value or body + stop > limit:
                    return BAD_VALUE, i, used
                start = body + value
                value = stop
                index += 1
                sort = entry & TYPE_MASK
                if sort == STRING:
                    to = put_json_string(buf, start, body + stop, data, to)
                    if to < 0:
                        return NO_ROOM, i, used
                elif sort == NUMERIC:
                    status, to = put_stored_numeric(buf, base, start, body + stop, data, to)
                    if status != DONE:
                        return status, i, used
                elif sort == TRUE:
                    to = _put_word(_TRUE_TEXT, data, to)
                elif sort == FALSE:
                    to = _put_word(_FALSE_TEXT, data, to)
                elif sort == NULL:
                    to = _put_word(_NULL_TEXT, data, to)
                elif sort == CONTAINER and not scalar:
                    if depth == stack.shape[0]:
                        deeper = np.empty((2 * depth, _FRAME), np.int64)
                        deeper[:depth] = stack
                        stack = deeper
                    stack[depth, 0] = index
                    stack[depth, 1] = count
                    stack[depth, 2] = int(pairs)
                    stack[depth, 3] = entries
                    stack[depth, 4] = limit
                    stack[depth, 5] = key
                    stack[depth, 6] = value
                    stack[depth, 7] = keys
                    depth += 1
                    at = start
                    limit = body + stop
                    opened = True
                    break
                else:
                    return BAD_VALUE, i, used
            if not opened:
                break
        used = to
        offsets[row + i + 1] = used
    return DONE, n, used


CODECS: Final[Mapping[int, CodecMaker]] = {type_oids.JSONB: text_maker(jsonb_to_text)}
"""This family's types, by oid."""
