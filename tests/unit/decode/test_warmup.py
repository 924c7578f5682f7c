"""Which kernels a type asks for."""

from __future__ import annotations

from typing import Any

import pytest

from walshadow_core.api import Attribute, PgType
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode import warmup
from walshadow_core.decode.warmup import CONTAINERS, FLOATS, JSON, OTHERS, USUAL, groups_of


def base(type_oid: int, name: str = "") -> PgType:
    return PgType(type_oid, "pg_catalog", name, "b", -1, "i", False)


def made(kind: str, **parts: Any) -> PgType:
    return PgType(20000, "public", "made", kind, -1, "d", False, **parts)


FIELD = Attribute(1, "f", oid.JSONB, "jsonb", -1, -1, "i", False, "x", False, type=base(oid.JSONB))


@pytest.mark.parametrize(
    ("known", "own", "text"),
    [
        (base(oid.INT4), {USUAL}, {USUAL, CONTAINERS}),
        (base(oid.FLOAT8), {USUAL}, {USUAL, FLOATS}),
        (base(oid.JSONB), {JSON}, {JSON}),
        (base(oid.INET), {OTHERS}, {OTHERS}),
        (base(30000, "vector"), {FLOATS}, {FLOATS}),
        (made("b", element=base(oid.INT4)), {CONTAINERS, USUAL}, {CONTAINERS, USUAL}),
        (made("b", element=base(oid.FLOAT8)), {CONTAINERS, USUAL}, {CONTAINERS, USUAL, FLOATS}),
        (made("r", subtype=base(oid.FLOAT8)), {CONTAINERS, USUAL, FLOATS}, {CONTAINERS, USUAL, FLOATS}),
        (made("m", range=made("r", subtype=base(oid.INT4))), {CONTAINERS, USUAL}, {CONTAINERS, USUAL}),
        (made("c", fields=(FIELD,)), {CONTAINERS, JSON}, {CONTAINERS, JSON}),
        (made("e"), {CONTAINERS}, {CONTAINERS}),
        (made("d", base=base(oid.INT4)), {USUAL}, {USUAL, CONTAINERS}),
    ],
)
def test_groups_of_types(known: PgType, own: set[str], text: set[str]) -> None:
    """In their own form, and as text."""
    assert groups_of(known) >= own
    assert groups_of(known) - own <= {CONTAINERS, FLOATS, USUAL}
    assert groups_of(known, "text") == text


def test_each_sample_is_of_its_group() -> None:
    """So that a table of that type compiles what the sample compiles."""
    for sample in (*warmup._SAMPLES, *warmup._containers()):
        assert sample.attribute.type is not None
        assert sample.group in groups_of(sample.attribute.type, sample.form), sample.name
