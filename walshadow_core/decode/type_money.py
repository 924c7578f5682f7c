"""money: an int64 that counts the smallest unit of the currency (``utils/adt/cash.c``).

How many of them make one is a matter of lc_monetary, which a file does not tell: it is taken to be 100. As text
a money is printed as under lc_monetary C: ``-$1,234.56``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.columns import DONE, NO_ROOM, Codec, CodecMaker, FixedColumn, TypeUse, ascii_maker
from walshadow_core.decode.deform import KIND_VALUE
from walshadow_core.decode.text_put import put_number
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.words import SLACK, load64

ARROW: Final = pa.decimal128(19, 2)
LONGEST: Final = 28
"""``-$92,233,720,368,547,758.08``, rounded up."""

_MINUS, _DOLLAR, _COMMA, _POINT = b"-$,."
_CENTS = np.uint64(100)
_GROUP = np.uint64(1000)
_SIGN = np.uint64(63)


@kernel
def take_money(
    buf: Bytes,
    offset: NDArray[np.int32],
    length: NDArray[np.int32],
    kind: NDArray[np.uint8],
    values: NDArray[np.int64],
    row: int,
) -> int:
    """A columns.FixedFill: an int64 widened to the two of a decimal128."""
    at = np.uint64(2 * row)
    for i in range(kind.size):
        value = np.int64(0)
        if kind[i] == KIND_VALUE:
            value = np.int64(load64(buf, np.uint64(offset[i])))
        values[at] = value
        values[at + np.uint64(1)] = value >> np.int64(63)
        at += np.uint64(2)
    return -1


@kernel
def money_to_text(
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
    """A columns.VarFill for what cash_out prints under lc_monetary C."""
    room = data.size - SLACK
    for i in range(first, kind.size):
        if kind[i] == KIND_VALUE:
            if used + LONGEST > room:
                return NO_ROOM, i, used
            cents = load64(buf, np.uint64(offset[i]))
            if cents >> _SIGN != np.uint64(0):
                data[used] = _MINUS
                used += 1
                # Two's complement by hand: the least int64 has no positive twin.
                cents = ~cents + np.uint64(1)
            data[used] = _DOLLAR
            used += 1
            whole = cents // _CENTS
            scale = np.uint64(1)
            while whole // scale >= _GROUP:
                scale *= _GROUP
            used = put_number(whole // scale, 1, data, used)
            while scale > np.uint64(1):
                whole %= scale
                scale //= _GROUP
                data[used] = _COMMA
                used = put_number(whole // scale, 3, data, used + 1)
            data[used] = _POINT
            used = put_number(cents % _CENTS, 2, data, used + 1)
        offsets[row + i + 1] = used
    return DONE, kind.size, used


def _money(use: TypeUse) -> Codec:
    return Codec(ARROW, lambda: FixedColumn(ARROW, np.int64, take_money, width=2))


CODECS: Mapping[int, CodecMaker] = {oid.MONEY: _money}
"""This family's types, by oid."""

TEXTS: Mapping[int, CodecMaker] = {oid.MONEY: ascii_maker(money_to_text)}
"""The same as text."""
