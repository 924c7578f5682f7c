"""Compressing what goes over the network: a piece at a time, while it is sent."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import lz4.frame

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_PIECE = 1 << 20


def _compressor(method: str) -> Any:
    if method == "lz4":
        return lz4.frame.LZ4FrameCompressor(block_size=lz4.frame.BLOCKSIZE_MAX1MB, block_linked=False)
    return zstd.ZstdCompressor(level=1)


def compressed(data: memoryview, method: str) -> Iterator[bytes]:
    """``data`` compressed with ``method`` (``lz4`` frame or ``zstd``), in pieces as they are made."""
    compressor = _compressor(method)
    if method == "lz4":
        yield compressor.begin()
    for start in range(0, len(data), _PIECE):
        piece = compressor.compress(data[start : start + _PIECE])
        if piece:
            yield piece
    yield compressor.flush()
