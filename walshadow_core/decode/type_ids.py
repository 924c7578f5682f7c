"""Transaction ids, oids that refer to something, places in tables and in the WAL.

xid, cid and the reg* types are numbers of 32 bits, xid8 one of 64 (``utils/adt/xid.c``). The reg* types stay oids
as text too: their names are in the catalog, which a file of the table does not have. A pg_lsn is 64 bits, printed as
two halves in hex (``pg_lsn.c``); a tid is a block, as two halves of 16 bits, high first, and a line pointer (``tid.c``,
``storage/itemptr.h``). A refcursor is text.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.decode import text_fixed, type_fixed, type_text
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.columns import DONE, NO_ROOM, Codec, CodecMaker, FixedColumn, TypeUse, ascii_maker
from walshadow_core.decode.deform import KIND_VALUE
from walshadow_core.decode.text_put import put_number
from walshadow_core.pgformat.heap import load16, load32
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.words import SLACK

LONGEST: Final = 20
"""``FFFFFFFF/FFFFFFFF``, ``(4294967295,65535)``, rounded up."""
UNSIGNED_32: Final = (
    oid.XID, oid.CID, oid.REGPROC, oid.REGPROCEDURE, oid.REGOPER, oid.REGOPERATOR, oid.REGCLASS, oid.REGTYPE,
    oid.REGROLE, oid.REGNAMESPACE, oid.REGCONFIG, oid.REGDICTIONARY, oid.REGCOLLATION,
)  # fmt: skip

_SLASH, _COMMA, _OPEN, _CLOSE = b"/,()"
_DIGITS = np.frombuffer(b"0123456789ABCDEF", np.uint8)


@kernel
def _put_hex_number(value: int, out: Bytes, to: int) -> int:
    """A uint32 in hex without leading zeros."""
    shift = 28
    while shift > 0 and value >> shift == 0:
        shift -= 4
    while shift >= 0:
        out[to] = _DIGITS[(value >> shift) & 15]
        to += 1
        shift -= 4
    return to


@kernel
def place_to_text(
    lsn: bool,
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
    """A columns.VarFill for pg_lsn, or without ``lsn`` for tid."""
    room = data.size - SLACK
    for i in range(first, kind.size):
        if kind[i] == KIND_VALUE:
            if used + LONGEST > room:
                return NO_ROOM, i, used
            at = int(np.int64(offset[i]))
            if lsn:
                used = _put_hex_number(load32(buf, at + 4), data, used)
                data[used] = _SLASH
                used = _put_hex_number(load32(buf, at), data, used + 1)
            else:
                data[used] = _OPEN
                block = (load16(buf, at) << 16) | load16(buf, at + 2)
                used = put_number(np.uint64(block), 1, data, used + 1)
                data[used] = _COMMA
                used = put_number(np.uint64(load16(buf, at + 4)), 1, data, used + 1)
                data[used] = _CLOSE
                used += 1
        offsets[row + i + 1] = used
    return DONE, kind.size, used


def _xid8(use: TypeUse) -> Codec:
    return Codec(pa.uint64(), lambda: FixedColumn(pa.uint64(), np.uint64, type_fixed.take64))


CODECS: Mapping[int, CodecMaker] = {
    **dict.fromkeys(UNSIGNED_32, type_fixed.CODECS[oid.OID]),
    oid.XID8: _xid8,
    oid.PG_LSN: ascii_maker(partial(place_to_text, True)),
    oid.TID: ascii_maker(partial(place_to_text, False)),
    oid.REFCURSOR: type_text.CODECS[oid.TEXT],
}
"""This family's types, by oid."""

TEXTS: Mapping[int, CodecMaker] = {
    **dict.fromkeys(UNSIGNED_32, text_fixed.TEXTS[oid.OID]),
    oid.XID8: text_fixed.text_maker(text_fixed.UNSIGNED8),
}
"""The same as text."""
