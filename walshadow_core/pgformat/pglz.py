"""pglz, Postgres's own compression (``common/pg_lzcompress.h`` and ``.c``).

A stream is groups of a control byte and eight items, the lowest bit first: 0, a literal byte; 1, a match: four bits
of distance above four bits of length - 3, eight more bits of distance, and, where the four bits of length are all
ones, a byte to add to the length. The last group ends with the stream.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from walshadow_core.api import Bytes
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.words import SLACK, copy_bytes, load64, repeat_bytes, store64

MIN_MATCH: Final = 3
LONG_MATCH: Final = 18
"""A match of this length is followed by a byte to add to it."""
GROUP: Final = 24
"""No group's items take more bytes: eight matches of three bytes."""

_ZEROS = np.array([(n & -n).bit_length() - 1 if n else 8 for n in range(256)], np.uint8)
"""How many bits are 0 below the lowest 1 of a byte."""


@kernel
def pglz_decompress(buf: Bytes, at: int, size: int, out: Bytes, start: int, raw: int) -> bool:
    """Decompress ``buf[at : at + size]`` to ``out[start : start + raw]``; whether it is a stream of exactly that many
    bytes. Nothing outside of these ranges is read; behind the second one, SLACK bytes may be written to, as far as
    ``out`` goes."""
    if at < 0 or size < 0 or start < 0 or raw < 0 or at + size > buf.size or start + raw > out.size:
        return False
    one, two, eight = np.uint64(1), np.uint64(2), np.uint64(8)
    source, stop = np.uint64(at), np.uint64(at + size)
    first, target, end = np.uint64(start), np.uint64(start), np.uint64(start + raw)
    room = np.uint64(out.size)
    slack = np.uint64(SLACK)
    while source < stop and target < end:
        # A 1 above the eight bits says when all are used up.
        control = np.uint64(buf[source]) | np.uint64(256)
        source += one
        whole = source + np.uint64(GROUP) + eight <= stop
        while control != one and target < end and source < stop:
            if control & one == np.uint64(0):
                count = min(np.uint64(_ZEROS[control & np.uint64(255)]), end - target)
                control >>= count
                if whole and target + eight <= room:
                    store64(out, target, load64(buf, source))
                else:
                    count = min(count, stop - source)
                    copy_bytes(buf, source, out, target, count)
                source += count
                target += count
                continue
            control >>= one
            if source + two > stop:
                return False
            head = np.uint64(buf[source])
            distance = ((head & np.uint64(0xF0)) << np.uint64(4)) | np.uint64(buf[source + one])
            length = (head & np.uint64(0x0F)) + np.uint64(MIN_MATCH)
            source += two
            if length == np.uint64(LONG_MATCH):
                if source >= stop:
                    return False
                length += np.uint64(buf[source])
                source += one
            if distance == np.uint64(0) or distance > target - first:
                return False
            length = min(length, end - target)
            if target + length + slack <= room:
                repeat_bytes(out, distance, target, length)
            else:
                copy_bytes(out, target - distance, out, target, length)
            target += length
    return bool(target == end and source == stop)
