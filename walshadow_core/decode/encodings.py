"""Text columns from a database's encoding to UTF-8, a whole column at a time.

The server encodings of Postgres (``mb/pg_wchar.h``) but UTF8 and SQL_ASCII are byte sets of two shapes: one byte
per character, or EUC, where a high byte leads two bytes, 0x8e (SS2) two and 0x8f (SS3) three. Either way each
byte sequence is one look-up in a table, made once per process from Python's codec and corrected where Postgres's
own conversion differs; test_encodings holds every byte sequence against ``convert_from`` of real servers.

Postgres checks only the shape of what comes in, so that a database can hold bytes that its own conversion has no
character for (0x81 in WIN1252): reading such a value with SQL is an error, and here it is invalid text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from walshadow_core.api import Bytes, FormatError, TableRefused
from walshadow_core.decode.columns import MAX_VAR_BYTES
from walshadow_core.pgformat.jit import kernel

Policy = Literal["error", "replace", "bytes"]
"""What becomes of invalid text: FormatError, U+FFFD per bad sequence, or the stored bytes as they are."""

_SINGLE_BYTE: Final = {
    "LATIN1": "iso8859-1", "LATIN2": "iso8859-2", "LATIN3": "iso8859-3", "LATIN4": "iso8859-4",
    "LATIN5": "iso8859-9", "LATIN6": "iso8859-10", "LATIN7": "iso8859-13", "LATIN8": "iso8859-14",
    "LATIN9": "iso8859-15", "LATIN10": "iso8859-16",
    "ISO_8859_5": "iso8859-5", "ISO_8859_6": "iso8859-6", "ISO_8859_7": "iso8859-7", "ISO_8859_8": "iso8859-8",
    "WIN866": "cp866", "WIN874": "cp874", "WIN1250": "cp1250", "WIN1251": "cp1251", "WIN1252": "cp1252",
    "WIN1253": "cp1253", "WIN1254": "cp1254", "WIN1255": "cp1255", "WIN1256": "cp1256", "WIN1257": "cp1257",
    "WIN1258": "cp1258",
    "KOI8R": "koi8-r", "KOI8U": "koi8-u",
}  # fmt: skip
_AS_IS: Final = ("UTF8", "SQL_ASCII")

_FIRST, _LAST = 0xA1, 0xFE
_CELLS: Final = _LAST - _FIRST + 1
_SS2, _SS3 = 0x8E, 0x8F
_SS2_AT: Final = _CELLS * _CELLS
_SS3_AT: Final = _SS2_AT + _CELLS
"""An EUC table: two bytes of 0xa1..0xfe from 0 on, SS2 and one byte, SS3 and two bytes."""

_LENGTH_SHIFT: Final = 56
_BYTE = np.uint64(0xFF)
_EIGHT = np.uint64(8)
_DONE, _INVALID, _TOO_LONG = 0, 1, 2


class InvalidText(FormatError):
    """Text that is not valid in the database's encoding. ``row`` is its index in the column."""

    def __init__(self, row: int, encoding: str, detail: str) -> None:
        super().__init__(
            f"text is not valid in the database's encoding {encoding}: {detail}",
            "choose what becomes of such text with the invalid_text policy: bytes, or (not in a key) replace",
        )
        self.row = row


def refuse_encoding(encoding: str) -> TableRefused | None:
    """The error for a database whose text can't be turned into UTF-8 faithfully; None for all others."""
    if encoding in _AS_IS or encoding in _SINGLE_BYTE or encoding in _EUC:
        return None
    return TableRefused(
        f"the database's encoding {encoding} is not supported",
        "with the invalid_text policy bytes, text columns are loaded as the bytes that are stored",
    )


def transcode(
    data: Bytes, offsets: NDArray[np.int32], encoding: str, policy: Policy
) -> tuple[Bytes, NDArray[np.int32]]:
    """A column of text in a database's encoding, as UTF-8.

    ``offsets`` int32[n+1] into ``data``, as Arrow has them: value i is data[offsets[i] : offsets[i + 1]], and
    offsets[0] is 0. Gives (data, offsets) of the same n values, the arguments themselves where nothing had to
    change. SQL_ASCII text is taken for UTF-8. With the policy ``bytes`` nothing changes at all. A zero byte,
    which text in Postgres never has, is invalid. Raises InvalidText (policy ``error``), the TableRefused of
    refuse_encoding, and FormatError if the column needs more than 2 GiB.
    """
    if policy == "bytes" or data.size == 0 or (data.max() < 0x80 and data.min() > 0):
        return data, offsets
    refused = refuse_encoding(encoding)
    if refused is not None:
        raise refused
    if encoding in _AS_IS:
        return _check_utf8(data, offsets, encoding, policy)
    table, euc = _table(encoding)
    # No byte sequence becomes more than three times its length, and an invalid byte becomes three.
    out = np.empty(min(3 * data.size, MAX_VAR_BYTES), np.uint8)
    out_offsets = np.empty(offsets.size, np.int32)
    status, row, at = transcode_table(data, offsets, table, euc, policy == "replace", out, out_offsets)
    if status == _TOO_LONG:
        raise FormatError("a column's text needs more than 2 GiB in one block")
    if status == _INVALID:
        raise InvalidText(row, encoding, _describe(data[at : min(at + 3, int(offsets[row + 1]))]))
    return out[:at], out_offsets


def _describe(sequence: Bytes) -> str:
    return f"no character is encoded as {sequence.tobytes().hex(' ')}"


# ------------------------------------------------------------------------------------- UTF8, SQL_ASCII


def _check_utf8(
    data: Bytes, offsets: NDArray[np.int32], encoding: str, policy: Policy
) -> tuple[Bytes, NDArray[np.int32]]:
    try:
        pa.StringArray.from_buffers(offsets.size - 1, pa.py_buffer(offsets), pa.py_buffer(data)).validate(full=True)
    except pa.ArrowInvalid:
        pass
    else:
        if data.min() > 0:
            return data, offsets
    # A zero byte between the values: no character spans it, and it shows where values end afterwards.
    n = offsets.size - 1
    ends = offsets[1:].astype(np.int64) + np.arange(n)
    inside = np.ones(data.size + n, bool)
    inside[ends] = False
    joined = np.zeros(data.size + n, np.uint8)
    # 0xff is invalid as well, and can be told from the end of a value.
    joined[inside] = np.where(data == 0, np.uint8(0xFF), data)
    if policy == "error":
        at = _first_invalid_utf8(joined)
        row = int(np.searchsorted(ends, at))
        start = at - row
        raise InvalidText(row, encoding, _describe(data[start : min(start + 4, int(offsets[row + 1]))]))
    text = np.frombuffer(bytearray(joined.tobytes().decode("utf-8", "replace").encode()), np.uint8)
    stops = np.flatnonzero(text == 0)
    if text.size - n > MAX_VAR_BYTES:
        raise FormatError("a column's text needs more than 2 GiB in one block")
    fixed = np.zeros(n + 1, np.int32)
    fixed[1:] = stops - np.arange(n)
    return text[text != 0], fixed


def _first_invalid_utf8(joined: Bytes) -> int:
    try:
        joined.tobytes().decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start
    raise AssertionError("called for valid text")


# ---------------------------------------------------------------------------------------- all others


@kernel
def _euc_code(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """(length, table index) of the sequence at ``at``; (1, -1) if its bytes have not the shape of a character."""
    lead = int(data[at])
    step = 3 if lead == _SS3 else 2
    if at + step > end:
        return 1, -1
    for k in range(1, step):
        if not _FIRST <= data[at + k] <= _LAST:
            return 1, -1
    last = int(data[at + step - 1]) - _FIRST
    if lead == _SS2:
        return step, _SS2_AT + last
    if lead == _SS3:
        return step, _SS3_AT + (int(data[at + 1]) - _FIRST) * _CELLS + last
    if not _FIRST <= lead <= _LAST:
        return 1, -1
    return step, (lead - _FIRST) * _CELLS + last


@kernel
def transcode_table(
    data: Bytes,
    offsets: NDArray[np.int32],
    table: NDArray[np.uint64],
    euc: bool,
    replace: bool,
    out: Bytes,
    out_offsets: NDArray[np.int32],
) -> tuple[int, int, int]:
    """Look up every byte sequence of n values and write its UTF-8 to ``out``, the ends to ``out_offsets``.

    An entry of ``table`` holds up to 6 bytes, first one lowest, and their count in its top byte; 0 is no
    character. ``replace``: U+FFFD for those, else (_INVALID, row, offset in data). Returns (_DONE, n, bytes
    written) or (_TOO_LONG, row, 0).
    """
    size = data.size
    room = out.size
    to = 0
    n = offsets.size - 1
    out_offsets[0] = 0
    for i in range(n):
        at = max(int(offsets[i]), 0)
        end = min(int(offsets[i + 1]), size)
        while at < end:
            # 8 is more than an entry has, so that most values need no further check.
            if to + 8 > room and to + 3 * (end - at) > room:
                return _TOO_LONG, i, 0
            byte = int(data[at])
            if 0 < byte < 0x80:
                out[to] = byte
                to += 1
                at += 1
                continue
            step, index = _euc_code(data, at, end) if euc else (1, byte)
            entry = table[index] if index >= 0 else np.uint64(0)
            if entry == np.uint64(0):
                if not replace:
                    return _INVALID, i, at
                out[to] = 0xEF
                out[to + 1] = 0xBF
                out[to + 2] = 0xBD
                to += 3
            else:
                for _ in range(int(entry >> np.uint64(_LENGTH_SHIFT))):
                    out[to] = np.uint8(entry & _BYTE)
                    entry >>= _EIGHT
                    to += 1
            at += step
        out_offsets[i + 1] = to
    return _DONE, n, to


def _entry(character: str) -> int:
    encoded = character.encode()
    return int.from_bytes(encoded, "little") | len(encoded) << _LENGTH_SHIFT


def _euc_index(sequence: bytes) -> int:
    lead, last = sequence[0], sequence[-1] - _FIRST
    if lead == _SS2:
        return _SS2_AT + last
    if lead == _SS3:
        return _SS3_AT + (sequence[1] - _FIRST) * _CELLS + last
    return (lead - _FIRST) * _CELLS + last


def euc_sequences() -> Iterator[bytes]:
    """Every byte sequence of EUC that can be a character outside ASCII."""
    pairs = [bytes((a, b)) for a in range(_FIRST, _LAST + 1) for b in range(_FIRST, _LAST + 1)]
    yield from pairs
    yield from (bytes((_SS2, b)) for b in range(_FIRST, _LAST + 1))
    yield from (bytes((_SS3,)) + pair for pair in pairs)


def single_byte_sequences() -> Iterator[bytes]:
    """Every byte outside ASCII."""
    return (bytes((b,)) for b in range(0x80, 0x100))


def supported_encodings() -> dict[str, list[bytes]]:
    """Every encoding that a table does, and the byte sequences that can be a character of it outside ASCII."""
    return {
        **{name: list(single_byte_sequences()) for name in _SINGLE_BYTE},
        **{name: list(euc_sequences()) for name in _EUC},
    }


@cache
def _table(encoding: str) -> tuple[NDArray[np.uint64], bool]:
    """(the look-up table, whether it is EUC) of an encoding."""
    if encoding in _SINGLE_BYTE:
        table = np.zeros(256, np.uint64)
        for sequence in single_byte_sequences():
            character = _decoded(sequence, _SINGLE_BYTE[encoding])
            if character is not None:
                table[sequence[0]] = _entry(character)
        return table, False
    euc = _EUC[encoding]
    corrections = euc.corrections()
    table = np.zeros(_SS3_AT + _CELLS * _CELLS, np.uint64)
    for sequence in euc_sequences():
        character = corrections[sequence] if sequence in corrections else _decoded(sequence, euc.codec)
        if character is not None:
            table[_euc_index(sequence)] = _entry(character)
    return table, True


def _decoded(sequence: bytes, codec: str) -> str | None:
    try:
        return sequence.decode(codec)
    except UnicodeDecodeError:
        return None


# ----------------------------------------------------- where Postgres's tables are not those of Python


def _eucjp_corrections() -> dict[bytes, str | None]:
    """Postgres has eucJP-ms: seven characters map as Microsoft maps them, and NEC's row 13 and IBM's extensions
    (both of cp932) are there. It has no character for 0x8fa2b7, which is a tilde to Python."""
    fixed: dict[bytes, str | None] = {
        b"\xa1\xc1": "\uff5e", b"\xa1\xc2": "\u2225", b"\xa1\xdd": "\uff0d", b"\xa1\xf1": "\uffe0",
        b"\xa1\xf2": "\uffe1", b"\xa2\xcc": "\uffe2", b"\x8f\xa2\xc3": "\uffe4", b"\x8f\xa2\xb7": None,
    }  # fmt: skip
    trails = [*range(0x40, 0x7F), *range(0x80, 0xFD)]
    for cell in range(_CELLS):
        fixed[bytes((0xAD, _FIRST + cell))] = _decoded(bytes((0x87, trails[cell])), "cp932")
    extensions = (_decoded(bytes((lead, trail)), "cp932") for lead in (0xFA, 0xFB, 0xFC) for trail in trails)
    # In IBM's order from 0x8ff3f3 on, without those that JIS X 0208 and 0212 have; the numero sign comes twice.
    left_out = "\uffe2\uffe4"
    added = [
        c for c in extensions if c is not None and c not in left_out and (c == "\u2116" or not _in_python_eucjp(c))
    ]
    for at, character in enumerate(added, (0xF3 - _FIRST) * _CELLS + 0xF3 - _FIRST):
        fixed[bytes((_SS3, _FIRST + at // _CELLS, _FIRST + at % _CELLS))] = character
    return fixed


def _in_python_eucjp(character: str) -> bool:
    try:
        character.encode("euc_jp")
    except UnicodeEncodeError:
        return False
    return True


def _euc_jis_2004_corrections() -> dict[bytes, str | None]:
    """Python also takes the rows of JIS X 0212 behind SS3, which are not of this encoding, and maps five
    characters in another way."""
    fixed: dict[bytes, str | None] = {
        b"\xa1\xb1": "\u203e", b"\xa1\xbd": "\u2014", b"\xa1\xef": "\xa5", b"\xa2\xd6": "\uff5f",
        b"\xa2\xd7": "\uff60",
    }  # fmt: skip
    plane_2 = {1, 3, 4, 5, 8, *range(12, 16), *range(78, 95)}
    for row in range(1, _CELLS + 1):
        if row not in plane_2:
            for cell in range(_FIRST, _LAST + 1):
                fixed[bytes((_SS3, 0xA0 + row, cell))] = None
    return fixed


@dataclass(frozen=True)
class _Euc:
    """Python's codec for an EUC encoding, and what Postgres has instead for some byte sequences (None: nothing)."""

    codec: str
    corrections: Callable[[], dict[bytes, str | None]]


_EUC: Final = {
    "EUC_JP": _Euc("euc_jp", _eucjp_corrections),
    "EUC_CN": _Euc("gb2312", dict),
    # Two later additions to the standard; Python's codec takes the second for the start of a composed syllable.
    "EUC_KR": _Euc("euc_kr", lambda: {b"\xa2\xe8": "\u327e", b"\xa4\xd4": "\u3164"}),
    "EUC_JIS_2004": _Euc("euc_jis_2004", _euc_jis_2004_corrections),
}
