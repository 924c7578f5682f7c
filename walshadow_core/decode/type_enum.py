"""Enums: on disk the oid of the label in pg_enum (``utils/adt/enum.c``), here the label."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.decode.columns import (
    BAD_VALUE,
    DONE,
    NO_ROOM,
    SLACK,
    Codec,
    Codecs,
    ContainerMaker,
    TypeUse,
    VarColumn,
    copy_bytes,
)
from walshadow_core.decode.deform import KIND_VALUE
from walshadow_core.pgformat.heap import load32
from walshadow_core.pgformat.jit import kernel


@kernel
def put_labels(
    buf: Bytes,
    offset: NDArray[np.int32],
    kind: NDArray[np.uint8],
    first: int,
    offsets: NDArray[np.int32],
    data: Bytes,
    row: int,
    used: int,
    oids: NDArray[np.int64],
    ends: NDArray[np.int64],
    labels: Bytes,
) -> tuple[int, int, int]:
    """A columns.VarFill, but for the order of arguments: label i, ``labels[ends[i] : ends[i + 1]]``, has the oid
    ``oids[i]``; these ascend."""
    room = data.size - SLACK
    last = 0
    for i in range(first, kind.size):
        if kind[i] == KIND_VALUE:
            value = load32(buf, int(offset[i]))
            if last >= oids.size or oids[last] != value:
                last = int(np.searchsorted(oids, value))
                if last >= oids.size or oids[last] != value:
                    return BAD_VALUE, i, used
            count = int(ends[last + 1] - ends[last])
            if used + count > room:
                return NO_ROOM, i, used
            copy_bytes(labels, int(ends[last]), count, data, used)
            used += count
        offsets[row + i + 1] = used
    return DONE, kind.size, used


def labels_codec(use: TypeUse, codecs: Codecs) -> Codec:
    """Strings: an enum's own form is its text."""
    ordered = sorted(use.type.labels)
    texts = [label.encode() for _, label in ordered]
    oids = np.array([number for number, _ in ordered], np.int64)
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    labels: Bytes = np.frombuffer(bytearray(b"".join(texts)), np.uint8)

    def fill(
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
        return put_labels(buf, offset, kind, first, offsets, data, row, used, oids, ends, labels)

    reason = f"not a label of {use.type_name}: if the type was altered while the backup ran, load again"
    return Codec(pa.string(), lambda: VarColumn(pa.string(), fill, reason=reason))


CONTAINERS: dict[str, ContainerMaker] = {"e": labels_codec}
"""By PgType.kind."""
