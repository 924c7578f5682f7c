"""Which destination table a source table lands in: ``--into``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from walshadow_core.api import RelationDescriptor, UsageError


def _fill(template: str, values: Mapping[str, str]) -> str:
    """All placeholders in one go, so that a name that looks like one is left alone."""
    return re.sub(r"\{(schema|table)\}", lambda match: values[match[1]], template)


def destination_names(relations: Sequence[RelationDescriptor], into: Sequence[str]) -> dict[int, str]:
    """The destination's table name per relation oid.

    Each word of ``into`` is a template with ``{schema}`` and ``{table}`` for all tables, or ``source=name`` for
    one, ``source`` being ``schema.table`` as the catalog spells it (or ``table`` alone where that is unique).
    Raises UsageError for words that fit no table, and for two sources of one destination.
    """
    template = "{table}"
    singles: dict[str, str] = {}
    for word in into:
        source, equals, name = word.partition("=")
        if equals:
            if not name:
                raise UsageError(f"--into {word}: the name after = is empty")
            singles[source] = name
        elif "{table}" in word:
            template = word
        else:
            raise UsageError(
                f"--into {word}: neither SOURCE=NAME nor a template",
                "write e.g. app.orders=orders or '{schema}_{table}'",
            )
    names: dict[int, str] = {}
    for relation in relations:
        single = singles.pop(relation.qualified_name, None) or singles.pop(relation.name, None)
        names[relation.oid] = single or _fill(template, {"schema": relation.schema, "table": relation.name})
    if singles:
        raise UsageError(f"--into {next(iter(singles))}=…: no such table among those named by --table")
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
