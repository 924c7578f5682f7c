"""Just enough of SQL to route a statement: its first word, its FORMAT, and where an INSERT's data begins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<skip>\s+|--[^\n]*|\#[!\s][^\n]*|/\*.*?\*/)
      | (?P<quoted>'(?:\\.|''|[^'\\])*'|"(?:\\.|""|[^"\\])*"|`(?:\\.|``|[^`\\])*`)
      | (?P<word>[A-Za-z_][A-Za-z_0-9]*)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)

_NO_RESULT = frozenset(
    {
        "ALTER", "ATTACH", "CREATE", "DELETE", "DETACH", "DROP", "EXCHANGE", "GRANT", "INSERT", "OPTIMIZE", "RENAME",
        "REPLACE", "REVOKE", "SET", "SYSTEM", "TRUNCATE", "UNDROP", "UPDATE", "USE",
    }
)  # fmt: skip


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int
    depth: int


def _tokens(sql: str) -> Iterator[_Token]:
    depth = 0
    for match in _TOKEN.finditer(sql):
        kind = match.lastgroup or "other"
        if kind == "skip":
            continue
        text = match[0]
        if text in ")]}":
            depth -= 1
        yield _Token(kind, text, match.start(), match.end(), depth)
        if text in "([{":
            depth += 1


def first_word(sql: str) -> str:
    """The statement's first word, in capitals; empty if it begins otherwise."""
    for token in _tokens(sql):
        if token.kind == "word":
            return token.text.upper()
        if token.text != "(":
            return ""
    return ""


def gives_rows(sql: str) -> bool:
    """Whether a statement has a result set."""
    return first_word(sql) not in _NO_RESULT


def trailing_format(sql: str) -> str | None:
    """The name after the statement's own FORMAT, None if it has none."""
    found: str | None = None
    after_format = False
    for token in _tokens(sql):
        if after_format and token.kind == "word":
            found = token.text
            after_format = False
            continue
        after_format = token.depth == 0 and token.kind == "word" and token.text.upper() == "FORMAT"
    return found


@dataclass(frozen=True)
class InsertHead:
    """An INSERT whose data comes after it. ``clauses`` is where its SETTINGS or FORMAT begins, ``data`` where its
    text ends and the data starts, both as characters."""

    clauses: int
    data: int

    def from_file(self, sql: str, quoted_path: str) -> str:
        """The same INSERT, reading a file."""
        return f"{sql[: self.clauses]} FROM INFILE {quoted_path} {sql[self.clauses : self.data]}"


def insert_with_data(sql: str) -> InsertHead | None:
    """Where the data of an ``INSERT … FORMAT name`` begins; None for any other statement, INSERT … SELECT and
    INSERT … VALUES among them."""
    clauses: int | None = None
    after_format = False
    for index, token in enumerate(_tokens(sql)):
        word = token.text.upper() if token.kind == "word" else ""
        if index == 0 and word != "INSERT":
            return None
        if after_format:
            rest = re.compile(r"[ \t\r]*\n?").match(sql, token.end)
            assert rest is not None and clauses is not None
            return InsertHead(clauses, rest.end()) if token.kind == "word" else None
        if token.depth or not word:
            continue
        if word in ("SELECT", "VALUES", "WITH"):
            return None
        if word in ("SETTINGS", "FORMAT") and clauses is None:
            clauses = token.start
        after_format = word == "FORMAT"
    return None
