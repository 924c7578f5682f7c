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
from walshadow_core.decode.columns import BAD_VALUE, DONE, NO_ROOM, CodecMaker
from walshadow_core.decode.deform import KIND_VALUE
from walshadow_core.decode.text_json import ROOM, deeper, put_json_string, put_stored_numeric, put_word
from walshadow_core.decode.type_text import text_maker
from walshadow_core.pgformat.heap import load32
from walshadow_core.pgformat.jit import kernel

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

_COMMA, _COLON, _SPACE, _OPEN_ARRAY, _CLOSE_ARRAY, _OPEN_OBJECT, _CLOSE_OBJECT = b",: []{}"
_NULL_TEXT = np.frombuffer(b"null", np.uint8)
_TRUE_TEXT = np.frombuffer(b"true", np.uint8)
_FALSE_TEXT = np.frombuffer(b"false", np.uint8)
_FRAME = 8
_FIRST_DEPTH = 32


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
                    to = put_word(_TRUE_TEXT, data, to)
                elif sort == FALSE:
                    to = put_word(_FALSE_TEXT, data, to)
                elif sort == NULL:
                    to = put_word(_NULL_TEXT, data, to)
                elif sort == CONTAINER and not scalar:
                    if depth == stack.shape[0]:
                        stack = deeper(stack)
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
