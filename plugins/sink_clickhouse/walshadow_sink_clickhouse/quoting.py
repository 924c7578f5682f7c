"""How names and texts are written in ClickHouse SQL."""

from __future__ import annotations

from collections.abc import Iterable


def identifier(name: str) -> str:
    """``name`` in backquotes. Any character may be in it; only backslash and backquote need escaping."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def identifiers(names: Iterable[str]) -> str:
    """Several names, quoted, with commas between them."""
    return ", ".join(identifier(name) for name in names)


def qualified(database: str, table: str) -> str:
    """``database.table``, both quoted."""
    return f"{identifier(database)}.{identifier(table)}"


def literal(text: str) -> str:
    """``text`` as a string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
