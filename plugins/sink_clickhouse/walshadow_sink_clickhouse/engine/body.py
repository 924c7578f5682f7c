"""Request and response bodies: transfer and content codings, and a file that a body is kept in."""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from typing import IO, Any, BinaryIO

import lz4.frame

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PIECE = 1 << 20
IN_MEMORY = 256 << 20
"""Bodies up to this are kept in memory, longer ones on disk."""


class BadRequest(Exception):
    """The request can't be understood."""


def read_body(stream: BinaryIO, headers: Mapping[str, str]) -> Iterator[bytes]:
    """The body of a request as sent, in pieces: chunked or of a known length, no body if neither is said."""
    if "chunked" in headers.get("Transfer-Encoding", "").lower():
        while size := int(stream.readline(64).split(b";")[0] or b"0", 16):
            while size:
                piece = stream.read(min(size, PIECE))
                if not piece:
                    raise BadRequest("the connection ended within a chunk")
                size -= len(piece)
                yield piece
            stream.readline(8)
        while stream.readline(1 << 16).strip():
            pass
        return
    left = int(headers.get("Content-Length") or 0)
    while left:
        piece = stream.read(min(left, PIECE))
        if not piece:
            raise BadRequest("the connection ended within the body")
        left -= len(piece)
        yield piece


def decoded(pieces: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """``pieces`` without their content coding."""
    if encoding in ("", "identity"):
        yield from pieces
        return
    decompressor: Any
    if encoding == "lz4":
        decompressor = lz4.frame.LZ4FrameDecompressor()
    elif encoding == "zstd":
        decompressor = zstd.ZstdDecompressor()
    elif encoding in ("gzip", "deflate"):
        decompressor = zlib.decompressobj(zlib.MAX_WBITS | 32)
    else:
        raise BadRequest(f"Content-Encoding {encoding} is not supported")
    for piece in pieces:
        yield decompressor.decompress(piece)


def response_coding(accepted: str) -> str | None:
    """The coding to answer with, of those that an Accept-Encoding names."""
    names = [name.split(";")[0].strip() for name in accepted.lower().split(",")]
    return next((name for name in ("lz4", "zstd", "gzip") if name in names), None)


def encoded(pieces: Iterator[bytes], encoding: str | None) -> Iterator[bytes]:
    """``pieces`` in a content coding."""
    compressor: Any
    if encoding is None:
        yield from pieces
        return
    if encoding == "lz4":
        compressor = lz4.frame.LZ4FrameCompressor()
        yield compressor.begin()
    elif encoding == "zstd":
        compressor = zstd.ZstdCompressor(level=1)
    else:
        compressor = zlib.compressobj(1, wbits=zlib.MAX_WBITS | 16)
    for piece in pieces:
        if out := compressor.compress(piece):
            yield out
    yield compressor.flush()


class Spool:
    """A body in a file that the engine can read by ``path``: in memory, or on disk once it is long."""

    def __init__(self) -> None:
        self._file: IO[bytes] = self._in_memory()
        self.length = 0

    @staticmethod
    def _in_memory() -> IO[bytes]:
        if hasattr(os, "memfd_create"):
            return os.fdopen(os.memfd_create("walshadow-body"), "w+b", buffering=0)
        return tempfile.NamedTemporaryFile(buffering=0)

    @property
    def path(self) -> str:
        """The file's name for this process."""
        name = self._file.name
        return name if isinstance(name, str) else f"/proc/self/fd/{self._file.fileno()}"

    def write(self, piece: bytes) -> None:
        """Append."""
        if self.length <= IN_MEMORY < self.length + len(piece) and not isinstance(self._file.name, str):
            on_disk = tempfile.NamedTemporaryFile(prefix="walshadow-body-", buffering=0)
            self._file.seek(0)
            while moved := self._file.read(PIECE):
                on_disk.write(moved)
            self._file.close()
            self._file = on_disk
        view = memoryview(piece)
        while view:
            view = view[self._file.write(view) :]
        self.length += len(piece)

    def head(self, length: int) -> bytes:
        """The first bytes."""
        self._file.seek(0)
        return self._file.read(length)

    def without_head(self, length: int) -> Spool:
        """A new spool with what follows the first ``length`` bytes; this one is closed."""
        rest = Spool()
        if length < self.length:
            with mmap.mmap(self._file.fileno(), 0, prot=mmap.PROT_READ) as whole:
                for start in range(length, self.length, PIECE):
                    rest.write(whole[start : start + PIECE])
        self.close()
        return rest

    def close(self) -> None:
        """Give the memory or the file back."""
        self._file.close()
