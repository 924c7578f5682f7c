"""LZ4 blocks, Postgres's other compression of values (the block format of the LZ4 project, without a frame).

A block is a row of sequences: a token (four bits of literals above four bits of match length - 4, each of them, where
all ones, continued by bytes that are added, up to one that is not 255), the literals, and a match's distance in two
bytes. The last sequence ends with its literals.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from walshadow_core.api import Bytes
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.words import SLACK, copy_bytes, copy_words, repeat_bytes

MIN_MATCH: Final = 4
CONTINUED: Final = 15
"""All four bits of a length: more bytes of it follow."""


@kernel
def _continued(buf: Bytes, source: np.uint64, stop: np.uint64) -> tuple[np.uint64, np.uint64]:
    """(what the bytes of a length add up to, the place after them); that place is past ``stop`` where it has no end."""
    total = np.uint64(0)
    while source < stop:
        byte = np.uint64(buf[source])
        source += np.uint64(1)
        total += byte
        if byte != np.uint64(255):
            return total, source
    return total, stop + np.uint64(1)


@kernel
def lz4_decompress(buf: Bytes, at: int, size: int, out: Bytes, start: int, raw: int) -> bool:
    """Decompress ``buf[at : at + size]`` to ``out[start : start + raw]``; whether it is a block of exactly that many
    bytes. Nothing outside of these ranges is read; behind the second one, SLACK bytes may be written to, as far as
    ``out`` goes."""
    if at < 0 or size < 0 or start < 0 or raw < 0 or at + size > buf.size or start + raw > out.size:
        return False
    one, two, slack = np.uint64(1), np.uint64(2), np.uint64(SLACK)
    source, stop = np.uint64(at), np.uint64(at + size)
    first, target, end = np.uint64(start), np.uint64(start), np.uint64(start + raw)
    room = np.uint64(out.size)
    while source < stop:
        token = np.uint64(buf[source])
        source += one
        count = token >> np.uint64(4)
        if count == np.uint64(CONTINUED):
            more, source = _continued(buf, source, stop)
            count += more
        if source > stop or count > stop - source or count > end - target:
            return False
        if source + count + slack <= stop and target + count + slack <= room:
            copy_words(buf, source, out, target, count)
        else:
            copy_bytes(buf, source, out, target, count)
        source += count
        target += count
        if source == stop:
            return bool(target == end)
        if source + two > stop:
            return False
        distance = np.uint64(buf[source]) | (np.uint64(buf[source + one]) << np.uint64(8))
        source += two
        length = token & np.uint64(15)
        if length == np.uint64(CONTINUED):
            more, source = _continued(buf, source, stop)
            length += more
        length += np.uint64(MIN_MATCH)
        if source > stop or distance == np.uint64(0) or distance > target - first or length > end - target:
            return False
        if target + length + slack <= room:
            repeat_bytes(out, distance, target, length)
        else:
            copy_bytes(out, target - distance, out, target, length)
        target += length
    return False
