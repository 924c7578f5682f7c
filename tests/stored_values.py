"""Values as Postgres stores them, made by hand, and a way to decode them without a table around them."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from walshadow_core.api import Attribute, Form, PgType
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.columns import Codec, ColumnBuilder, DecodeOptions
from walshadow_core.decode.types import codec_for

ALIGNMENTS = {"c": 1, "s": 2, "i": 4, "d": 8}

BOOL = PgType(oid.BOOL, "pg_catalog", "bool", "b", 1, "c", True)
INT2 = PgType(oid.INT2, "pg_catalog", "int2", "b", 2, "s", True)
INT4 = PgType(oid.INT4, "pg_catalog", "int4", "b", 4, "i", True)
INT8 = PgType(oid.INT8, "pg_catalog", "int8", "b", 8, "d", True)
TEXT = PgType(oid.TEXT, "pg_catalog", "text", "b", -1, "i", False)
TYPE_OID = 16400


def array_of(element: PgType) -> PgType:
    align = "d" if element.alignment == "d" else "i"
    return PgType(TYPE_OID + 1, "public", f"_{element.name}", "b", -1, align, False, element=element)


def composite_of(**fields: PgType | None) -> PgType:
    """None: a dropped int4."""
    attributes = tuple(
        Attribute(
            number, name, (known or INT4).oid, (known or INT4).name, -1, (known or INT4).length,
            (known or INT4).alignment, False, "p", False, dropped=known is None, type=known,
        )
        for number, (name, known) in enumerate(fields.items(), 1)
    )  # fmt: skip
    return PgType(TYPE_OID + 2, "public", "record", "c", -1, "d", False, fields=attributes)


def range_of(subtype: PgType) -> PgType:
    align = "d" if subtype.alignment == "d" else "i"
    return PgType(TYPE_OID + 3, "public", "span", "r", -1, align, False, subtype=subtype)


def multirange_of(subtype: PgType) -> PgType:
    whole = range_of(subtype)
    return PgType(TYPE_OID + 4, "public", "spans", "m", -1, whole.alignment, False, range=whole)


def enum_of(**labels: int) -> PgType:
    return PgType(
        TYPE_OID + 5,
        "public",
        "mood",
        "e",
        4,
        "i",
        True,
        labels=tuple((number, name) for name, number in labels.items()),
    )


def domain_of(base: PgType) -> PgType:
    return PgType(TYPE_OID + 6, "public", "domain", "d", base.length, base.alignment, base.by_value, base=base)


def long(data: bytes) -> bytes:
    """A varlena with a header of four bytes."""
    return struct.pack("<I", len(data) + 4 << 2) + data


def short(data: bytes) -> bytes:
    """A varlena with a header of one byte."""
    return bytes((len(data) + 1 << 1 | 1,)) + data


def _put(out: bytearray, value: bytes, known: PgType) -> None:
    """Append a datum, aligned from the start of ``out`` unless it has a short header."""
    if known.length != -1 or not value[0] & 1:
        out += bytes(-len(out) % ALIGNMENTS[known.alignment])
    out += value


def array(
    values: Sequence[bytes | None],
    element: PgType,
    dims: Sequence[int] | None = None,
    lows: Sequence[int] | None = None,
) -> bytes:
    """The payload of an array; ``values`` are datums, varlena headers included."""
    dims = [len(values)] if dims is None else dims
    lows = [1] * len(dims) if lows is None else lows
    nulls = any(value is None for value in values)
    out = (
        bytearray(4) + struct.pack("<iiI", len(dims), 0, element.oid) + struct.pack(f"<{2 * len(dims)}i", *dims, *lows)
    )
    if nulls:
        bits = bytearray((len(values) + 7) >> 3)
        for k, value in enumerate(values):
            bits[k >> 3] |= (value is not None) << (k & 7)
        out += bits
    out += bytes(-len(out) % 8)
    if nulls:
        struct.pack_into("<i", out, 8, len(out))
    for value in values:
        if value is not None:
            _put(out, value, element)
    return bytes(out[4:])


def composite(values: Sequence[bytes | None], known: PgType) -> bytes:
    """The payload of a composite value of the first ``len(values)`` fields."""
    nulls = any(value is None for value in values)
    bits = bytearray((len(values) + 7) >> 3) if nulls else bytearray()
    for k, value in enumerate(values):
        if nulls:
            bits[k >> 3] |= (value is not None) << (k & 7)
    hoff = (23 + len(bits) + 7) & ~7
    head = struct.pack("<iiIiHHHB", 0, -1, known.oid, -1, 0, len(values), int(nulls), hoff) + bits
    data = bytearray()
    for value, field in zip(values, known.fields, strict=False):
        if value is not None:
            _put(data, value, field.type or INT4)
    return (head.ljust(hoff, b"\0") + data)[4:]


def range_value(flags: int, bounds: Sequence[bytes], known: PgType) -> bytes:
    """The payload of a range."""
    assert known.subtype is not None
    out = bytearray(4) + struct.pack("<I", known.oid)
    for bound in bounds:
        _put(out, bound, known.subtype)
    return bytes(out[4:]) + bytes((flags,))


def multirange_value(ranges: Sequence[tuple[int, Sequence[bytes]]], known: PgType) -> bytes:
    """The payload of a multirange. The words that help to find a range stay zero."""
    assert known.range is not None and known.range.subtype is not None
    subtype = known.range.subtype
    out = bytearray(4) + struct.pack("<II", known.oid, len(ranges)) + bytes(4 * max(0, len(ranges) - 1))
    out += bytes(flags for flags, _ in ranges)
    for _, bounds in ranges:
        out += bytes(-len(out) % ALIGNMENTS[subtype.alignment])
        for bound in bounds:
            _put(out, bound, subtype)
    return bytes(out[4:])


# --------------------------------------------------------------------------------------------- decoding


def codec_of(
    known: PgType,
    form: Form = "own",
    *,
    dimensions: int = 0,
    encoding: str = "UTF8",
    options: DecodeOptions | None = None,
) -> Codec:
    attribute = Attribute(
        1, "v", known.oid, known.name, -1, known.length, known.alignment, known.by_value, "p", False,
        dimensions=dimensions, type=known,
    )  # fmt: skip
    return codec_for(attribute, encoding, options or DecodeOptions(), form)


def append(builder: ColumnBuilder, payloads: Sequence[bytes | None]) -> None:
    """The last value ends where the buffer does; a null's place and length are nonsense."""
    buf = bytearray(b"\xee")
    offset, length = [], []
    for payload in payloads:
        offset.append(2**31 - 1 if payload is None else len(buf))
        length.append(2**31 - 1 if payload is None else len(payload))
        buf += payload or b""
    kind = np.array([payload is not None for payload in payloads], np.uint8)
    builder.append(np.frombuffer(buf, np.uint8), np.array(offset, np.int32), np.array(length, np.int32), kind)


def build(made: Codec, *parts: Sequence[bytes | None]) -> pa.Array:
    """The Arrow array of some payloads, None for NULL; each part is an append of its own."""
    builder = made.builder()
    for part in parts:
        append(builder, part)
    array = builder.finish()
    assert array.type == made.arrow
    array.validate(full=True)
    return array


def damaged(payload: bytes, tries: int, rng: Any) -> Iterator[bytes]:
    """The payload with some bytes changed, cut off, or put in."""
    for _ in range(tries):
        data = bytearray(payload)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(data)) if data else 0
            match rng.randrange(5):
                case 0 if data:
                    data[at] = rng.randrange(256)
                case 1 if data:
                    data[at] ^= 1 << rng.randrange(8)
                case 2:
                    del data[at:]
                case 3 if data:
                    data[at : at + 4] = rng.choice([b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\x80", bytes(4)])
                case _:
                    data[at:at] = rng.randbytes(rng.randrange(9))
        yield bytes(data)
