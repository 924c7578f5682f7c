"""Request and response bodies: transfer and content codings, and a file that a body is kept in."""

from __future__ import annotations

import mmap
import sys
import tempfile
import zlib
from collections.abc import Iterator
from io import BufferedIOBase
from typing import IO, Any

import lz4.frame

from walshadow_sink_clickhouse.blocks import path_of, unnamed_file

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PIECE = 1 << 20
IN_MEMORY = 256 << 20
"""Bodies up to this are kept in memory, longer ones on disk."""


class BadRequest(Exception):
    """The request can't be understood."""


def read_body(stream: BufferedIOBase, chunked: bool, length: int) -> Iterator[memoryview]:
    """The body of a request as sent, in pieces: in chunks, or ``length`` bytes. A piece is valid until the next is
    taken. Raises BadRequest if it ends early."""
    buffer = memoryview(bytearray(min(length, PIECE) or PIECE))
    left = length
    while left or chunked:
        if not left:
            left = int(stream.readline(64).split(b";")[0] or b"0", 16)
            if not left:
                break
        got = stream.readinto(buffer[: min(left, PIECE)])
        if not got:
            raise BadRequest("the connection ended within the body")
        left -= got
        yield buffer[:got]
        if chunked and not left:
            stream.readline(8)
    while chunked and stream.readline(1 << 16).strip():
        pass


def decoded(pieces: Iterator[memoryview], encoding: str) -> Iterator[bytes | memoryview]:
    """``pieces`` without their content coding. Raises BadRequest if they are not in it, or end early: what is missing
    would be missing rows."""
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
    came = False
    for piece in pieces:
        came = True
        try:
            plain = decompressor.decompress(piece)
        except (RuntimeError, EOFError, zlib.error, zstd.ZstdError) as error:
            raise BadRequest(f"the body is not in {encoding}: {error}") from None
        yield plain
    if came and not decompressor.eof:
        raise BadRequest(f"the body ends within its {encoding} coding")


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
        self._file: IO[bytes] = unnamed_file("walshadow-body")
        self.length = 0

    @property
    def path(self) -> str:
        """The file's name for this process."""
        return path_of(self._file)

    def write(self, piece: bytes | memoryview) -> None:
        """Append."""
        if self.length <= IN_MEMORY < self.length + len(piece) and not isinstance(self._file.name, str):
            on_disk = tempfile.NamedTemporaryFile(prefix="walshadow-body-", buffering=0)  # noqa: SIM115
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
