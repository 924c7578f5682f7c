"""Random texts of the types that are trees: JSON, JSON paths, text search, hstore. Any that the grammar allows."""

from __future__ import annotations

import json
import random
from typing import Any

_CHARACTERS = 'abcxyz"\\/ \b\f\n\r\t\x01\x1f\x7fé日😀'


def word(rng: random.Random, most: int = 12) -> str:
    """Characters of all sorts, mostly few."""
    return "".join(rng.choices(_CHARACTERS, k=min(rng.randrange(most + 1), rng.randrange(most + 1))))


def number(rng: random.Random) -> str:
    """A JSON number: short, long, with an exponent, with zeros at either end."""
    digits = str(rng.randrange(10 ** rng.choice([1, 2, 4, 9, 30])))
    sign = rng.choice(["", "", "-"])
    fraction = rng.choice(["", "", f".{rng.randrange(10**6)}", ".000", f".{'0' * rng.randrange(12)}{digits}0"])
    exponent = rng.choice(["", "", "", f"e{rng.randrange(-60, 60)}", f"E+{rng.randrange(200)}"])
    return f"{sign}{digits}{fraction}{exponent}"


def json_text(rng: random.Random, depth: int = 4) -> str:
    """A JSON text with spaces, repeated keys, escapes and empty containers."""
    sort = rng.randrange(8 if depth > 0 else 5)
    if sort < 2:
        return json.dumps(word(rng, 40), ensure_ascii=rng.random() < 0.3)
    if sort == 2:
        return number(rng)
    if sort < 5:
        return rng.choice(["null", "true", "false", '""', "[]", "{}"])
    many = rng.choice([0, 1, 2, 3, 5, 8, 40 if depth > 3 else 2])
    inner = [json_text(rng, depth - 1 if many < 9 else 0) for _ in range(many)]
    if sort < 7:
        return "[" + rng.choice([",", " , "]).join(inner) + "]"
    keys = [json.dumps(rng.choice(["a", "b", "key", word(rng, 8)])) for _ in inner]
    return "{" + ", ".join(f"{k} :{v}" for k, v in zip(keys, inner, strict=True)) + "}"


# ------------------------------------------------------------------------------------------- jsonpath

_METHODS = ["type", "size", "abs", "floor", "ceiling", "double", "keyvalue", "datetime"]
_METHODS_17 = [
    "bigint", "boolean", "date", "integer", "number", "string", "time", "time_tz", "timestamp", "timestamp_tz",
    "decimal", "decimal(4)", "decimal(+4,-2)", "time(3)", "time_tz(0)", "timestamp(6)", "timestamp_tz(2)",
]  # fmt: skip


class Paths:
    """JSON paths of one version."""

    def __init__(self, rng: random.Random, major: int) -> None:
        self._rng = rng
        self._methods = [*_METHODS, *(_METHODS_17 if major >= 17 else ())]

    def text(self) -> str:
        """A whole path."""
        rng = self._rng
        mode = rng.choice(["", "", "strict ", "lax "])
        return mode + rng.choice([self._path, self._expression, self._predicate])("$", 4)

    def _string(self) -> str:
        return json.dumps(word(self._rng, 10), ensure_ascii=False)

    def _path(self, start: str, depth: int) -> str:
        rng = self._rng
        steps = "".join(self._step(depth - 1) for _ in range(rng.randrange(4)))
        return rng.choice([start, start, "$", f"${rng.choice(['v', self._string()])}"]) + steps

    def _step(self, depth: int) -> str:
        rng = self._rng
        sort = rng.randrange(8 if depth > 0 else 6)
        if sort < 2:
            return "." + rng.choice(["a", "key", "*", self._string()])
        if sort == 2:
            return rng.choice([".**", ".**{3}", ".**{2 to 5}", ".**{last}", ".**{last to 4}", ".**{1 to last}"])
        if sort == 3:
            method = rng.choice(self._methods)
            return f".{method}" if method.endswith(")") else f".{method}()"
        if sort == 4:
            return rng.choice(["[*]", '.datetime("HH24:MI")', "[0]", "[last]"])
        if sort == 5:
            return f"[{', '.join(self._subscript(depth) for _ in range(rng.randrange(1, 4)))}]"
        return f" ? ({self._predicate('@', depth - 1)})"

    def _subscript(self, depth: int) -> str:
        rng = self._rng
        places = [str(rng.randrange(9)), "last", "last - 1"]
        if depth > 0:
            places.append(self._expression("$", depth - 1))
        return rng.choice([rng.choice(places), f"{rng.choice(places)} to {rng.choice(places)}"])

    def _expression(self, start: str, depth: int) -> str:
        rng = self._rng
        sort = rng.randrange(7 if depth > 0 else 2)
        if sort == 0:
            plain = rng.choice(["1", "0.50", "12e3", "123456789012345678901234567890", "1e-7"])
            return rng.choice([plain, f"({plain}){self._step(0)}"])
        if sort < 4:
            return self._path(start, depth)
        if sort == 4:
            return f"{rng.choice('+-')}{self._expression(start, depth - 1)}"
        left, right = (self._expression(start, depth - 1) for _ in range(2))
        pair = f"{left} {rng.choice('+-*/%')} {right}"
        return rng.choice([pair, f"({pair})", f"({pair}){self._step(depth - 1)}"])

    def _predicate(self, start: str, depth: int) -> str:
        rng = self._rng
        sort = rng.randrange(8 if depth > 0 else 3)
        if sort == 0:
            value = rng.choice([self._string(), "null", "true", "false", self._expression(start, depth - 1)])
            return (
                f"{self._expression(start, depth - 1)} {rng.choice(['==', '!=', '<', '>', '<=', '>=', '<>'])} {value}"
            )
        if sort == 1:
            return f"{self._path(start, depth)} starts with {rng.choice(['$v', self._string()])}"
        if sort == 2:
            flag = rng.choice(["", ' flag "i"', ' flag "ims"', ' flag "q"', ' flag "iq"'])
            return f'{self._path(start, depth)} like_regex "{rng.choice(["a.*b", "^x", "", "é"])}"{flag}'
        if sort == 3:
            return f"exists ({self._path(start, depth)})"
        if sort == 4:
            return f"({self._predicate(start, depth - 1)}) is unknown"
        if sort == 5:
            return f"!({self._predicate(start, depth - 1)})"
        sides = [self._predicate(start, depth - 1) for _ in range(2)]
        sides = [s if rng.random() < 0.5 else f"({s})" for s in sides]
        return f"{sides[0]} {rng.choice(['&&', '||'])} {sides[1]}"


# ------------------------------------------------------------------------------- text search and hstore


def quoted(text: str) -> str:
    """A lexeme as tsvector and tsquery read it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def lexeme(rng: random.Random) -> str:
    """A word that is not empty."""
    return quoted(word(rng, 20).replace("😀", "'") + rng.choice("ab'\\é"))


def vector(rng: random.Random) -> str:
    """A tsvector."""

    def positions() -> str:
        places = (
            f"{rng.randrange(1, 16384)}{rng.choice(['', 'A', 'B', 'C', 'D'])}" for _ in range(rng.randrange(1, 6))
        )
        return rng.choice(["", ":" + ",".join(places)])

    return " ".join(lexeme(rng) + positions() for _ in range(rng.randrange(8)))


def query(rng: random.Random, depth: int = 5) -> str:
    """A tsquery."""
    sort = rng.randrange(6 if depth > 0 else 1)
    if sort == 0:
        return lexeme(rng) + rng.choice(["", "", ":*", ":AB", ":*CD", ":ABCD"])
    if sort == 1:
        return f"!({query(rng, depth - 1)})"
    left, right = query(rng, depth - 1), query(rng, depth - 1)
    operator = rng.choice(["&", "|", "<->", "<2>", "<0>", "<16384>"])
    return f"({left}) {operator} ({right})"


def hstore(rng: random.Random) -> str:
    """An hstore."""

    def string() -> str:
        return '"' + word(rng, 20).replace("\\", "\\\\").replace('"', '\\"') + '"'

    values: list[Any] = [f"{string()}=>{rng.choice(['NULL', string(), string()])}" for _ in range(rng.randrange(6))]
    return ", ".join(values)


def snapshot(rng: random.Random) -> str:
    """A pg_snapshot."""
    low = rng.choice([1, 700, 2**33 + 5])
    running = sorted(rng.sample(range(low, low + 500), rng.choice([0, 0, 1, 3, 60])))
    return f"{low}:{low + 500}:{','.join(map(str, running))}"
