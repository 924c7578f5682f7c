"""ClickHouse type names, read and printed: ``Array(Nullable(Decimal(12, 2)))``."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from walshadow_sink_clickhouse.quoting import identifier, literal

_T = TypeVar("_T")

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"-?\d+")
_STRING = re.compile(r"'((?:[^'\\]|\\.|'')*)'", re.DOTALL)
_QUOTED = re.compile(r"`((?:[^`\\]|\\.|``)*)`", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)|(['`])\2", re.DOTALL)
_OPEN, _CLOSE, _COMMA, _EQUALS = (re.compile(c) for c in (r"\(", r"\)", ",", "="))

_SPELLED = {
    name.lower(): name
    for name in [
        "Array",
        "Bool",
        "Date",
        "Date32",
        "DateTime",
        "DateTime64",
        "Decimal",
        "Enum",
        "Enum16",
        "Enum8",
        "FixedString",
        "Float32",
        "Float64",
        "Int128",
        "Int16",
        "Int256",
        "Int32",
        "Int64",
        "Int8",
        "JSON",
        "LowCardinality",
        "Nullable",
        "String",
        "Time",
        "Time64",
        "Tuple",
        "UInt128",
        "UInt16",
        "UInt256",
        "UInt32",
        "UInt64",
        "UInt8",
        "UUID",
    ]
}
_DECIMALS = {"decimal32": 9, "decimal64": 18, "decimal128": 38, "decimal256": 76}
_ENUMS = ("Enum", "Enum8", "Enum16")
_WRAPPERS = ("Nullable", "LowCardinality")


class BadTypeName(ValueError):
    """What is no type name."""


@dataclass(frozen=True)
class TypeName:
    """A type's name. ``parts`` are the types inside of Array, Tuple, Nullable and LowCardinality, ``names`` those of a
    named Tuple's elements, or the labels of an Enum with their ``numbers`` (none, or one each), ``words`` the arguments
    of any other type as they are written."""

    name: str
    parts: tuple[TypeName, ...] = ()
    names: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    words: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.name in _ENUMS:
            values = [f" = {n}" for n in self.numbers] or [""] * len(self.names)
            inside = [literal(label) + value for label, value in zip(self.names, values, strict=True)]
        elif self.names:
            inside = [f"{identifier(name)} {part}" for name, part in zip(self.names, self.parts, strict=True)]
        else:
            inside = [str(part) for part in self.parts] or list(self.words)
        return f"{self.name}({', '.join(inside)})" if inside else self.name

    @property
    def nullable(self) -> bool:
        """Whether it takes NULL."""
        inner = self.parts[0] if self.name == "LowCardinality" else self
        return inner.name == "Nullable"

    @property
    def low_cardinality(self) -> bool:
        """Whether its values are kept once."""
        return self.name == "LowCardinality"

    @property
    def bare(self) -> TypeName:
        """It without Nullable and LowCardinality."""
        found = self
        while found.name in _WRAPPERS:
            found = found.parts[0]
        return found

    @property
    def plain(self) -> str:
        """It without these at any depth, to tell whether two are of one kind."""
        bare = self.bare
        return str(replace(bare, parts=tuple(TypeName(part.plain) for part in bare.parts)))

    def wrapped(self, nullable: bool, low_cardinality: bool) -> TypeName:
        """It inside of Nullable and LowCardinality."""
        made = TypeName("Nullable", (self,)) if nullable else self
        return TypeName("LowCardinality", (made,)) if low_cardinality else made


def parse_type(text: str) -> TypeName:
    """Read a type's name. Raises BadTypeName."""
    reader = _Reader(text)
    found = reader.type()
    reader.end()
    return found


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def type(self) -> TypeName:
        word = self._expect(_WORD)[0]
        name = _SPELLED.get(word.lower(), word)
        if (digits := _DECIMALS.get(word.lower())) is not None:
            scales = self._arguments(lambda: self._expect(_NUMBER)[0])
            if len(scales) != 1:
                raise self._wrong(f"{word} takes a scale")
            return TypeName("Decimal", words=(str(digits), scales[0]))
        if name in _WRAPPERS or name == "Array":
            parts = tuple(self._arguments(self.type))
            if len(parts) != 1:
                raise self._wrong(f"{name} takes one type")
            return TypeName(name, parts)
        if name == "Tuple":
            return self._tuple()
        if name in _ENUMS:
            return self._enum(name)
        words = tuple(self._arguments(self._raw))
        if name == "Decimal" and len(words) == 1:
            words = (*words, "0")
        return TypeName(name, words=words)

    def end(self) -> None:
        self._space()
        if self._at < len(self._text):
            raise self._wrong(f"{self._text[self._at :]!r} after its end")

    def _tuple(self) -> TypeName:
        elements = self._arguments(self._element)
        names = tuple(name for name, _ in elements if name is not None)
        if names and len(names) < len(elements):
            raise self._wrong("some elements of a Tuple have names and some do not")
        return TypeName("Tuple", tuple(kind for _, kind in elements), names)

    def _element(self) -> tuple[str | None, TypeName]:
        if (quoted := self._match(_QUOTED)) is not None:
            return _unescaped(quoted[1]), self.type()
        start = self._at
        if self._match(_WORD) is None:
            raise self._wrong("a type is missing")
        self._space()
        named = _WORD.match(self._text, self._at) is not None
        word = self._text[start : self._at].strip()
        if named:
            return word, self.type()
        self._at = start
        return None, self.type()

    def _enum(self, name: str) -> TypeName:
        labels: list[str] = []
        numbers: list[int] = []

        def element() -> None:
            labels.append(_unescaped(self._expect(_STRING)[1]))
            if self._match(_EQUALS) is not None:
                numbers.append(int(self._expect(_NUMBER)[0]))

        self._arguments(element)
        if not labels or len(numbers) not in (0, len(labels)):
            raise self._wrong(f"{name} takes labels, each with a number or none of them")
        return TypeName(name, names=tuple(labels), numbers=tuple(numbers))

    def _arguments(self, one: Callable[[], _T]) -> list[_T]:
        """What is between the parentheses; nothing if there are none."""
        if self._match(_OPEN) is None:
            return []
        found: list[_T] = []
        if self._match(_CLOSE) is not None:
            return found
        while True:
            found.append(one())
            if self._match(_CLOSE) is not None:
                return found
            if self._match(_COMMA) is None:
                raise self._wrong("a comma or ) is missing")

    def _raw(self) -> str:
        """An argument as it is written: text to the next comma or parenthesis that is not inside of others."""
        self._space()
        start, depth = self._at, 0
        while self._at < len(self._text):
            quoted = self._match(_STRING) or self._match(_QUOTED)
            if quoted is not None:
                continue
            here = self._text[self._at]
            if depth == 0 and here in ",)":
                return self._text[start : self._at].strip()
            depth += (here == "(") - (here == ")")
            self._at += 1
        raise self._wrong("a ) is missing")

    def _space(self) -> None:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        self._space()
        found = pattern.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return found

    def _expect(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = self._match(pattern)
        if found is None:
            rest = self._text[self._at :]
            raise self._wrong(f"{rest!r} where something else is due" if rest else "it ends too early")
        return found

    def _wrong(self, what: str) -> BadTypeName:
        return BadTypeName(f"{self._text!r} is no ClickHouse type: {what}")


def _unescaped(text: str) -> str:
    named = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}
    return _ESCAPED.sub(lambda m: m[2] if m[1] is None else named.get(m[1], m[1]), text)
