"""One command read from a socket: whatever the pieces are in which a server's bytes come."""

from __future__ import annotations

import io
import random
import socket
import struct
import tarfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from walshadow_source_basebackup import messages
from walshadow_source_basebackup.messages import parse_error, parse_row, query
from walshadow_source_basebackup.plain import PlainCommand
from walshadow_source_basebackup.protocol import CONTENT
from walshadow_source_basebackup.source import BaseBackup

from walshadow_core.api import BackupStart, FormatError, Lsn, SourceError

READY = b"Z\0\0\0\5I"


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack(">I", len(body) + 4) + body


def row(*values: bytes | None) -> bytes:
    words = b"".join(struct.pack(">i", -1) if v is None else struct.pack(">i", len(v)) + v for v in values)
    return message(b"D", struct.pack(">H", len(values)) + words)


def rows(*all_rows: bytes) -> bytes:
    return message(b"T", b"\0\0") + b"".join(all_rows) + message(b"C", b"SELECT\0")


NOTICE = message(b"N", b"SNOTE\0\0")
COPY_OUT = message(b"H", b"\0\0\0")
COPY_DONE = message(b"c")
END = rows(row(b"0/5", b"1")) + message(b"C", b"SELECT\0") + READY


class Gave(Exception):
    """The peer has no more to say, and its socket stays open."""


@contextmanager
def told(answer: bytes, cuts: Sequence[int] = (), hang_up: bool = False) -> Iterator[PlainCommand]:
    """A command whose server says ``answer``, in pieces of these sizes, over and over."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    waiting = threading.Event()
    done = threading.Event()

    def speak() -> None:
        at, number = 0, 0
        while at < len(answer) and not done.is_set():
            size = cuts[number % len(cuts)] if cuts else len(answer)
            theirs.sendall(answer[at : at + size])
            at, number = at + size, number + 1
        if hang_up:
            theirs.shutdown(socket.SHUT_WR)
        waiting.set()

    def wait() -> None:
        if waiting.is_set() and not hang_up:
            with pytest.raises(BlockingIOError):
                ours.recv(1, socket.MSG_PEEK)
            raise Gave
        done.wait(0.0002)

    speaker = threading.Thread(target=speak, daemon=True)
    command = PlainCommand(ours.fileno(), threading.Lock(), wait, "the backup", CONTENT)
    try:
        command.send("BASE_BACKUP")
        speaker.start()
        yield command
    finally:
        done.set()
        command.close()
        ours.close()
        theirs.close()
        speaker.join()


def archive(sizes: Sequence[int], seed: int) -> tuple[bytes, dict[str, bytes]]:
    """A tar archive of files of these sizes, and what is in them."""
    rng = random.Random(seed)
    out = io.BytesIO()
    files = {f"base/5/{number}": rng.randbytes(size) for number, size in enumerate(sizes)}
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()[: -(-out.tell() // 512) * 512], files


def streamed(archive: bytes, sizes: Sequence[int], beside: Sequence[bytes]) -> bytes:
    """The archive in messages that carry these many bytes, over and over, other messages between."""
    said = [COPY_OUT, message(b"d", b"nbase.tar\0\0")]
    at, number = 0, 0
    while at < len(archive):
        size = sizes[number % len(sizes)]
        said += message(b"d", b"d" + archive[at : at + size]), beside[number % len(beside)]
        at, number = at + size, number + 1
    return b"".join([*said, COPY_DONE, END])


BESIDE = [b"", b"", b"", message(b"d", b"p" + bytes(8)), NOTICE, message(b"S", b"a\0b\0")]
START = BackupStart(b_redo=Lsn(1), timeline=1, system_identifier=1, server_version=180000)


def read_back(command: PlainCommand, view_sizes: Sequence[int]) -> dict[str, bytes]:
    command.begin_copy()
    taken = BaseBackup(command, START)
    found = {}
    number = 0
    for file in taken.parts()[0].files():
        content = bytearray()
        while True:
            view = memoryview(bytearray(view_sizes[number % len(view_sizes)]))
            number += 1
            filled = file.fill(view)  # type: ignore[attr-defined]
            content += view[:filled]
            if filled < len(view):
                break
        found[file.path] = bytes(content)
    assert taken.end().b_end == 5
    return found


@settings(max_examples=60, deadline=None)
@given(
    files=st.lists(st.integers(0, 200_000), max_size=4),
    sizes=st.lists(st.sampled_from([1, 511, 512, 4095, 4096, 8192, 32768]) | st.integers(1, 40_000), min_size=1, max_size=3),
    cuts=st.lists(st.sampled_from([1000, 5, 6, 32774, 100_000]) | st.integers(200, 200_000), min_size=1, max_size=4),
    views=st.lists(st.sampled_from([8192, 1 << 20, 4 << 20]) | st.integers(100, 300_000), min_size=1, max_size=3),
    beside=st.lists(st.sampled_from(BESIDE), min_size=1, max_size=5),
    seed=st.integers(0, 1000),
)  # fmt: skip
def test_whatever_the_pieces(
    files: list[int], sizes: list[int], cuts: list[int], views: list[int], beside: list[bytes], seed: int
) -> None:
    raw, expected = archive(files, seed)
    if min(sizes) < 512:
        sizes = [*sizes, 30_000]
    with told(streamed(raw, sizes, beside), cuts) as command:
        assert read_back(command, views) == expected
        assert not command.running


def test_a_large_file_as_a_server_sends_it() -> None:
    """Nearly all of it goes straight to where it is wanted."""
    raw, expected = archive([20 << 20], 1)
    with told(streamed(raw, [512, *[32768] * 641], [b""])) as command:
        into = 0
        real = command.content_into

        def counted(view: memoryview) -> int:
            nonlocal into
            size = real(view)
            into += size
            return size

        command.content_into = counted  # type: ignore[method-assign]
        assert read_back(command, [2 << 20]) == expected
        assert into > 16 << 20


def error(**fields: str) -> bytes:
    return message(b"E", b"".join(letter.encode() + text.encode() + b"\0" for letter, text in fields.items()) + b"\0")


FAILED = error(S="ERROR", C="58P01", M='could not open file "x"', H="")


@pytest.mark.parametrize("before", [b"", rows(row(b"0/1", b"1")), rows(row(b"0/1", b"1")) + rows() + COPY_OUT])
def test_errors_of_the_server(before: bytes) -> None:
    with told(before + NOTICE + FAILED + READY) as command:
        with pytest.raises(SourceError, match=r'the backup failed: could not open file "x" \(SQLSTATE 58P01\)'):
            command.rows()
            command.rows()
            command.begin_copy()
            command.copy_data()
        assert not command.running


def test_an_error_in_the_middle_of_the_stream_and_the_servers_hint() -> None:
    failed = error(C="57P01", M="terminating  connection", H="Do not.")
    content = message(b"d", b"d" + bytes(8192))
    with told(COPY_OUT + content * 3 + failed) as command:
        command.begin_copy()
        with pytest.raises(SourceError, match="terminating connection") as caught:
            while True:
                command.copy_data()
        assert caught.value.remedy == "Do not"


@pytest.mark.parametrize("cut", [1, 4, 7, 5000])
def test_the_server_is_gone(cut: int) -> None:
    content = message(b"d", b"d" + bytes(8192))
    with told((COPY_OUT + content * 2)[: len(COPY_OUT) + len(content) + cut], hang_up=True) as command:
        command.begin_copy()
        with pytest.raises(SourceError, match="broke off: the server closed the connection"):
            while command.copy_data() is not None:
                pass


@pytest.mark.parametrize(
    "answer",
    [
        b"T\0\0\0\3",
        b"T\x7f\0\0\0",
        message(b"T", b"\0\0") + COPY_OUT,
        COPY_OUT + message(b"d"),
        COPY_OUT + message(b"W", b"\0\0\0"),
        message(b"C", b"SELECT\0"),
    ],
)
def test_what_no_server_would_say(answer: bytes) -> None:
    with told(answer + bytes(10)) as command, pytest.raises(SourceError, match="otherwise than Postgres would"):
        if answer.startswith(b"H"):
            command.begin_copy()
            command.copy_data()
        command.rows()


def test_rows() -> None:
    with told(rows(row(b"0/1", None), row(b"", b"\xff")) + rows() + READY) as command:
        assert command.rows() == [("0/1", None), ("", "\ufffd")]
        assert command.rows() == []
        command.finish_command()


@given(st.binary(max_size=60))
def test_a_hostile_row(body: bytes) -> None:
    with suppress(FormatError):
        parse_row(body)
    assert isinstance(parse_error(body), dict)


def test_a_command_with_a_zero_byte() -> None:
    with pytest.raises(ValueError, match="zero byte"):
        query("a\0b")
    assert query("ab") == b"Q\0\0\0\7ab\0"
    assert messages.HEAD.size == 5


def test_draining_stops_at_the_end_of_the_command() -> None:
    content = message(b"d", b"d" + bytes(30_000))
    with told(COPY_OUT + content * 40 + error(C="57014", M="canceled") + READY) as command:
        command.begin_copy()
        command.copy_data()
        command.drain(20.0)
        assert not command.running
