"""A reader of tar archives that come in pieces, in memory only, with no copy of what is read.

Formats: POSIX ustar, GNU (long names, base-256 numbers) and pax headers. PostgreSQL writes ustar headers with
base-256 sizes past 8 GiB (``src/port/tar.c``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from walshadow_core.api import FormatError

BLOCK = 512
"""Headers and contents fill whole blocks of this many bytes."""

REGULAR = frozenset(b"0\x007")
"""Type flags of plain files (7: contiguous, to be read as plain)."""
WITHOUT_CONTENT = frozenset(b"123456")
"""Type flags of links, devices, folders and pipes: nothing to read."""
PAX_HEADER, PAX_GLOBAL, GNU_LONG_NAME, GNU_LONG_LINK = b"xgLK"

MAX_EXTENDED = 1 << 20
"""Bytes that a pax header or a GNU long name may have: far more than any path."""

_ZEROS = bytes(BLOCK)
_NOTHING = memoryview(b"")
_FIELD_PADDING = b" \0"


class TarFile:
    """One regular file of an archive: a ``BackupFile``."""

    __slots__ = ("_reader", "path", "size")

    def __init__(self, reader: TarReader, path: str, size: int) -> None:
        self._reader = reader
        self.path = path
        self.size = size

    def chunks(self) -> Iterator[memoryview]:
        """The content, in the pieces in which it came. Raises FormatError if the archive ends inside."""
        return self._reader.content_of(self)

    def fill(self, view: memoryview) -> int:
        """Put the next content into ``view``, as much as it holds; gives how many bytes, less only at the file's end.
        Raises FormatError if the archive ends before."""
        return self._reader.fill(self, view)


def _never(view: memoryview) -> int:
    return 0


class TarReader:
    """Reads one archive. ``pull`` gives the next piece of it, or None when it is over; ``pull_into`` puts what is next
    where it is wanted, and gives how many bytes, 0 where ``pull`` has to be asked; ``name`` is for messages; ``prefix``
    is put before every path."""

    def __init__(
        self,
        pull: Callable[[], memoryview | None],
        name: str,
        prefix: str = "",
        pull_into: Callable[[memoryview], int] = _never,
    ) -> None:
        self._pull = pull
        self._pull_into = pull_into
        self._name = name
        self._prefix = prefix
        self._rest = _NOTHING
        self._current: TarFile | None = None
        self._left = 0
        self._padding = 0

    def files(self) -> Iterator[TarFile]:
        """The regular files, in order. What is left unread of one is skipped when the next is asked for."""
        long_name: str | None = None
        pax: dict[bytes, bytes] = {}
        while True:
            header = self._take(BLOCK)
            if header == _ZEROS:
                break
            kind = header[156]
            size = self._check_and_size(header)
            if kind in (PAX_HEADER, PAX_GLOBAL, GNU_LONG_NAME, GNU_LONG_LINK):
                body = self._extended(size)
                if kind == PAX_HEADER:
                    pax = self._parse_pax(body)
                elif kind == GNU_LONG_NAME:
                    long_name = _text(body.rstrip(b"\0"))
                continue
            path = _text(pax[b"path"]) if b"path" in pax else long_name or _header_path(header)
            if b"size" in pax:
                size = self._decimal(pax[b"size"], "pax size")
            long_name, pax = None, {}
            if kind in WITHOUT_CONTENT:
                continue
            if kind not in REGULAR:
                raise self._broken(f"{path!r} has the type {chr(kind)!r}, which is not known")
            file = TarFile(self, self._prefix + self._normal(path), size)
            self._current, self._left, self._padding = file, size, -size % BLOCK
            yield file
            self._skip(self._left + self._padding)
            self._current = None
        self._end()

    def content_of(self, file: TarFile) -> Iterator[memoryview]:
        """The unread content of ``file``, which must be the one that ``files()`` gave last."""
        while True:
            self._require_current(file)
            left = self._left
            if not left:
                return
            rest = self._rest
            if not rest:
                rest = self._next()
            size = len(rest)
            if size <= left:
                self._rest = _NOTHING
                self._left = left - size
                yield rest
            else:
                self._rest = rest[left:]
                self._left = 0
                yield rest[:left]

    def fill(self, file: TarFile, view: memoryview) -> int:
        """Put the unread content of ``file``, which must be the one that ``files()`` gave last, into ``view``."""
        self._require_current(file)
        wanted = min(len(view), self._left)
        done = 0
        while done < wanted:
            part = 0 if self._rest else self._pull_into(view[done:wanted])
            if not part:
                rest = self._rest or self._next()
                part = min(len(rest), wanted - done)
                view[done : done + part] = rest[:part]
                self._rest = rest[part:]
            done += part
        self._left -= done
        return done

    def _require_current(self, file: TarFile) -> None:
        if self._current is not file:
            raise RuntimeError(f"{file.path}: its content after the next file was asked for")

    # -- pieces

    def _next(self) -> memoryview:
        piece = self._pull()
        if piece is None:
            raise self._too_early()
        return piece

    def _too_early(self) -> FormatError:
        where = f" inside {self._current.path}" if self._current else ""
        return self._broken(f"it ends too early{where}")

    def _skip(self, size: int) -> None:
        piece: memoryview | None = self._rest
        while piece is not None and size > len(piece):
            size -= len(piece)
            piece = self._pull()
        if piece is None:
            raise self._too_early()
        self._rest = piece[size:]

    def _take(self, size: int) -> bytes:
        rest = self._rest
        if len(rest) >= size:
            self._rest = rest[size:]
            return bytes(rest[:size])
        taken = bytearray(rest)
        while len(taken) < size:
            taken += self._next()
        self._rest = memoryview(taken)[size:]
        return bytes(taken[:size])

    def _end(self) -> None:
        if self._take(BLOCK) != _ZEROS:
            raise self._broken("a single block of zeros, where two end an archive")
        rest: memoryview | None = self._rest
        while rest is not None:
            if bytes(rest).strip(b"\0"):
                raise self._broken("there is something after its end")
            rest = self._pull()

    # -- headers

    def _check_and_size(self, header: bytes) -> int:
        stored = self._number(header[148:156], "checksum")
        if stored != sum(header[:148]) + sum(header[156:]) + 8 * ord(" "):
            raise self._broken(f"a header with a wrong checksum: {header[:100].rstrip(bytes(1))!r}")
        return self._number(header[124:136], "size")

    def _number(self, field: bytes, what: str) -> int:
        if field[0] == 0x80:
            return int.from_bytes(field[1:], "big")
        digits = field.strip(_FIELD_PADDING)
        if not digits:
            return 0
        if digits.strip(b"01234567"):
            raise self._broken(f"a header whose {what} is {field!r}")
        return int(digits, 8)

    def _decimal(self, digits: bytes, what: str) -> int:
        if not digits.isdigit() or len(digits) > 18:
            raise self._broken(f"a {what} of {digits[:40]!r}")
        return int(digits)

    def _extended(self, size: int) -> bytes:
        if size > MAX_EXTENDED:
            raise self._broken(f"an extended header of {size} bytes")
        body = self._take(size)
        self._skip(-size % BLOCK)
        return body

    def _parse_pax(self, body: bytes) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        while body:
            length_text, space, _ = body.partition(b" ")
            length = self._decimal(length_text, "pax record length") if space else 0
            record = body[len(length_text) + 1 : length]
            key, equals, value = record.partition(b"=")
            if not equals or length > len(body) or not value.endswith(b"\n"):
                raise self._broken(f"a malformed pax record: {body[:100]!r}")
            found[key] = value[:-1]
            body = body[length:]
        return found

    def _normal(self, path: str) -> str:
        words = [word for word in path.split("/") if word not in ("", ".")]
        if path.startswith("/") or ".." in words or not words:
            raise self._broken(f"the path {path!r} leads out of the data directory")
        return "/".join(words)

    def _broken(self, what: str) -> FormatError:
        return FormatError(f"archive {self._name}: {what}")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _header_path(header: bytes) -> str:
    name = header[:100].partition(b"\0")[0]
    if header[257:263] == b"ustar\0":
        prefix = header[345:500].partition(b"\0")[0]
        if prefix:
            name = prefix + b"/" + name
    return _text(name)
