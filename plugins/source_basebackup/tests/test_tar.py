"""The tar reader against Python's own tarfile as the writer, in pieces of every size."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from walshadow_source_basebackup.tar import BLOCK, MAX_EXTENDED, TarReader

from walshadow_core.api import FormatError

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
END = bytes(2 * BLOCK)


def member(path: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, form: str = "ustar") -> bytes:
    """One member as tarfile writes it: its header (or headers), content, padding."""
    info = tarfile.TarInfo(path)
    info.size, info.type, info.linkname = len(content), kind, "target"
    return info.tobuf(FORMATS[form]) + content + bytes(-len(content) % BLOCK)


def patched(raw: bytes, start: int, new: bytes) -> bytes:
    """A header with some bytes replaced and its checksum made right again."""
    header = bytearray(raw[:BLOCK])
    header[start : start + len(new)] = new
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + raw[BLOCK:]


def reader(pieces: Iterable[bytes], prefix: str = "") -> TarReader:
    source = iter(pieces)
    return TarReader(lambda: None if (p := next(source, None)) is None else memoryview(p), "base.tar", prefix)


def read(pieces: Iterable[bytes], prefix: str = "") -> list[tuple[str, bytes]]:
    return [(f.path, b"".join(map(bytes, f.chunks()))) for f in reader(pieces, prefix).files()]


def cut(raw: bytes, size: int) -> Iterator[bytes]:
    return (raw[i : i + size] for i in range(0, len(raw), size))


@pytest.mark.parametrize("form", FORMATS)
def test_what_tarfile_writes_is_read(form: str) -> None:
    long = "base/" + "x" * 90 + "/" + "y" * 60
    files = [("PG_VERSION", b"17\n"), (long, b"z" * 5000), ("empty", b""), ("whole", b"w" * BLOCK)]
    raw = b"".join(member(path, content, form=form) for path, content in files) + END
    assert read([raw]) == files
    assert read(cut(raw, 100)) == files


def test_names_in_unicode_and_pax_sizes() -> None:
    raw = member("base/größe", b"12", form="pax") + END
    assert b"path=" in raw
    assert read([raw]) == [("base/größe", b"12")]
    record = b"12 size=512\n"
    sized = patched(member("x", record), 156, b"x") + patched(member("f", b"q" * BLOCK), 124, b"0" * 11 + b"\0")
    assert read([sized + END]) == [("f", b"q" * BLOCK)]


@given(
    contents=st.lists(st.integers(0, 3000), max_size=6),
    cuts=st.lists(st.integers(1, 2000), min_size=1, max_size=40),
    taken=st.lists(st.integers(0, 4), min_size=6, max_size=6),
)
def test_pieces_of_any_size_and_any_part_of_a_file(contents: list[int], cuts: list[int], taken: list[int]) -> None:
    files = [(f"f{i}", bytes([i + 1]) * size) for i, size in enumerate(contents)]
    raw = b"".join(member(path, content) for path, content in files) + END
    pieces, at = [], 0
    while at < len(raw):
        pieces.append(raw[at : at + cuts[len(pieces) % len(cuts)]])
        at += len(pieces[-1])
    assert read(pieces) == files
    for file, want, (path, content) in zip(reader(pieces).files(), taken, files, strict=False):
        assert (file.path, file.size) == (path, len(content))
        got = b"".join(piece for piece, _ in zip(file.chunks(), range(want), strict=False))
        assert content.startswith(got)


def test_content_is_not_copied() -> None:
    """A piece that lies within one file is handed on as it is."""
    piece = b"c" * 32768
    header = member("f", b"")
    header = patched(header, 124, b"%011o\0" % (2 * len(piece)))
    [file] = (f for f in reader([header, piece, piece, END]).files() if (chunks := list(f.chunks())))
    assert file.size == 2 * len(piece)
    assert all(chunk.obj is piece for chunk in chunks)


def test_prefix_and_steps_that_say_nothing() -> None:
    raw = member("./16384//16385") + END
    assert read([raw], "pg_tblspc/77/") == [("pg_tblspc/77/16384/16385", b"")]


def test_what_is_not_a_file_is_passed_over() -> None:
    kinds = (tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE)
    raw = b"".join(member(f"d{i}", kind=kind) for i, kind in enumerate(kinds)) + member("f", b"1") + END
    long_link = tarfile.TarInfo("link")
    long_link.type, long_link.linkname = tarfile.SYMTYPE, "t" * 200
    assert read([long_link.tobuf(tarfile.GNU_FORMAT) + raw]) == [("f", b"1")]


def test_sizes_past_octal() -> None:
    size = 9 << 30
    raw = patched(member("big"), 124, b"\x80" + size.to_bytes(11, "big"))
    files = reader([raw]).files()
    assert next(files).size == size
    with pytest.raises(FormatError, match=r"base\.tar: it ends too early inside big"):
        next(files)


def test_every_truncation_is_an_error() -> None:
    raw = member("f", b"1" * 700) + member("g") + END
    for size in range(len(raw)):
        with pytest.raises(FormatError, match="ends too early"):
            read([raw[:size]])


def test_every_damaged_byte_of_a_header_is_an_error() -> None:
    raw = member("f", b"1") + END
    for at in range(BLOCK):
        damaged = bytearray(raw)
        damaged[at] ^= 0x10
        if chr(raw[at]) == "0" and chr(damaged[at]) == " " and at == 148:
            continue  # the checksum's own leading zero may as well be a space
        with pytest.raises(FormatError):
            read([bytes(damaged)])


@pytest.mark.parametrize("path", ["../etc/passwd", "/etc/passwd", "base/../../x", "..", "./", "."])
def test_paths_that_lead_out_are_refused(path: str) -> None:
    raw = patched(member("x"), 0, path.encode().ljust(100, b"\0"))
    with pytest.raises(FormatError, match="leads out of the data directory"):
        read([raw + END])
    with pytest.raises(FormatError, match="leads out of the data directory"):
        read([patched(member("@LongLink", path.encode() + b"\0"), 156, b"L") + member("short") + END])


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (patched(member("f"), 156, b"S") + END, "type 'S'"),
        (patched(member("f"), 124, b"\xff" * 12) + END, "size"),
        (patched(member("f"), 124, b"12x45678901\0") + END, "size"),
        (member("f") + bytes(BLOCK) + member("g"), "a single block of zeros"),
        (member("f") + END + b"more", "after its end"),
        (patched(patched(member("f"), 156, b"L"), 124, b"%011o\0" % (MAX_EXTENDED + 1)), "extended header"),
        (patched(member("x", b"9999999 path=a\n"), 156, b"x") + member("f") + END, "malformed pax"),
        (patched(member("x", b"no length here"), 156, b"x") + member("f") + END, "pax record length"),
        (patched(member("x", b"0 path=a\n"), 156, b"x") + member("f") + END, "malformed pax"),
        (patched(member("x", b"12 size=-12\n"), 156, b"x") + member("f") + END, "pax size"),
        (patched(member("x", b"nospace"), 156, b"x") + member("f") + END, "malformed pax"),
    ],
)
def test_what_is_not_understood_is_an_error(raw: bytes, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        read([raw])


def test_chunks_of_a_file_that_went_by() -> None:
    files = reader([member("f", b"1") + member("g", b"2") + END]).files()
    first = next(files)
    next(files)
    with pytest.raises(RuntimeError, match="f: its content after"):
        list(first.chunks())
    with pytest.raises(RuntimeError, match="f: its content after"):
        first.fill(memoryview(bytearray(1)))
