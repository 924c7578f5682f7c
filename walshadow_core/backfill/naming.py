"""Which destination table a source table lands in: ``--into``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from walshadow_core.api import RelationDescriptor, UsageError


def _fill(template: str, values: Mapping[str, str]) -> str:
    """All placeholders in one go, so that a name that looks like one is left alone."""
    return re.sub(r"\{(schema|table)\}", lambda match: values[match[1]], template)


def _source_of(word: str, relations: Sequence[RelationDescriptor]) -> str | None:
    """The table before ``=``, longest name first, as a name may have a ``=`` in it; None if there is none."""
    known = {name for r in relations for name in (r.qualified_name, r.name)}
    return max((name for name in known if word.startswith(name + "=")), key=len, default=None)


def destination_names(relations: Sequence[RelationDescriptor], into: Sequence[str]) -> dict[int, str]:
    """The destination's table name per relation oid.

    Each word of ``into`` is a template with ``{schema}`` and ``{table}`` for all tables, or ``source=name`` for
    one, ``source`` being ``schema.table`` as the catalog spells it (or ``table`` alone where that is unique).
    Raises UsageError for words that fit no table, and for two sources of one destination.
    """
    template = "{table}"
    singles: dict[int, str] = {}
    for word in into:
        source = _source_of(word, relations)
        if source is not None:
            name = word[len(source) + 1 :]
            meant = [r for r in relations if r.qualified_name == source] or [r for r in relations if r.name == source]
            if not name:
                raise UsageError(f"--into {word}: the name after = is empty")
            if len(meant) > 1:
                both = " or ".join(r.qualified_name for r in meant)
                raise UsageError(f"--into {word}: {source} may be {both}", "write the schema before it")
            singles[meant[0].oid] = name
        elif "{table}" in word:
            template = word
        elif "=" in word:
            raise UsageError(f"--into {word}: no such table among those named by --table")
        else:
            raise UsageError(
                f"--into {word}: neither SOURCE=NAME nor a template",
                "write e.g. app.orders=orders or '{schema}_{table}'",
            )
    names = {r.oid: singles.get(r.oid) or _fill(template, {"schema": r.schema, "table": r.name}) for r in relations}
    taken: dict[str, str] = {}
    for relation in relations:
        name = names[relation.oid]
        if name in taken:
            raise UsageError(
                f"{taken[name]} and {relation.qualified_name} would both land in {name}",
                "give one of them another name with --into SOURCE=NAME or a template such as '{schema}_{table}'",
            )
        taken[name] = relation.qualified_name
    return names
