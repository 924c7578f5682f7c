"""Encodings by the number that pg_database has (``mb/pg_wchar.h``), and names in them."""

from __future__ import annotations

from typing import Final

import numpy as np

from walshadow_core.api import FormatError
from walshadow_core.decode.encodings import transcode

NAME_BYTES: Final = 63
"""NAMEDATALEN - 1: bytes that a name can have."""

_ENCODINGS: Final = (
    "SQL_ASCII", "EUC_JP", "EUC_CN", "EUC_KR", "EUC_TW", "EUC_JIS_2004", "UTF8", "MULE_INTERNAL",
    "LATIN1", "LATIN2", "LATIN3", "LATIN4", "LATIN5", "LATIN6", "LATIN7", "LATIN8", "LATIN9", "LATIN10",
    "WIN1256", "WIN1258", "WIN866", "WIN874", "KOI8R", "WIN1251", "WIN1252",
    "ISO_8859_5", "ISO_8859_6", "ISO_8859_7", "ISO_8859_8", "WIN1250", "WIN1253", "WIN1254", "WIN1255", "WIN1257",
    "KOI8U",
)  # fmt: skip
"""The encodings that a database can have, in the order of the enum pg_enc."""


def encoding_name(number: int) -> str:
    """What pg_encoding_to_char prints. Raises FormatError for a number that no database has."""
    if not 0 <= number < len(_ENCODINGS):
        raise FormatError(f"pg_database has the unknown encoding {number}")
    return _ENCODINGS[number]


def decoded(name: bytes, encoding: str) -> str:
    """A name out of a catalog as text. Raises FormatError for one that is not valid in the database's encoding, and
    TableRefused for an encoding that can't be read."""
    if name.isascii():
        return name.decode("ascii")
    data, _ = transcode(np.frombuffer(bytearray(name), np.uint8), np.array([0, len(name)], np.int32), encoding, "error")
    return data.tobytes().decode()


def spelled(name: str, encoding: str) -> str:
    """A name as the server keeps it: what is too long is cut between two characters."""
    size = 0
    for at, character in enumerate(name):
        size += _width(character, encoding)
        if size > NAME_BYTES:
            return name[:at]
    return name


def _width(character: str, encoding: str) -> int:
    """Bytes of a character. In EUC the few that take three can only be in a name that is cut by one less."""
    if encoding in ("UTF8", "SQL_ASCII"):
        return len(character.encode(errors="surrogatepass"))
    return 2 if encoding.startswith("EUC") and not character.isascii() else 1
