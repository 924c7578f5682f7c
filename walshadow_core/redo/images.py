"""Page images of WAL records (``access/xlogrecord.h``) to pages."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import zstandard

from walshadow_core.api import Bytes
from walshadow_core.pgformat.heap import PAGE_SIZE
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.lz4 import lz4_decompress
from walshadow_core.pgformat.pglz import pglz_decompress
from walshadow_core.pgformat.walrecord import (
    IMAGE_APPLY,
    IMAGE_COMPRESSED,
    IMAGE_LZ4,
    IMAGE_PGLZ,
    IMAGE_ZSTD,
    WalRecords,
)
from walshadow_core.redo.pages import copy

SCRATCH: Final = 2 * PAGE_SIZE
"""Bytes of scratch that restore_image wants."""


@kernel
def restore_image(page: Bytes, scratch: Bytes, buf: Bytes, at: int, size: int, info: int, hole: int, gap: int) -> bool:
    """RestoreBlockImage: the image of ``size`` bytes at ``at``, with ``gap`` zeros put back at ``hole``. False if it
    is not the image of a page. ``walrecord`` has checked the numbers."""
    length = PAGE_SIZE - gap
    source = buf
    if info & IMAGE_COMPRESSED != 0:
        if info & IMAGE_PGLZ != 0:
            whole = pglz_decompress(buf, at, size, scratch, 0, length)
        elif info & IMAGE_LZ4 != 0:
            whole = lz4_decompress(buf, at, size, scratch, 0, length)
        else:
            whole = False
        if not whole:
            return False
        source = scratch
        at = 0
    elif size != length:
        return False
    copy(source, at, page, 0, hole)
    for k in range(hole, hole + gap):
        page[k] = 0
    copy(source, at + hole, page, hole + gap, length - hole)
    return True


def without_zstd(records: WalRecords) -> WalRecords:
    """The same records, with images that zstd compressed laid out behind them as they are; the records themselves
    where there is none. One that can't be decompressed stays, and can't be restored."""
    b = records.blocks
    packed = np.flatnonzero((b.image_info & (IMAGE_ZSTD | IMAGE_APPLY)) == (IMAGE_ZSTD | IMAGE_APPLY))
    if not len(packed):
        return records
    decompressor = zstandard.ZstdDecompressor()
    pieces = [records.buf]
    used = len(records.buf)
    offset, length, info = b.image_offset.copy(), b.image_length.copy(), b.image_info.copy()
    for k in packed.tolist():
        image = records.buf[offset[k] : offset[k] + length[k]].tobytes()
        size = PAGE_SIZE - int(b.hole_length[k])
        try:
            page = decompressor.decompress(image, max_output_size=size)
        except zstandard.ZstdError:
            continue
        if len(page) == size:
            pieces.append(np.frombuffer(page, np.uint8))
            offset[k], length[k] = used, size
            info[k] &= ~np.uint8(IMAGE_ZSTD)
            used += size
    blocks = replace(b, image_offset=offset, image_length=length, image_info=info)
    return replace(records, buf=np.concatenate(pieces), blocks=blocks)
