"""jsonpath: the items of ``utils/jsonpath.h`` to the text that jsonpath_out prints.

A value is a uint32 with the version (1) and JSONPATH_LAX, and then items. An item is a byte with its sort, pad bytes up
to four bytes' alignment (from the start of the value), an int32 with the place of the next item on the path (0: none),
and what its sort asks for: a string with its length, a numeric with its varlena header, the places of its
operands. Places count from the item's own first byte. Sorts are numbered for good, so that a path reads the same in
every version; the newest bring more of them.

Items never share operands in what Postgres writes. That is checked here by what all of them take together, so
that damaged bytes can't make a path without end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.decode import jsonpath_sorts as sorts
from walshadow_core.decode import type_oids
from walshadow_core.decode.columns import BAD_VALUE, DONE, NO_ROOM, CodecMaker
from walshadow_core.decode.deform import KIND_VALUE
from walshadow_core.decode.text_json import ROOM, deeper, put_json_string, put_stored_numeric
from walshadow_core.decode.text_put import put_number
from walshadow_core.decode.type_text import text_maker
from walshadow_core.pgformat.heap import load32
from walshadow_core.pgformat.jit import kernel, leaf

_TO_ITEM, _TO_WORD, _TO_ELEMENT, _TO_REGEX = range(4)
"""What is still to be printed: (one of these, where or which word, and two values that are said below)."""

_PLUS, _MINUS, _STAR, _DOT, _DOLLAR, _QUOTE, _BRACKET = b'+-*.$"['
_FIRST_DEPTH: Final = 64
_PUSHED: Final = 6
"""More than a step puts on the stack."""
_LEAST_ITEM: Final = 5
"""Bytes of an item at least: its sort and the next one's place."""


@leaf
def _put(word: int, data: Bytes, to: int) -> int:
    start = int(sorts.WORD_ENDS[word])
    many = int(sorts.WORD_ENDS[word + 1]) - start
    for k in range(many):
        data[to + k] = sorts.WORD_TEXT[start + k]
    return to + many


@leaf
def _put_levels(first: int, last: int, data: Bytes, to: int) -> int:
    """``**`` and which levels."""
    data[to] = _STAR
    data[to + 1] = _STAR
    to += 2
    if first == 0 and last == sorts.UNBOUNDED:
        return to
    data[to] = 123
    to += 1
    to = _put(sorts.LAST, data, to) if first == sorts.UNBOUNDED else put_number(first, 1, data, to)
    if first != last:
        to = _put(sorts.RANGE, data, to)
        to = _put(sorts.LAST, data, to) if last == sorts.UNBOUNDED else put_number(last, 1, data, to)
    data[to] = 125
    return to + 1


@leaf
def _push(stack: NDArray[np.int64], depth: int, what: int, where: int, third: int, fourth: int) -> int:
    stack[depth, 0] = what
    stack[depth, 1] = where
    stack[depth, 2] = third
    stack[depth, 3] = fourth
    return depth + 1


@leaf
def _operand(buf: Bytes, item: int, at: int, limit: int) -> int:
    """The item whose place, counted from ``item``, stands at ``at``; -1 if it is none, 0 if there is no operand."""
    if at + 4 > limit:
        return -1
    place = load32(buf, at)
    if place == 0:
        return 0
    if place < _LEAST_ITEM or item + place >= limit:
        return -1
    return item + place


@kernel
def _path(
    buf: Bytes, start: int, limit: int, data: Bytes, to: int, stack: NDArray[np.int64]
) -> tuple[int, int, NDArray[np.int64]]:
    """Print the path of [start, limit): (status, end, the stack, which may have grown)."""
    room = data.size - ROOM
    if start + 4 > limit or to > room:
        return (NO_ROOM if to > room else BAD_VALUE), to, stack
    header = load32(buf, start)
    if header & ~sorts.LAX != sorts.VERSION:
        return BAD_VALUE, to, stack
    if header & sorts.LAX == 0:
        to = _put(sorts.STRICT, data, to)
    items_left = (limit - start) // _LEAST_ITEM + 1
    bytes_left = limit - start
    depth = _push(stack, 0, _TO_ITEM, start + 4, 0, 1)
    while depth > 0:
        if to > room:
            return NO_ROOM, to, stack
        if depth + _PUSHED > stack.shape[0]:
            stack = deeper(stack)
        depth -= 1
        what = stack[depth, 0]
        item = stack[depth, 1]
        third = stack[depth, 2]
        fourth = stack[depth, 3]
        if what == _TO_WORD:
            to = _put(item, data, to)
            continue
        sort = int(np.int64(buf[item])) if item < limit else sorts.SORTS
        content = start + ((item - start + 4) & -4) + 4
        if content > limit:
            return BAD_VALUE, to, stack
        if what == _TO_ELEMENT:
            # third: which one, fourth: how many there are.
            if third == fourth:
                to = _put(sorts.CLOSE_BRACKET, data, to)
                continue
            if third > 0:
                to = _put(sorts.COMMA, data, to)
            left = _operand(buf, item, content + 4 + 8 * third, limit)
            right = _operand(buf, item, content + 8 + 8 * third, limit)
            if left <= 0 or right < 0:
                return BAD_VALUE, to, stack
            depth = _push(stack, depth, _TO_ELEMENT, item, third + 1, fourth)
            if right > 0:
                depth = _push(stack, depth, _TO_ITEM, right, 0, 0)
                depth = _push(stack, depth, _TO_WORD, sorts.RANGE, 0, 0)
            depth = _push(stack, depth, _TO_ITEM, left, 0, 0)
            continue
        if what == _TO_REGEX:
            flags = load32(buf, content)
            many = load32(buf, content + 8)
            bytes_left -= many
            if content + 12 + many > limit or bytes_left < 0:
                return BAD_VALUE, to, stack
            to = _put(sorts.LIKE_REGEX_WORD, data, to)
            to = put_json_string(buf, content + 12, content + 12 + many, data, to)
            if to < 0 or to > room:
                return NO_ROOM, 0, stack
            if flags != 0:
                to = _put(sorts.FLAG_WORD, data, to)
                for k in range(sorts.FLAGS.size):
                    if (flags >> k) & 1:
                        data[to] = sorts.FLAGS[k]
                        to += 1
                data[to] = _QUOTE
                to += 1
            continue
        # An item. third: whether it follows another one on its path, fourth: whether it wants parentheses.
        items_left -= 1
        following = _operand(buf, item, content - 4, limit)
        if items_left < 0 or following < 0:
            return BAD_VALUE, to, stack
        if following > 0:
            depth = _push(stack, depth, _TO_ITEM, following, 1, 1)
        how = sorts.CLASS[sort]
        if how == sorts.IS_WORD:
            to = _put(sort, data, to)
        elif how == sorts.IS_TEXT:
            if content + 4 > limit:
                return BAD_VALUE, to, stack
            many = load32(buf, content)
            bytes_left -= many
            if content + 4 + many > limit or bytes_left < 0:
                return BAD_VALUE, to, stack
            if sort == sorts.VARIABLE or (sort == sorts.KEY and third != 0):
                data[to] = _DOLLAR if sort == sorts.VARIABLE else _DOT
                to += 1
            to = put_json_string(buf, content + 4, content + 4 + many, data, to)
            if to < 0:
                return NO_ROOM, 0, stack
        elif how == sorts.IS_BINARY:
            left = _operand(buf, item, content, limit)
            right = _operand(buf, item, content + 4, limit)
            if left <= 0 or right <= 0:
                return BAD_VALUE, to, stack
            if fourth != 0:
                to = _put(sorts.OPEN, data, to)
                depth = _push(stack, depth, _TO_WORD, sorts.CLOSE, 0, 0)
            depth = _push(stack, depth, _TO_ITEM, right, 0, int(sorts.PRIORITY[buf[right]] <= sorts.PRIORITY[sort]))
            depth = _push(stack, depth, _TO_WORD, sorts.BETWEEN + sort, 0, 0)
            depth = _push(stack, depth, _TO_ITEM, left, 0, int(sorts.PRIORITY[buf[left]] <= sorts.PRIORITY[sort]))
        elif how == sorts.IS_AROUND:
            left = _operand(buf, item, content, limit)
            optional = sort == sorts.DATETIME or sort >= sorts.TIME
            if left < 0 or (left == 0 and not optional):
                return BAD_VALUE, to, stack
            to = _put(sort, data, to)
            depth = _push(stack, depth, _TO_WORD, sorts.AFTER + sort, 0, 0)
            if left > 0:
                depth = _push(stack, depth, _TO_ITEM, left, 0, 0)
        elif how == sorts.IS_SIGN:
            left = _operand(buf, item, content, limit)
            if left <= 0:
                return BAD_VALUE, to, stack
            if fourth != 0:
                to = _put(sorts.OPEN, data, to)
                depth = _push(stack, depth, _TO_WORD, sorts.CLOSE, 0, 0)
            data[to] = _PLUS if sort == sorts.PLUS else _MINUS
            to += 1
            depth = _push(stack, depth, _TO_ITEM, left, 0, int(sorts.PRIORITY[buf[left]] <= sorts.PRIORITY[sort]))
        elif sort == sorts.NUMERIC:
            if following > 0:
                to = _put(sorts.OPEN, data, to)
                depth = _push(stack, depth, _TO_WORD, sorts.CLOSE, 0, 0)
            status, to = put_stored_numeric(buf, start, content, limit, data, to)
            if status != DONE:
                return status, to, stack
        elif sort == sorts.BOOL:
            if content >= limit:
                return BAD_VALUE, to, stack
            to = _put(sorts.TRUE_WORD if buf[content] != 0 else sorts.FALSE_WORD, data, to)
        elif how == sorts.IS_STAR:
            if third != 0:
                data[to] = _DOT
                to += 1
            if sort == sorts.ANY_KEY:
                data[to] = _STAR
                to += 1
            elif content + 8 > limit:
                return BAD_VALUE, to, stack
            else:
                to = _put_levels(load32(buf, content), load32(buf, content + 4), data, to)
        elif sort == sorts.INDEX_ARRAY:
            if content + 4 > limit:
                return BAD_VALUE, to, stack
            many = load32(buf, content)
            if content + 4 + 8 * many > limit:
                return BAD_VALUE, to, stack
            data[to] = _BRACKET
            to += 1
            depth = _push(stack, depth, _TO_ELEMENT, item, 0, many)
        elif sort == sorts.LIKE_REGEX:
            left = _operand(buf, item, content + 4, limit)
            if left <= 0 or content + 12 > limit:
                return BAD_VALUE, to, stack
            if fourth != 0:
                to = _put(sorts.OPEN, data, to)
                depth = _push(stack, depth, _TO_WORD, sorts.CLOSE, 0, 0)
            depth = _push(stack, depth, _TO_REGEX, item, 0, 0)
            depth = _push(stack, depth, _TO_ITEM, left, 0, 1)
        elif sort == sorts.DECIMAL:
            left = _operand(buf, item, content, limit)
            right = _operand(buf, item, content + 4, limit)
            if left < 0 or right < 0:
                return BAD_VALUE, to, stack
            to = _put(sorts.DECIMAL_WORD, data, to)
            depth = _push(stack, depth, _TO_WORD, sorts.CLOSE, 0, 0)
            if right > 0:
                depth = _push(stack, depth, _TO_ITEM, right, 0, 0)
                depth = _push(stack, depth, _TO_WORD, sorts.COMMA, 0, 0)
            if left > 0:
                depth = _push(stack, depth, _TO_ITEM, left, 0, 0)
        else:
            return BAD_VALUE, to, stack
    return DONE, to, stack


@kernel
def jsonpath_to_text(
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
    """jsonpaths as jsonpath_out prints them: a columns.VarFill."""
    n = offset.size
    stack = np.empty((_FIRST_DEPTH, 4), np.int64)
    for i in range(first, n):
        if kind[i] == KIND_VALUE:
            start = int(offset[i])
            limit = start + int(length[i])
            if start < 0 or limit < start or limit > buf.size:
                return BAD_VALUE, i, used
            status, to, stack = _path(buf, start, limit, data, used, stack)
            if status != DONE:
                return status, i, used
            used = to
        offsets[row + i + 1] = used
    return DONE, n, used


CODECS: Final[Mapping[int, CodecMaker]] = {type_oids.JSONPATH: text_maker(jsonpath_to_text)}
"""This family's types, by oid."""
