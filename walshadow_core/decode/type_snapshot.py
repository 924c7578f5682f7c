"""pg_snapshot and txid_snapshot (``utils/adt/xid8funcs.c``): uint32 count, uint64 xmin, uint64 xmax, and the
transactions in progress, uint64 each; printed as ``xmin:xmax:xip,…``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.decode import type_oids
from walshadow_core.decode.columns import BAD_VALUE, DONE, NO_ROOM, SLACK, CodecMaker, load64
from walshadow_core.decode.deform import KIND_VALUE
from walshadow_core.decode.text_put import LONGEST_NUMBER, put_number
from walshadow_core.decode.type_text import text_maker
from walshadow_core.pgformat.heap import load32
from walshadow_core.pgformat.jit import kernel

_FIXED: Final = 20
_COLON, _COMMA = b":,"


@kernel
def snapshot_to_text(
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
    """Snapshots as pg_snapshot_out prints them: a columns.VarFill."""
    n = offset.size
    room = data.size - SLACK
    for i in range(first, n):
        if kind[i] != KIND_VALUE:
            offsets[row + i + 1] = used
            continue
        start = int(offset[i])
        many = int(length[i])
        if start < 0 or many < _FIXED or start + many > buf.size:
            return BAD_VALUE, i, used
        count = load32(buf, start)
        if many != _FIXED + 8 * count:
            return BAD_VALUE, i, used
        if used + (count + 2) * (LONGEST_NUMBER + 1) > room:
            return NO_ROOM, i, used
        to = used
        for k in range(count + 2):
            to = put_number(load64(buf, np.uint64(start + 4 + 8 * k)), 1, data, to)
            data[to] = _COLON if k < 2 else _COMMA
            to += 1
        # A snapshot without transactions in progress ends with the colon, others without the last comma.
        used = to if count == 0 else to - 1
        offsets[row + i + 1] = used
    return DONE, n, used


CODECS: Final[Mapping[int, CodecMaker]] = {
    type_oids.TXID_SNAPSHOT: text_maker(snapshot_to_text),
    type_oids.PG_SNAPSHOT: text_maker(snapshot_to_text),
}
"""This family's types, by oid."""
