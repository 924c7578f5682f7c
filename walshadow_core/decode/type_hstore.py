"""hstore: the pairs of ``contrib/hstore/hstore.h`` to the text that hstore_out prints.

A value is a uint32 with the count of pairs, two HEntry (uint32) for each, key and value, and then all the strings. An
entry holds where its string ends, counted from the first one's start, and flags: HENTRY_ISFIRST for the very first,
HENTRY_ISNULL for a value that is null. The count carries HS_FLAG_NEWVERSION since 9.0; values written before then
(contrib/hstore/hstore_compat.c) are laid out in another way, unless their first entry is marked as one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.decode.columns import BAD_VALUE, DONE, NO_ROOM, CodecMaker
from walshadow_core.decode.deform import KIND_VALUE
from walshadow_core.decode.text_quote import BACKSLASH, DOUBLE_QUOTE, ROOM, put_quoted
from walshadow_core.decode.type_text import text_maker
from walshadow_core.pgformat.heap import load32
from walshadow_core.pgformat.jit import kernel

NEW_VERSION: Final = 0x80000000
COUNT_MASK: Final = 0x0FFFFFFF
IS_FIRST: Final = 0x80000000
IS_NULL: Final = 0x40000000
POSITION_MASK: Final = 0x3FFFFFFF

_ARROW = np.frombuffer(b"=>", np.uint8)
_NULL = np.frombuffer(b"NULL", np.uint8)
_COMMA, _SPACE = b", "


@kernel
def hstore_to_text(
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
    """hstore as hstore_out prints it: a columns.VarFill."""
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
        header = load32(buf, entries - 4)
        count = header & COUNT_MASK
        body = entries + 8 * count
        if body > limit:
            return BAD_VALUE, i, used
        if header & NEW_VERSION == 0 and count > 0 and load32(buf, entries) & IS_FIRST == 0:
            return BAD_VALUE, i, used
        to = used
        start = body
        for k in range(2 * count):
            if to > room:
                return NO_ROOM, i, used
            entry = load32(buf, entries + 4 * k)
            stop = body + (entry & POSITION_MASK)
            if stop < start or stop > limit:
                return BAD_VALUE, i, used
            if k & 1:
                data[to] = _ARROW[0]
                data[to + 1] = _ARROW[1]
                to += 2
            elif k > 0:
                data[to] = _COMMA
                data[to + 1] = _SPACE
                to += 2
            if k & 1 and entry & IS_NULL:
                for j in range(_NULL.size):
                    data[to + j] = _NULL[j]
                to += _NULL.size
            else:
                to = put_quoted(buf, start, stop, DOUBLE_QUOTE, BACKSLASH, data, to)
                if to < 0:
                    return NO_ROOM, i, used
            start = stop
        used = to
        offsets[row + i + 1] = used
    return DONE, n, used


EXTENSION_CODECS: Final[Mapping[str, CodecMaker]] = {"hstore": text_maker(hstore_to_text)}
"""This family's types, by name."""
