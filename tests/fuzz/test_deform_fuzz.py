"""Damaged tuples through the whole decoder: an error or fewer rows, never a crash or a read outside.

Run it with NUMBA_BOUNDSCHECK=1: a read outside of an array is an IndexError then.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from walshadow_core.api import Attribute, FormatError, RelationDescriptor, RelFileLocator
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.columns import DecodeOptions
from walshadow_core.decode.deform import KIND_EXTERNAL, KIND_NULL, DeformScratch, TuplePlan, deform
from walshadow_core.decode.table import TableDecoder
from walshadow_core.pgformat.heap import TupleData

KINDS = [
    (oid.BOOL, 1, "c"), (oid.CHAR, 1, "c"), (oid.INT2, 2, "s"), (oid.INT4, 4, "i"), (oid.INT8, 8, "d"),
    (oid.DATE, 4, "i"), (oid.TIME, 8, "d"), (oid.TIMESTAMP, 8, "d"), (oid.UUID, 16, "c"), (oid.NAME, 64, "c"),
    (oid.TEXT, -1, "i"), (oid.BYTEA, -1, "i"), (oid.NUMERIC, -1, "i"), (oid.TIMETZ, 12, "d"),
    (oid.INTERVAL, 16, "d"),
]  # fmt: skip
TYPMODS = [-1, (12 << 16 | 2) + 4, (60 << 16 | 5) + 4]
CAMPAIGN = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def relations(draw: st.DrawFn) -> RelationDescriptor:
    attributes = []
    for number in range(1, draw(st.integers(1, 12)) + 1):
        type_oid, length, align = draw(st.sampled_from(KINDS))
        size = length if length > 0 else draw(st.integers(0, 20))
        attributes.append(
            Attribute(
                number=number, name=f"a{number}", type_oid=type_oid, type_name="t",
                typmod=draw(st.sampled_from(TYPMODS)) if type_oid == oid.NUMERIC else -1, length=length,
                alignment=align, by_value=False, storage="p", not_null=False, dropped=draw(st.booleans()),
                missing=draw(st.none() | st.binary(min_size=size, max_size=size)),
            )
        )  # fmt: skip
    return RelationDescriptor(
        oid=1, database="d", schema="s", name="t", locator=RelFileLocator(1663, 1, 1), kind="r", persistence="p",
        replica_identity="d", key=(), attributes=tuple(attributes), encoding="UTF8",
    )  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn) -> tuple[RelationDescriptor, np.ndarray, TupleData]:
    """Bytes that look like tuples now and then, and places that may be anywhere."""
    relation = draw(relations())
    head = st.sampled_from([b"\1\x12", b"\3", b"\7ab", b"\x0b\0\x81\1\0", b"\x20\0\0\0", b"\x22\0\0\0", b"\xff", b"\0"])
    body = b"".join(draw(st.lists(st.binary(max_size=9) | head, max_size=60)))
    buf = np.frombuffer(bytearray(body), np.uint8)
    size = len(body)
    place = st.integers(-2, size + 2) | st.sampled_from([-(2**31), 2**31 - 1])
    near = st.integers(0, size)
    m = len(relation.attributes)
    rows = draw(
        st.lists(
            st.tuples(near | place, near | place, st.integers(0, m + 1) | st.integers(-1, 2047), st.booleans(),
                      st.just(size) | place),
            max_size=12,
        )
    )  # fmt: skip
    columns = np.array(rows, np.int64).reshape(-1, 5)
    start, bitmap, natts, nulls, end = (columns[:, k].astype(np.int32) for k in range(5))
    return relation, buf, TupleData(start, bitmap, natts, nulls.astype(np.uint8), end)


ALIGN = {"c": 1, "s": 2, "i": 4, "d": 8}
NUMERICS = [b"\x00\x80\x01\x00", b"\x00\xc0", b"\x81\x81\x00\x00\x88\x13", b"\x02\x80\x01\x00\x02\x00\x03\x00"]


@st.composite
def stored(draw: st.DrawFn, attribute: Attribute, at: int) -> bytes:
    """Pad bytes and a value that the type can have."""
    pad = bytes(-at % ALIGN[attribute.alignment])
    if attribute.length > 0:
        zeros = bytes(attribute.length)
        return pad + draw(st.just(zeros) | st.binary(min_size=1, max_size=1).map(lambda b: zeros[:-1] + b))
    data = draw(st.sampled_from(NUMERICS) if attribute.type_oid == oid.NUMERIC else st.binary(max_size=30))
    if draw(st.booleans()):
        return bytes((2 * len(data) + 3,)) + data
    return pad + ((len(data) + 4) << 2).to_bytes(4, "little") + data


@st.composite
def slightly_damaged(draw: st.DrawFn) -> tuple[RelationDescriptor, np.ndarray, TupleData]:
    """Tuples that a server could have written, and then a few bytes and places are changed."""
    relation = draw(relations())
    buf = bytearray()
    rows = []
    for _ in range(draw(st.integers(1, 8))):
        natts = draw(st.integers(0, len(relation.attributes)))
        nulls = draw(st.lists(st.booleans(), min_size=natts, max_size=natts))
        bitmap_start = len(buf)
        buf += sum((not null) << j for j, null in enumerate(nulls)).to_bytes((natts + 7) // 8, "little")
        start = len(buf)
        for attribute, null in zip(relation.attributes, nulls, strict=False):
            if not null:
                buf += draw(stored(attribute, len(buf) - start))
        rows.append([start, bitmap_start, natts, int(any(nulls)), len(buf)])
    for at in draw(st.lists(st.integers(0, max(0, len(buf) - 1)), max_size=4)):
        if buf:
            buf[at] = draw(st.integers(0, 255))
    for row in draw(st.lists(st.sampled_from(rows), max_size=2)):
        row[draw(st.integers(0, 4))] += draw(st.integers(-9, 9))
    start, bitmap, natts, nulls, end = (np.array(rows, np.int32)[:, k].copy() for k in range(5))
    data = TupleData(start, bitmap, natts, nulls.astype(np.uint8), end)
    return relation, np.frombuffer(buf, np.uint8), data


@CAMPAIGN
@given(damaged() | slightly_damaged())
def test_positions_lie_inside_of_their_tuple(case: tuple[RelationDescriptor, np.ndarray, TupleData]) -> None:
    relation, buf, data = case
    plan = TuplePlan.of(relation)
    deformed = deform(plan.with_missing(buf, data), data, plan, DeformScratch(plan, max(1, len(data))))
    bad = set(deformed.bad.tolist())
    assert len(bad) == deformed.bad.size and all(0 < r <= 5 for r in deformed.reason)
    for i in range(len(data)):
        for c in range(plan.columns):
            kind = deformed.kind[c, i]
            first = int(deformed.offset[c, i])
            after = first + int(deformed.length[c, i])
            assert kind <= KIND_EXTERNAL and first <= after
            if kind == KIND_NULL:
                assert first == after == 0
                continue
            assert i not in bad
            inside = data.data_start[i] <= first and after <= data.end[i] <= buf.size
            missing = buf.size <= first and after <= deformed.buf.size
            assert inside or missing


@CAMPAIGN
@given(damaged() | slightly_damaged(), st.sampled_from(["error", "replace", "bytes"]))
def test_an_error_or_as_many_rows(case: tuple[RelationDescriptor, np.ndarray, TupleData], policy: str) -> None:
    relation, buf, data = case
    decoder = TableDecoder(relation, DecodeOptions(invalid_text=policy), block_rows=5)  # type: ignore[arg-type]
    try:
        batches = [*decoder.append(buf, data), decoder.finish()]
    except FormatError as error:
        assert 0 <= getattr(error, "tuple_index", 0) < len(data)
        return
    whole = [b for b in batches if b is not None]
    assert sum(b.num_rows for b in whole) == len(data)
    for batch in whole:
        batch.validate()
        for column in batch.columns:
            if pa.types.is_string(column.type):
                column.validate(full=True)
