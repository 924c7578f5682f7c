"""ltree, of the extension of that name: labels with dots between, in the database's encoding.

On disk (``contrib/ltree/ltree.h``) a uint16 of labels and two bytes of filler are followed by the labels: a uint16
of bytes and the bytes, each label taking a multiple of eight bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.decode.columns import BAD_VALUE, DONE, NO_ROOM, CodecMaker, copy_bytes
from walshadow_core.decode.deform import KIND_VALUE
from walshadow_core.decode.type_text import text_maker
from walshadow_core.pgformat.heap import load16
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.words import SLACK

HEADER: Final = 4
LABEL_HEADER: Final = 2

_DOT = ord(".")


@kernel
def ltree_to_text(
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
    """A columns.VarFill for ltree."""
    room = data.size - SLACK
    for i in range(first, kind.size):
        if kind[i] == KIND_VALUE:
            many = int(np.int64(length[i]))
            if many < HEADER:
                return BAD_VALUE, i, used
            # A label's header is longer than the dot.
            if used + many > room:
                return NO_ROOM, i, used
            at = int(np.int64(offset[i]))
            end = at + many
            labels = load16(buf, at)
            at += HEADER
            to = used
            for k in range(labels):
                if at + LABEL_HEADER > end:
                    return BAD_VALUE, i, used
                count = load16(buf, at)
                if at + LABEL_HEADER + count > end:
                    return BAD_VALUE, i, used
                if k > 0:
                    data[to] = _DOT
                    to += 1
                copy_bytes(buf, at + LABEL_HEADER, count, data, to)
                to += count
                at += (count + LABEL_HEADER + 7) & ~7
            used = to
        offsets[row + i + 1] = used
    return DONE, kind.size, used


EXTENSION_CODECS: Mapping[str, CodecMaker] = {"ltree": text_maker(ltree_to_text)}
"""This family's types, by name."""
