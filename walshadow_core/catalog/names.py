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


@dataclass(frozen=True, slots=True)
class ColumnName:
    """A column with its table, as it was written; ``schema`` is None where it was not."""

    schema: str | None
    table: str
    column: str

    def __str__(self) -> str:
        parts = (self.schema, self.table, self.column)
        return ".".join(printable(part) for part in parts if part is not None)


def parse_qualified(text: str) -> QualifiedName:
    """Read ``name``, ``schema.name`` or ``database.schema.name``.

    Bare identifiers are folded to lower case (ASCII letters only, as in a multi-byte database), quoted ones
    are taken as they are, with two double quotes for one inside, and space may stand around the dots. Names that
    are too long are not cut here: the server does that, in its own encoding. Raises UsageError.
    """
    parts, _ = _dotted(text, _TABLE)
    if len(parts) > 3:
        raise _TABLE.wrong(text, "too many dots")
    database, schema, name = (None, None, *parts)[-3:]
    assert name is not None
    return QualifiedName(database, schema, name)


def parse_column(text: str) -> tuple[ColumnName, str | None]:
    """Read ``table.column`` or ``schema.table.column`` by the rules of `parse_qualified`, and what follows an ``=``,
    None if there is none. Raises UsageError."""
    parts, value = _dotted(text, _COLUMN)
    if len(parts) not in (2, 3):
        raise _COLUMN.wrong(text, "too many dots" if len(parts) > 3 else "its table is missing")
    schema, table, column = (None, *parts)[-3:]
    assert table is not None and column is not None
    return ColumnName(schema, table, column), value


def quote_identifier(name: str) -> str:
    """An identifier for SQL, always in double quotes."""
    return '"' + name.replace('"', '""') + '"'


def printable(name: str) -> str:
    """An identifier for people and for ``--table``: in double quotes only where `parse_qualified` needs them."""
    return name if _NEEDS_NO_QUOTES.fullmatch(name) else quote_identifier(name)


def printable_name(schema: str, name: str) -> str:
    """``schema.name`` as it can be given to ``--table``."""
    return f"{printable(schema)}.{printable(name)}"


@dataclass(frozen=True)
class _Kind:
    """What is read, for errors. ``end`` is what may follow it."""

    what: str
    remedy: str
    end: str = ""

    def wrong(self, text: str, what: str) -> UsageError:
        return UsageError(f"{text!r} is not a {self.what} name: {what}", self.remedy)


_TABLE = _Kind("table", 'write schema.table, with double quotes around parts with other characters: app."Order Lines"')
_COLUMN = _Kind(
    "column",
    'write schema.table.column, with double quotes around parts with other characters: app."Order Lines".note',
    "=",
)


def _dotted(text: str, kind: _Kind) -> tuple[list[str], str | None]:
    """The identifiers between dots, and what follows ``kind.end``."""
    if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise UsageError(f"{kind.what} name {text!a} has characters that no name can have")
    parts: list[str] = []
    rest = text.strip(_SPACE)
    while True:
        part, rest = _identifier(rest, text, kind)
        parts.append(part)
        rest = rest.lstrip(_SPACE)
        if not rest:
            return parts, None
        if kind.end and rest.startswith(kind.end):
            return parts, rest.removeprefix(kind.end).strip(_SPACE)
        if not rest.startswith("."):
            raise kind.wrong(text, f"{rest[0]!r} after {printable(part)}")
        rest = rest[1:].lstrip(_SPACE)


def _identifier(rest: str, text: str, kind: _Kind) -> tuple[str, str]:
    """The identifier at the start of ``rest``, and what follows it."""
    if rest.startswith('"'):
        quoted = _QUOTED.match(rest)
        if quoted is None:
            raise kind.wrong(text, "a double quote is not closed")
        if not quoted[1]:
            raise kind.wrong(text, "an empty name")
        return quoted[1].replace('""', '"'), rest[quoted.end() :]
    bare = _BARE.match(rest)
    if bare is None:
        raise kind.wrong(text, f"{rest[0]!r} where a name should start" if rest else "a name is missing")
    return bare[0].translate(_FOLD), rest[bare.end() :]
