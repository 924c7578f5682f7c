"""The deform kernel against an encoder of tuples that is written the slow and obvious way."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest

from walshadow_core.api import Attribute, Bytes, RelationDescriptor, RelFileLocator
from walshadow_core.decode.deform import (
    BAD_LENGTH,
    BAD_TAG,
    GROUP,
    KIND_COMPRESSED,
    KIND_EXTERNAL,
    KIND_NULL,
    KIND_VALUE,
    OUTSIDE,
    PAST_END,
    TOO_MANY,
    Deformed,
    DeformScratch,
    TuplePlan,
    deform,
)
from walshadow_core.pgformat.heap import TupleData

ALIGN = {"c": 1, "s": 2, "i": 4, "d": 8}
FIXED = [(1, "c"), (2, "s"), (4, "i"), (8, "d"), (6, "i"), (16, "c"), (12, "d"), (64, "c")]


@dataclass(frozen=True)
class Value:
    """What a tuple holds of an attribute: the bytes that a column should get, and how they are stored."""

    data: bytes
    form: str = "value"  # value, long (header of 4 bytes), compressed, external


def attribute(number: int, length: int, align: str, **more: object) -> Attribute:
    return Attribute(
        number=number, name=f"a{number}", type_oid=0, type_name="t", typmod=-1, length=length, alignment=align,
        by_value=False, storage="p", not_null=False, **more,  # type: ignore[arg-type]
    )  # fmt: skip


def relation(attributes: list[Attribute]) -> RelationDescriptor:
    return RelationDescriptor(
        oid=1, database="d", schema="s", name="t", locator=RelFileLocator(1663, 1, 1), kind="r", persistence="p",
        replica_identity="d", key=(), attributes=tuple(attributes), encoding="UTF8",
    )  # fmt: skip


def encode(attributes: list[Attribute], values: list[Value | None]) -> tuple[bytes, bytes, bool]:
    """(null bitmap, data, whether there are nulls) of a tuple that stores the first ``len(values)`` attributes."""
    data = bytearray()
    bitmap = bytearray((len(values) + 7) // 8)
    for j, (a, value) in enumerate(zip(attributes, values, strict=False)):
        if value is None:
            continue
        bitmap[j >> 3] |= 1 << (j & 7)
        if a.generated == "v":
            continue
        pad = bytes(-len(data) % ALIGN[a.alignment])
        if a.length > 0:
            data += pad + value.data
        elif a.length == -2:
            data += pad + value.data + b"\0"
        elif value.form == "value":
            data += bytes(((len(value.data) + 1) << 1 | 1,)) + value.data
        elif value.form == "long":
            data += pad + ((len(value.data) + 4) << 2).to_bytes(4, "little") + value.data
        elif value.form == "compressed":
            data += pad + (len(value.data) << 2 | 2).to_bytes(4, "little") + value.data[4:]
        else:
            data += value.data
    return bytes(bitmap), bytes(data), any(v is None for v in values)


class Tuples:
    """Tuples in one buffer, with anything between them."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.buf = bytearray(rng.randbytes(16))
        self.rows: list[tuple[int, int, int, int, int]] = []

    def add(self, bitmap: bytes, data: bytes, natts: int, nulls: bool) -> None:
        # Alignment counts from the data's start, wherever that is.
        self.buf += self.rng.randbytes(self.rng.randrange(9))
        at = len(self.buf)
        self.buf += bitmap + data
        self.rows.append((at + len(bitmap), at, natts, int(nulls), len(self.buf)))

    def done(self) -> tuple[Bytes, TupleData]:
        rows = np.array(self.rows, np.int32).reshape(-1, 5)
        start, bitmap, natts, nulls, end = (rows[:, k].copy() for k in range(5))
        return np.frombuffer(bytearray(self.buf), np.uint8), TupleData(
            start, bitmap, natts, nulls.astype(np.uint8), end
        )


def run(attributes: list[Attribute], tuples: Tuples) -> Deformed:
    buf, data = tuples.done()
    plan = TuplePlan.of(relation(attributes))
    return deform(plan.with_missing(buf, data), data, plan, DeformScratch(plan, max(1, len(data))))


def found(deformed: Deformed, column: int, row: int) -> tuple[int, bytes]:
    start, size = deformed.offset[column, row], deformed.length[column, row]
    return int(deformed.kind[column, row]), deformed.buf[start : start + size].tobytes()


def random_value(rng: random.Random, a: Attribute) -> Value:
    if a.length > 0:
        return Value(rng.randbytes(a.length))
    if a.length == -2:
        return Value(bytes(rng.randrange(1, 256) for _ in range(rng.randrange(12))))
    form = rng.choice(["value", "value", "long", "compressed", "external"])
    if form == "value":
        return Value(rng.randbytes(rng.choice([0, 1, 5, 20, 126])))
    if form == "long":
        return Value(rng.randbytes(rng.choice([0, 3, 130, 300])), form)
    if form == "compressed":
        size = rng.choice([8, 9, 40])
        return Value((size << 2 | 2).to_bytes(4, "little") + rng.randbytes(size - 4), form)
    return Value(bytes((1, 18)) + rng.randbytes(16), form)


KINDS = {"value": KIND_VALUE, "long": KIND_VALUE, "compressed": KIND_COMPRESSED, "external": KIND_EXTERNAL}


@pytest.mark.parametrize("seed", range(25))
def test_random_layouts(seed: int) -> None:
    rng = random.Random(seed)
    attributes = []
    for number in range(1, rng.randint(2, 20)):
        length, align = rng.choice([*FIXED, (-1, "i"), (-1, "d"), (-1, "i"), (-2, "c")])
        generated = "v" if rng.random() < 0.1 else ""
        missing = None
        if not generated and length != -2 and rng.random() < 0.4:
            missing = rng.randbytes(length if length > 0 else rng.randrange(30))
        attributes.append(
            attribute(number, length, align, dropped=rng.random() < 0.2, generated=generated, missing=missing)
        )
    null_share = rng.choice([0, 0, 0.2, 0.9])
    tuples = Tuples(rng)
    expected: list[list[tuple[int, bytes]]] = []
    for _ in range(rng.choice([1, 7, 40])):
        natts = rng.choice([len(attributes), len(attributes), rng.randint(0, len(attributes))])
        values: list[Value | None] = []
        for a in attributes[:natts]:
            null = a.generated == "v" or rng.random() < null_share
            values.append(None if null else random_value(rng, a))
        tuples.add(*encode(attributes, values)[:2], natts, encode(attributes, values)[2])
        row = []
        for j, a in enumerate(attributes):
            if a.dropped or a.generated == "v":
                continue
            value = values[j] if j < natts else (Value(a.missing) if a.missing is not None else None)
            row.append((KIND_NULL, b"") if value is None else (KINDS[value.form], value.data))
        expected.append(row)
    deformed = run(attributes, tuples)
    assert deformed.bad.size == 0
    assert [[found(deformed, c, i) for c in range(len(r))] for i, r in enumerate(expected)] == expected


def test_groups_of_tuples_do_not_disturb_each_other() -> None:
    """Tuples with nulls, short and bad ones among many plain ones, over the borders of groups."""
    rng = random.Random("groups")
    attributes = [attribute(1, 4, "i"), attribute(2, -1, "i"), attribute(3, 8, "d", missing=b"missing!")]
    tuples = Tuples(rng)
    odd = {3: "null", GROUP - 1: "bad", GROUP: "short", GROUP + 5: "bad", 2 * GROUP + 1: "null"}
    n = 2 * GROUP + 20
    expected = []
    for i in range(n):
        row: list[Value | None] = [Value(i.to_bytes(4, "little")), Value(b"v%d" % i), Value(b"%8d" % i)]
        what = odd.get(i)
        if what == "null":
            row[1] = None
        natts = 2 if what == "short" else 3
        bitmap, data, nulls = encode(attributes, row[:natts])
        tuples.add(bitmap, data[:-1] if what == "bad" else data, natts, nulls)
        if what == "short":
            row[2] = Value(b"missing!")
        expected.append([(KIND_NULL, b"") if v is None or what == "bad" else (KIND_VALUE, v.data) for v in row])
    deformed = run(attributes, tuples)
    assert deformed.bad.tolist() == [GROUP - 1, GROUP + 5]
    assert deformed.reason.tolist() == [PAST_END, PAST_END]
    assert [[found(deformed, c, i) for c in range(3)] for i in range(n)] == expected


def test_part_of_the_tuples() -> None:
    attributes = [attribute(1, 4, "i")]
    tuples = Tuples(random.Random(1))
    for i in range(10):
        tuples.add(b"", i.to_bytes(4, "little"), 1, False)
    buf, data = tuples.done()
    plan = TuplePlan.of(relation(attributes))
    scratch = DeformScratch(plan, 4)
    part = deform(buf, data, plan, scratch, 5, 4)
    assert [found(part, 0, i)[1][0] for i in range(4)] == [5, 6, 7, 8]
    with pytest.raises(ValueError, match="5 tuples for a scratch of 4"):
        deform(buf, data, plan, scratch, 5)


TEXT = [attribute(1, -1, "i")]
BAD = [
    ("no byte", b"", PAST_END),
    ("short header past the end", bytes((2 * 9 + 1,)) + b"1234567", PAST_END),
    ("long header past the end", (20 << 2).to_bytes(4, "little") + b"12", PAST_END),
    ("long header cut off", bytes((4 << 2, 0)), PAST_END),
    ("length below the header's own", (3 << 2).to_bytes(4, "little") + b"1234", BAD_LENGTH),
    ("a header of zeros", bytes(8), BAD_LENGTH),
    ("compressed and too short", (7 << 2 | 2).to_bytes(4, "little") + bytes(8), BAD_LENGTH),
    ("largest length", b"\xfc\xff\xff\xff" + bytes(8), PAST_END),
    ("pointer cut off", bytes((1, 18)) + bytes(15), PAST_END),
    ("pointer to memory", bytes((1, 1)) + bytes(16), BAD_TAG),
]


@pytest.mark.parametrize(("data", "reason"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
@pytest.mark.parametrize("nulls", [False, True])
def test_bad_varlenas(data: bytes, reason: int, nulls: bool) -> None:
    tuples = Tuples(random.Random(2))
    tuples.add(b"\1", b"\5a", 1, nulls)
    tuples.add(b"\1", data, 1, nulls)
    tuples.add(b"\1", b"\5b", 1, nulls)
    deformed = run(TEXT, tuples)
    assert (deformed.bad.tolist(), deformed.reason.tolist()) == ([1], [reason])
    assert [found(deformed, 0, i) for i in range(3)] == [(KIND_VALUE, b"a"), (KIND_NULL, b""), (KIND_VALUE, b"b")]


def test_bad_cstring() -> None:
    tuples = Tuples(random.Random(3))
    tuples.add(b"", b"abc", 1, False)
    assert run([attribute(1, -2, "c")], tuples).reason.tolist() == [PAST_END]


@pytest.mark.parametrize(
    ("start", "bitmap", "natts", "nulls", "end", "reason"),
    [
        (-8, 0, 1, 0, 8, OUTSIDE),
        (16, 0, 1, 0, 8, OUTSIDE),
        (0, 0, 1, 0, 65, OUTSIDE),
        (0, 0, -1, 0, 8, OUTSIDE),
        (8, -1, 1, 1, 16, OUTSIDE),
        (8, 16, 1, 1, 16, OUTSIDE),
        (0, 0, 2, 0, 8, TOO_MANY),
        (0, 0, 2047, 1, 64, OUTSIDE),
        (2**31 - 1, 0, 1, 0, 2**31 - 1, OUTSIDE),
    ],
)
def test_bad_places(start: int, bitmap: int, natts: int, nulls: int, end: int, reason: int) -> None:
    plan = TuplePlan.of(relation([attribute(1, 4, "i")]))
    data = TupleData(
        np.array([0, start], np.int32), np.array([0, bitmap], np.int32), np.array([1, natts], np.int32),
        np.array([0, nulls], np.uint8), np.array([8, end], np.int32),
    )  # fmt: skip
    deformed = deform(np.zeros(64, np.uint8), data, plan, DeformScratch(plan, 2))
    assert (deformed.bad.tolist(), deformed.reason.tolist()) == ([1], [reason])


def test_the_buffer_is_copied_for_missing_values_alone() -> None:
    plan = TuplePlan.of(relation([attribute(1, 4, "i"), attribute(2, -1, "i", missing=b"late")]))
    tuples = Tuples(random.Random(4))
    tuples.add(b"", b"1234\5x", 2, False)
    buf, data = tuples.done()
    assert plan.with_missing(buf, data) is buf
    tuples.add(b"", b"1234", 1, False)
    longer = plan.with_missing(*tuples.done())
    assert longer.tobytes().endswith(b"late") and longer.flags.writeable
