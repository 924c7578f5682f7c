"""tsvector and tsquery (``tsearch/ts_type.h``) to the text that their output functions print.

A tsvector is an int32 count, a WordEntry (uint32: bit 0 haspos, 11 bits length, 20 bits position) per lexeme, and the
lexemes' strings. Where haspos is set, an even place after the string has a uint16 count of positions, and the
positions (uint16: 14 bits, and two bits of weight, A being 3).

A tsquery is an int32 count, an item of 12 bytes per node, and the operands' strings, each with a NUL behind it. An
operand (type 1) has weight and prefix at bytes 1 and 2, and at byte 8 a uint32 with 12 bits length, 20 bits position
of its string. An operator (type 2) has its code at byte 1, and an int16 distance at 2. Items are in prefix order,
right operand first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.decode import type_oids
from walshadow_core.decode.columns import BAD_VALUE, DONE, NO_ROOM, CodecMaker
from walshadow_core.decode.deform import KIND_VALUE
from walshadow_core.decode.text_put import put_number, put_signed
from walshadow_core.decode.text_quote import ROOM, SINGLE_QUOTE, put_quoted
from walshadow_core.decode.type_text import text_maker
from walshadow_core.pgformat.heap import load16, load32
from walshadow_core.pgformat.jit import kernel, leaf

MAX_POSITIONS: Final = 256
"""MAXNUMPOS: of one lexeme."""

ITEM_SIZE: Final = 12
OPERAND, OPERATOR = 1, 2
NOT, AND, OR, PHRASE = 1, 2, 3, 4
_PRIORITY = np.array([0, 4, 2, 1, 3], np.int64)
"""tsearch_op_priority, by operator."""

_SPACE, _COLON, _COMMA, _STAR, _NOT_SIGN, _OPEN, _CLOSE, _LESS, _MINUS, _GREATER = b" :,*!()<->"
_A = b"A"[0]
_SIGNS = np.frombuffer(b"\0\0&|", np.uint8)


@kernel
def tsvector_to_text(
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
    """tsvectors as tsvectorout prints them: a columns.VarFill."""
    n = offset.size
    room = data.size - ROOM
    for i in range(first, n):
        if kind[i] != KIND_VALUE:
            offsets[row + i + 1] = used
            continue
        entries = int(offset[i]) + 4
        limit = int(offset[i]) + int(length[i])
        if entries < 4 or entries > limit or limit > buf.size:
            return BAD_VALUE, i, used
        count = load32(buf, entries - 4)
        body = entries + 4 * count
        if body > limit:
            return BAD_VALUE, i, used
        # What all lexemes take can't be more than there is, as they don't overlap.
        left = limit - body
        to = used
        for k in range(count):
            if to > room:
                return NO_ROOM, i, used
            entry = load32(buf, entries + 4 * k)
            many = (entry >> 1) & 0x7FF
            start = entry >> 12
            left -= many
            if left < 0 or body + start + many > limit:
                return BAD_VALUE, i, used
            if k > 0:
                data[to] = _SPACE
                to += 1
            to = put_quoted(buf, body + start, body + start + many, SINGLE_QUOTE, SINGLE_QUOTE, data, to)
            if to < 0:
                return NO_ROOM, i, used
            if entry & 1 == 0:
                continue
            at = body + ((start + many + 1) & -2)
            if at + 2 > limit:
                return BAD_VALUE, i, used
            positions = load16(buf, at)
            left -= 2 + 2 * positions
            if left < 0 or positions > MAX_POSITIONS or at + 2 + 2 * positions > limit:
                return BAD_VALUE, i, used
            if to + 8 * positions > room:
                return NO_ROOM, i, used
            for p in range(positions):
                position = load16(buf, at + 2 + 2 * p)
                data[to] = _COMMA if p > 0 else _COLON
                to = put_number(position & 0x3FFF, 1, data, to + 1)
                weight = position >> 14
                if weight > 0:
                    data[to] = _A + 3 - weight
                    to += 1
        used = to
        offsets[row + i + 1] = used
    return DONE, n, used


@leaf
def _subtrees(buf: Bytes, items: int, count: int, size: NDArray[np.int32]) -> bool:
    """Leave in ``size`` how many items the subtree of each item has; False if they are no tree."""
    for k in range(count - 1, -1, -1):
        at = items + ITEM_SIZE * k
        sort = buf[at]
        below = 0
        if sort == OPERATOR:
            oper = buf[at + 1]
            if oper < NOT or oper > PHRASE or k + 1 >= count:
                return False
            below = size[k + 1]
            if oper != NOT:
                if k + 1 + below >= count:
                    return False
                below += size[k + 1 + below]
        elif sort != OPERAND:
            return False
        size[k] = below + 1
    return bool(size[0] == count)


@leaf
def _put_operand(buf: Bytes, item: int, body: int, limit: int, data: Bytes, to: int) -> tuple[int, int]:
    """Write one operand that ROOM bytes are left for: (status, end)."""
    place = load32(buf, item + 8)
    start = body + (place >> 12)
    stop = start + (place & 0xFFF)
    if stop >= limit or buf[stop] != 0:
        return BAD_VALUE, to
    to = put_quoted(buf, start, stop, SINGLE_QUOTE, SINGLE_QUOTE, data, to)
    if to < 0:
        return NO_ROOM, 0
    weight = buf[item + 1]
    prefix = buf[item + 2] != 0
    if weight != 0 or prefix:
        data[to] = _COLON
        to += 1
        if prefix:
            data[to] = _STAR
            to += 1
        for k in range(4):
            if (weight >> (3 - k)) & 1:
                data[to] = _A + k
                to += 1
    return DONE, to


@leaf
def _put_operator(buf: Bytes, item: int, data: Bytes, to: int) -> int:
    oper = buf[item + 1]
    data[to] = _SPACE
    to += 1
    if oper == PHRASE:
        distance = load16(buf, item + 2)
        distance -= (distance & 0x8000) << 1
        data[to] = _LESS
        if distance == 1:
            data[to + 1] = _MINUS
            to += 2
        else:
            to = put_signed(distance, data, to + 1)
        data[to] = _GREATER
    else:
        data[to] = _SIGNS[oper]
    data[to + 1] = _SPACE
    return to + 2


_ENDED: Final = -1
"""On the stack instead of an item: a closing parenthesis. ``-2 - item`` is an operator's sign."""


@kernel
def tsquery_to_text(
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
    """tsqueries as tsqueryout prints them: a columns.VarFill.

    What is still to be printed is on a stack: items (with the priority of what is around them, and whether they are
    the right side of a phrase), operators and closing parentheses.
    """
    n = offset.size
    room = data.size - ROOM
    size = np.empty(0, np.int32)
    stack = np.empty((0, 3), np.int64)
    for i in range(first, n):
        if kind[i] != KIND_VALUE:
            offsets[row + i + 1] = used
            continue
        items = int(offset[i]) + 4
        limit = int(offset[i]) + int(length[i])
        if items < 4 or items > limit or limit > buf.size:
            return BAD_VALUE, i, used
        count = load32(buf, items - 4)
        body = items + ITEM_SIZE * count
        if body > limit:
            return BAD_VALUE, i, used
        if count > size.size:
            size = np.empty(count, np.int32)
            # An operator takes its own place, and puts up to four things there.
            stack = np.empty((3 * count + 1, 3), np.int64)
        if count > 0 and not _subtrees(buf, items, count, size):
            return BAD_VALUE, i, used
        left = limit - body
        to = used
        depth = 0
        if count > 0:
            stack[0, 0] = 0
            stack[0, 1] = -1
            stack[0, 2] = 0
            depth = 1
        while depth > 0:
            if to > room:
                return NO_ROOM, i, used
            depth -= 1
            k = stack[depth, 0]
            if k == _ENDED:
                data[to] = _SPACE
                data[to + 1] = _CLOSE
                to += 2
                continue
            if k < _ENDED:
                to = _put_operator(buf, items + ITEM_SIZE * (-2 - k), data, to)
                continue
            item = items + ITEM_SIZE * k
            if buf[item] == OPERAND:
                left -= (load32(buf, item + 8) & 0xFFF) + 1
                if left < 0:
                    return BAD_VALUE, i, used
                status, to = _put_operand(buf, item, body, limit, data, to)
                if status != DONE:
                    return status, i, used
                continue
            oper = buf[item + 1]
            priority = _PRIORITY[oper]
            if priority < stack[depth, 1] or (oper == PHRASE and stack[depth, 2] != 0):
                data[to] = _OPEN
                data[to + 1] = _SPACE
                to += 2
                stack[depth, 0] = _ENDED
                depth += 1
            stack[depth, 0] = k + 1
            stack[depth, 1] = priority
            stack[depth, 2] = int(oper == PHRASE)
            depth += 1
            if oper == NOT:
                data[to] = _NOT_SIGN
                to += 1
                continue
            stack[depth, 0] = -2 - k
            depth += 1
            stack[depth, 0] = k + 1 + size[k + 1]
            stack[depth, 1] = priority
            stack[depth, 2] = 0
            depth += 1
        used = to
        offsets[row + i + 1] = used
    return DONE, n, used


CODECS: Final[Mapping[int, CodecMaker]] = {
    type_oids.TSVECTOR: text_maker(tsvector_to_text),
    type_oids.TSQUERY: text_maker(tsquery_to_text),
}
"""This family's types, by oid."""
