"""One canonical text per value, written for both sides: of single values, and of arrays and tuples of them.

A form gives the Postgres expression and the ClickHouse expression that print the same text for the same value. Each
text tells where it ends, so that no two rows of them print alike: a single value has its length before it, N is NULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from walshadow_sink_clickhouse.quoting import literal


@dataclass(frozen=True)
class Asked:
    """How the source is asked: values as ``policy`` would have changed them, lengths counted in ``encoding`` (the
    database may have another than UTF-8)."""

    policy: str
    encoding: str


class Form(Protocol):
    """How values of one type are printed. ``value`` is an SQL expression, used more than once."""

    def source(self, value: str, asked: Asked) -> str:
        """The Postgres expression; never NULL."""
        ...

    def destination(self, value: str) -> str:
        """The ClickHouse expression; never NULL."""
        ...

    def beyond(self, value: str) -> str | None:
        """The Postgres condition for values that ClickHouse can't hold, None if there are none."""
        ...


@dataclass(frozen=True)
class Single:
    """Values that are one thing: templates with ``{c}`` for the value. ``out_of_range`` is a Postgres condition for
    values that ClickHouse can't hold, ``clamped`` the Postgres expression of what ``clamp`` makes of one, ``present``
    that for what is not NULL."""

    postgres: str
    clickhouse: str
    out_of_range: str | None = None
    clamped: str | None = None
    present: str = "({c}) is not null"

    def source(self, value: str, asked: Asked) -> str:
        """See Form."""
        return source_measured(self.text(value, asked), asked)

    def text(self, value: str, asked: Asked) -> str:
        """The Postgres expression without its length; NULL for NULL."""
        name, changed = value, value
        beyond = self.beyond(value)
        if beyond is not None and asked.policy == "null":
            changed = f"case when not {beyond} then {name} end"
        elif self.clamped is not None and asked.policy == "clamp":
            changed = f"case when {name} is not null then {self.clamped.replace('{c}', name)} end"
        text = self.postgres.replace("{c}", f"({changed})")
        if beyond is not None and asked.policy == "error":
            # No load lets such a value through: it is printed as no other value is, and so differs.
            text = f"case when {beyond} then concat('beyond ', {name}) else {text} end"
        return f"case when {self.present.replace('{c}', changed)} then {text} end"

    def destination(self, value: str) -> str:
        """See Form."""
        text = self.clickhouse.replace("{c}", value)
        return f"ifNull(concat(toString(length({text})), ':', {text}), 'N')"

    def beyond(self, value: str) -> str | None:
        """See Form."""
        return None if self.out_of_range is None else self.out_of_range.replace("{c}", value)


@dataclass(frozen=True)
class List:
    """Arrays: their lengths, level by level, then all elements. NULL prints as an empty one, which is what it lands
    as. ``depth`` is how many arrays are in each other, ``cast`` makes an array of what only looks like one."""

    element: Single
    depth: int = 1
    cast: str = ""

    def source(self, value: str, asked: Asked) -> str:
        """See Form."""
        array = f"({value}){self.cast}"
        lengths = [f"coalesce(array_length({array}, {level}), 0)" for level in range(1, self.depth + 1)]
        levels = [
            f"repeat({length} || ',', {' * '.join(lengths[:level]) or '1'})" for level, length in enumerate(lengths)
        ]
        measured = source_measured("t", asked)
        elements = (
            f"(select coalesce(string_agg({measured}, '' order by o), '') from (select {self.element.text('e', asked)}"
            f" as t, o from unnest({array}) with ordinality as u(e, o)) as s)"
        )
        return f"({' || '.join([*levels, elements])})"

    def destination(self, value: str) -> str:
        """See Form."""
        levels = []
        for level in range(self.depth):
            lengths = "length(x)"
            for _ in range(level - 1):
                lengths = f"arrayMap(x -> {lengths}, x)"
            found = f"[length({value})]" if not level else f"arrayFlatten(arrayMap(x -> {lengths}, {value}))"
            levels.append(f"arrayStringConcat(arrayMap(x -> concat(toString(x), ','), {found}))")
        flat = f"arrayFlatten({value})" if self.depth > 1 else value
        elements = f"arrayStringConcat(arrayMap(e -> {self.element.destination('e')}, {flat}))"
        return f"concat({', '.join([*levels, elements])})"

    def beyond(self, value: str) -> str | None:
        """See Form."""
        beyond = self.element.beyond("e")
        return beyond and f"exists (select from unnest(({value}){self.cast}) as u(e) where {beyond})"


@dataclass(frozen=True)
class Record:
    """Composites in tuples, never NULL themselves: (field, place in the tuple, form) of each."""

    fields: Sequence[tuple[str, str, Form]]

    def source(self, value: str, asked: Asked) -> str:
        """See Form."""
        return joined(form.source(_field(value, f), asked) for f, _, form in self.fields)

    def destination(self, value: str) -> str:
        """See Form."""
        return joined(form.destination(f"tupleElement({value}, {at})") for _, at, form in self.fields)

    def beyond(self, value: str) -> str | None:
        """See Form."""
        beyond = [b for f, _, form in self.fields if (b := form.beyond(_field(value, f))) is not None]
        return f"({' or '.join(beyond)})" if beyond else None


def place(name: str | None, number: int) -> str:
    """A tuple's element for tupleElement(): by name where it has one."""
    return str(number) if name is None else literal(name)


def source_measured(text: str, asked: Asked) -> str:
    """The Postgres expression of a text with its length before it, N for NULL."""
    return f"coalesce(octet_length(convert_to({text}, '{asked.encoding}')) || ':' || ({text}), 'N')"


def joined(texts: Iterable[str]) -> str:
    """The expression, for either side, that puts texts together."""
    # A function takes at most 100 arguments in Postgres; || has no such limit, and both sides have it.
    return "(" + (" || ".join(texts) or "''") + ")"


def quote_postgres(name: str) -> str:
    """An identifier for Postgres."""
    return '"' + name.replace('"', '""') + '"'


def _field(value: str, name: str) -> str:
    return f"({value}).{quote_postgres(name)}"
