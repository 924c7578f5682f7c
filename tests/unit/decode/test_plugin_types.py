"""Types that a plugin decodes: its functions as builders, what it does wrong, and who is asked for what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.stored_values import append
from tests.unit.decode.built import codec, decoded, use
from walshadow_core.api import (
    Attribute,
    BadValue,
    FormatError,
    PgType,
    RelationDescriptor,
    RelFileLocator,
    StoredValues,
    TableRefused,
    TypeCodec,
)
from walshadow_core.catalog.codecs import with_codecs
from walshadow_core.decode import type_oids
from walshadow_core.decode.columns import TypeUse
from walshadow_core.decode.types import native_codec

PAYLOADS = [b"\1\0\0\0\0\0\0\0", None, b"\3\0\0\0\0\0\0\0"]


def numbers(values: StoredValues) -> pa.Array:
    return pa.array(values.fixed("<u8"), mask=~values.valid)


def words(values: StoredValues) -> pa.Array:
    return pa.array([None if p is None else f"<{p[0]}>" for p in values.payloads()], pa.string())


def using(decode: Callable[[StoredValues], Any], arrow: pa.DataType | None = None, **more: Any) -> TypeUse:
    known = use(70007, "ean13", length=8, schema="public")
    return replace(known, type=replace(known.type, codec=TypeCodec(arrow or pa.uint64(), decode, **more)))


def test_values_over_many_appends() -> None:
    builder = codec(using(numbers)).builder()
    assert builder.nbytes == 0 and builder.finish().equals(pa.array([], pa.uint64()))
    append(builder, PAYLOADS)
    append(builder, [])
    append(builder, [None, PAYLOADS[0]])
    assert builder.nbytes > 0
    assert builder.finish().to_pylist() == [1, None, 3, None, 1]
    assert len(builder.finish()) == 0


def test_as_text() -> None:
    assert decoded(codec(using(numbers, text=words), "text"), PAYLOADS) == ["<1>", None, "<3>"]
    assert decoded(codec(using(words, pa.string()), "text"), PAYLOADS) == ["<1>", None, "<3>"]
    with pytest.raises(TableRefused, match=r'column "c": the plugin .* ean13 does not give it as text'):
        codec(using(numbers), "text")


def test_what_it_is_given() -> None:
    seen: list[StoredValues] = []

    def decode(values: StoredValues) -> pa.Array:
        seen.append(values)
        return numbers(values)

    made = replace(using(decode), typmod=7, encoding="LATIN1")
    decoded(codec(made), PAYLOADS)
    assert (seen[0].typmod, seen[0].encoding) == (7, "LATIN1")
    assert seen[0].valid.dtype == bool and list(seen[0].payloads()) == PAYLOADS
    with pytest.raises(ValueError, match="read-only"):
        seen[0].buf[0] = 1


def test_a_bad_value_keeps_its_row() -> None:
    with pytest.raises(BadValue, match="3 bytes, not 8") as caught:
        decoded(codec(using(numbers)), [None, PAYLOADS[0], b"abc"])
    assert caught.value.row == 2


@pytest.mark.parametrize(
    ("decode", "reason"),
    [
        (lambda v: [1, None, 3], "it gave list, not uint64"),
        (lambda v: pa.array([1, None, 3], pa.int32()), "it gave int32, not uint64"),
        (lambda v: pa.array([1], pa.uint64()), "it gave 1 values for 3"),
        (lambda v: pa.array([1, 2, 3], pa.uint64()), "it gave nulls where there are values, or values"),
        (lambda v: pa.array([None, None, 3], pa.uint64()), "it gave nulls where there are values, or values"),
        (lambda v: {}[v.typmod], "KeyError: -1"),
    ],
)
def test_what_a_plugin_does_wrong_names_it(decode: Any, reason: str) -> None:
    with pytest.raises(FormatError, match=r"the plugin that decodes public.ean13 failed: ") as caught:
        decoded(codec(using(decode)), PAYLOADS)
    assert reason in str(caught.value) and caught.value.remedy == "report it to its author"


def test_chunked_arrays_are_taken() -> None:
    made = using(lambda v: pa.chunked_array([numbers(v)[:1], numbers(v)[1:]]))
    assert decoded(codec(made), PAYLOADS) == [1, None, 3]


# ----------------------------------------------------------------------------------------- who is asked


def base(oid: int, name: str, schema: str = "public") -> PgType:
    return PgType(oid, schema, name, "b", 8, "d", True)


def column(number: int, pg_type: PgType | None) -> Attribute:
    return Attribute(number, f"c{number}", 0, "t", -1, 8, "d", True, "p", False, type=pg_type)


def relation(*types: PgType | None, **more: Any) -> RelationDescriptor:
    return RelationDescriptor(
        oid=1, database="d", schema="s", name="t", locator=RelFileLocator(1663, 1, 1), kind="r", persistence="p",
        replica_identity="d", key=(), attributes=tuple(column(k, t) for k, t in enumerate(types, 1)), encoding="UTF8", **more,
    )  # fmt: skip


def test_types_at_any_depth_are_asked_for_once() -> None:
    ean, other, int8 = base(70001, "ean13"), base(70002, "other"), base(type_oids.INT8, "int8", "pg_catalog")
    array = replace(base(70003, "_ean13"), element=ean)
    domain = PgType(70004, "public", "d", "d", 8, "d", True, base=ean)
    row = PgType(
        70005, "public", "row", "c", -1, "d", False, fields=(column(1, array), column(2, int8), column(3, None))
    )
    span = PgType(70006, "public", "span", "r", -1, "d", False, subtype=ean)
    spans = PgType(70007, "public", "spans", "m", -1, "d", False, range=span)
    made = TypeCodec(pa.uint64(), numbers)
    asked: list[str] = []

    def ask(pg_type: PgType) -> TypeCodec | None:
        asked.append(pg_type.name)
        return made if pg_type is ean else None

    leaf = relation(ean)
    (filled,) = with_codecs([relation(ean, other, int8, array, domain, row, spans, None, leaves=(leaf,))], ask)
    assert asked == ["ean13", "other"]
    types = [a.type for a in filled.attributes]
    assert types[0] is not None and types[0].codec is made
    assert types[1] == other and types[2] is int8 and types[7] is None
    inside: list[Any] = [types[3].element, types[4].base, types[5].fields[0].type.element, types[6].range.subtype]  # type: ignore[union-attr]
    assert [t.codec for t in inside] == [made] * 4
    assert filled.leaves[0].attributes[0].type.codec is made  # type: ignore[union-attr]
    # What a plugin adds does not make it another table.
    assert filled == relation(ean, other, int8, array, domain, row, spans, None, leaves=(leaf,))


def test_a_plugin_goes_before_the_core_for_types_of_extensions() -> None:
    known = use(70001, "hstore", schema="public")
    made = TypeCodec(pa.int32(), lambda v: pa.array(np.zeros(v.valid.size, np.int32), mask=~v.valid))
    assert native_codec(replace(known, type=replace(known.type, codec=made))).arrow == pa.int32()
