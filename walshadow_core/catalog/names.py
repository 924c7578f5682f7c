"""Table names as people write them, and as Postgres's own parser reads them (``parser/scan.l``)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from walshadow_core.api import UsageError

_BARE = re.compile(r"[A-Za-z_\u0080-\U0010ffff][A-Za-z0-9_$\u0080-\U0010ffff]*")
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')
_NEEDS_NO_QUOTES = re.compile(r"[a-z_\u0080-\U0010ffff][a-z0-9_$\u0080-\U0010ffff]*")
_SPACE = " \t\n\r\f\v"
_FOLD = str.maketrans({chr(c): chr(c + 32) for c in range(ord("A"), ord("Z") + 1)})


@dataclass(frozen=True, slots=True)
class QualifiedName:
    """A relation's name with what was written before it; None for the parts that were not written.

    Prints as it could be written: quoted where it must be.
    """

    database: str | None
    schema: str | None
    name: str

    def __str__(self) -> str:
        parts = (self.database, self.schema, self.name)
        return ".".join(printable(part) for part in parts if part is not None)


def parse_qualified(text: str) -> QualifiedName:
    """Read ``name``, ``schema.name`` or ``database.schema.name``.

    Bare identifiers are folded to lower case (ASCII letters only, as in a multi-byte database), quoted ones
    are taken as they are, with two double quotes for one inside, and space may stand around the dots. Names that
    are too long are not cut here: the server does that, in its own encoding. Raises UsageError.
    """
    if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise UsageError(f"table name {text!a} has characters that no name can have")
    parts: list[str] = []
    rest = text.strip(_SPACE)
    while True:
        part, rest = _identifier(rest, text)
        parts.append(part)
        rest = rest.lstrip(_SPACE)
        if not rest:
            break
        if not rest.startswith("."):
            raise _wrong(text, f"{rest[0]!r} after {printable(part)}")
        rest = rest[1:].lstrip(_SPACE)
    if len(parts) > 3:
        raise _wrong(text, "too many dots")
    database, schema, name = (None, None, *parts)[-3:]
    assert name is not None
    return QualifiedName(database, schema, name)


def quote_identifier(name: str) -> str:
    """An identifier for SQL, always in double quotes."""
    return '"' + name.replace('"', '""') + '"'


def printable(name: str) -> str:
    """An identifier for people and for ``--table``: in double quotes only where `parse_qualified` needs them."""
    return name if _NEEDS_NO_QUOTES.fullmatch(name) else quote_identifier(name)


def printable_name(schema: str, name: str) -> str:
    """``schema.name`` as it can be given to ``--table``."""
    return f"{printable(schema)}.{printable(name)}"


def _identifier(rest: str, text: str) -> tuple[str, str]:
    """The identifier at the start of ``rest``, and what follows it."""
    if rest.startswith('"'):
        quoted = _QUOTED.match(rest)
        if quoted is None:
            raise _wrong(text, "a double quote is not closed")
        if not quoted[1]:
            raise _wrong(text, "an empty name")
        return quoted[1].replace('""', '"'), rest[quoted.end() :]
    bare = _BARE.match(rest)
    if bare is None:
        raise _wrong(text, f"{rest[0]!r} where a name should start" if rest else "a name is missing")
    return bare[0].translate(_FOLD), rest[bare.end() :]


def _wrong(text: str, what: str) -> UsageError:
    return UsageError(
        f"{text!r} is not a table name: {what}",
        'write schema.table, with double quotes around parts with other characters: app."Order Lines"',
    )
