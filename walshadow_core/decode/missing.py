"""Missing values (pg_attribute.attmissingval): from what SQL gives to the bytes that a tuple would hold.

ADD COLUMN with a constant default writes no tuple; the value is kept in the catalog, for all tuples that end
before the attribute. SQL gives it in the type's binary send format (``typsend``: big-endian, text in the client's
encoding, which has to be the database's), a tuple has it in its on-disk format (little-endian here).

Types that are made of others are put together here as array_recv, record_recv, range_recv and multirange_recv do.
What is inside of a varlena is aligned from its start, of which the four bytes of the header are not in the result.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from walshadow_core.api import Attribute, PgType, TableRefused
from walshadow_core.decode.deform import ALIGNMENTS, CSTRING, VARLENA
from walshadow_core.decode.encodings import transcode
from walshadow_core.decode.missing_scalar import WrongSize, not_of_type, scalar, unpack
from walshadow_core.pgformat.varlena import HEADER_SIZE

_MAX_ALIGN: Final = 8
_SHORT_MAX: Final = 0x7F - 1
"""Data bytes of the longest varlena with a header of one byte (VARATT_CAN_MAKE_SHORT)."""

_EMPTY, _LOWER_INFINITE, _UPPER_INFINITE, _LOWER_NULL, _UPPER_NULL = 0x01, 0x08, 0x10, 0x20, 0x40
"""Flags of a range (``utils/rangetypes.h``)."""
_ITEM_STRIDE, _ITEM_OFFSET = 4, 0x80000000
"""Every so many items of a multirange one is an offset, marked so, not a length (``adt/multirangetypes.c``)."""

_HAS_NULL, _HAS_VARWIDTH = 0x0001, 0x0002
_TUPLE_HEADER: Final = struct.Struct("<iIIHHHB")
"""After the length word: datum_typmod, datum_typeid, t_ctid (block, offset), t_infomask2, t_infomask, t_hoff
(``access/htup_details.h``)."""


def storable(type_: PgType) -> bool:
    """Whether ``on_disk`` knows the type and all that it is made of."""
    parts = [p for p in (type_.element, type_.base, type_.subtype, type_.range) if p is not None]
    parts += [f.type for f in type_.fields if f.type is not None]
    if type_.kind in "ec" or parts:
        return all(storable(part) for part in parts)
    return type_.kind == "b" and scalar(type_) is not None


def on_disk(type_: PgType, sent: bytes, encoding: str) -> bytes:
    """A value in binary send format as a tuple holds it, without varlena header. ``encoding`` is the database's.

    Raises FormatError if ``sent`` is not of the type, TableRefused for a type that is not ``storable``.
    """
    try:
        return _stored(type_, sent, encoding)
    except (WrongSize, struct.error):
        raise not_of_type(sent, type_) from None


def _stored(type_: PgType, sent: bytes, encoding: str) -> bytes:
    if type_.element is not None:
        return _array(type_, type_.element, sent, encoding)
    if type_.base is not None:
        return _stored(type_.base, sent, encoding)
    if type_.subtype is not None:
        return _range(type_, type_.subtype, sent, encoding)
    if type_.range is not None:
        return _multirange(type_, type_.range, sent, encoding)
    if type_.kind == "e":
        return _enum(type_, sent, encoding)
    if type_.kind == "c":
        return _composite(type_, sent, encoding)
    stored = scalar(type_)
    if stored is None:
        raise TableRefused(f"a missing value of type {type_.name} (oid {type_.oid}) is not supported")
    return stored(sent)


class _Reader:
    """Takes big-endian numbers and pieces off some bytes, one after the other. Raises WrongSize."""

    def __init__(self, sent: bytes) -> None:
        self._sent = sent
        self._at = 0

    def take(self, size: int) -> bytes:
        taken = self._sent[self._at : self._at + size]
        if size < 0 or len(taken) != size:
            raise WrongSize
        self._at += size
        return taken

    def number(self) -> int:
        return unpack(">i", self.take(4))[0]

    def piece(self) -> bytes | None:
        """A length and so many bytes; None for a NULL."""
        length = self.number()
        return None if length == -1 else self.take(length)

    def end(self) -> None:
        if self._at != len(self._sent):
            raise WrongSize


def _padding(size: int, alignment: int) -> bytes:
    return bytes(-size % alignment)


def _datum(type_: PgType, stored: bytes) -> bytes:
    """A value with what says where it ends: a header of four bytes, or a zero after it, or nothing."""
    match type_.length:
        case _ if type_.length == VARLENA:
            return struct.pack("<I", (len(stored) + HEADER_SIZE) << 2) + stored
        case _ if type_.length == CSTRING:
            return stored + b"\0"
        case _:
            return stored


def _append(out: bytearray, type_: PgType, stored: bytes, packable: bool) -> None:
    """As heap_fill_tuple and range_serialize do: aligned from the start of ``out``, varlenas with a short header,
    and then not aligned, where they are small enough."""
    if type_.length == VARLENA and packable and len(stored) <= _SHORT_MAX:
        out.append((len(stored) + 1) << 1 | 1)
        out += stored
    else:
        out += _padding(len(out), ALIGNMENTS[type_.alignment])
        out += _datum(type_, stored)


def _enum(type_: PgType, sent: bytes, encoding: str) -> bytes:
    """enum_send gives the label; a tuple has its oid."""
    data, _ = transcode(np.frombuffer(bytearray(sent), np.uint8), np.array([0, len(sent)], np.int32), encoding, "error")
    label = data.tobytes().decode()
    for number, name in type_.labels:
        if name == label:
            return struct.pack("<I", number)
    raise WrongSize


def _array(type_: PgType, element: PgType, sent: bytes, encoding: str) -> bytes:
    """ArrayType (``utils/array.h``): dimensions, where the elements begin if some are NULL, element type, bitmap."""
    reader = _Reader(sent)
    dimensions, has_nulls, _ = reader.number(), reader.number(), reader.number()
    if not 0 <= dimensions <= 6 or has_nulls not in (0, 1):
        raise WrongSize
    bounds = [(reader.number(), reader.number()) for _ in range(dimensions)]
    count = 1 if bounds else 0
    for size, _ in bounds:
        count *= size
    values = [reader.piece() for _ in range(count)]
    reader.end()
    sizes = [part for column in zip(*bounds, strict=True) for part in column]
    head = struct.pack(f"<I{len(sizes)}i", element.oid, *sizes)
    bitmap = _bitmap(values) if has_nulls else b""
    start = HEADER_SIZE + 8 + len(head) + len(bitmap)
    padding = _padding(start, _MAX_ALIGN)
    out = bytearray()
    for value in values:
        if value is not None:
            out += _datum(element, _stored(element, value, encoding))
            out += _padding(len(out), ALIGNMENTS[element.alignment])
    data_offset = start + len(padding) if has_nulls else 0
    return struct.pack("<ii", dimensions, data_offset) + head + bitmap + padding + bytes(out)


def _bitmap(values: Sequence[bytes | None]) -> bytes:
    """One bit per value, set where it is not NULL, least significant bit first."""
    return np.packbits([value is not None for value in values], bitorder="little").tobytes()


def _composite(type_: PgType, sent: bytes, encoding: str) -> bytes:
    """A tuple with a datum header, as heap_form_tuple makes it; record_send leaves dropped attributes out."""
    reader = _Reader(sent)
    live = [f for f in type_.fields if not f.dropped]
    if reader.number() != len(live):
        raise WrongSize
    values: list[bytes | None] = []
    for field in type_.fields:
        if field.dropped:
            values.append(None)
        else:
            reader.number()
            values.append(reader.piece())
    reader.end()
    data = bytearray()
    for attribute, stored in _fields(type_, values, encoding):
        assert attribute.type is not None
        _append(data, attribute.type, stored, attribute.storage != "p")
    bitmap = _bitmap(values) if None in values else b""
    width = HEADER_SIZE + _TUPLE_HEADER.size + len(bitmap)
    header_size = width + len(_padding(width, _MAX_ALIGN))
    infomask = (_HAS_NULL if bitmap else 0) | (
        _HAS_VARWIDTH if any(f.length < 0 for f, v in zip(type_.fields, values, strict=True) if v is not None) else 0
    )
    header = _TUPLE_HEADER.pack(-1, type_.oid, 0xFFFFFFFF, 0, len(type_.fields), infomask, header_size)
    return header + bitmap + _padding(width, _MAX_ALIGN) + bytes(data)


def _fields(type_: PgType, values: list[bytes | None], encoding: str) -> Iterator[tuple[Attribute, bytes]]:
    for attribute, value in zip(type_.fields, values, strict=True):
        if value is not None and attribute.type is not None:
            yield attribute, _stored(attribute.type, value, encoding)


def _range(type_: PgType, subtype: PgType, sent: bytes, encoding: str) -> bytes:
    """RangeType (``utils/rangetypes.h``): the range type's oid, the bounds that there are, flags."""
    reader = _Reader(sent)
    flags = reader.take(1)[0]
    # Aligned from the start of the varlena, whose header is cut off again.
    out = bytearray(HEADER_SIZE) + struct.pack("<I", type_.oid)
    for absent in (_EMPTY | _LOWER_INFINITE | _LOWER_NULL, _EMPTY | _UPPER_INFINITE | _UPPER_NULL):
        if not flags & absent:
            bound = reader.piece()
            if bound is None:
                raise WrongSize
            _append(out, subtype, _stored(subtype, bound, encoding), packable=True)
    reader.end()
    out.append(flags)
    return bytes(out[HEADER_SIZE:])


def _multirange(type_: PgType, range_: PgType, sent: bytes, encoding: str) -> bytes:
    """MultirangeType (``utils/multirangetypes.h``): oid, count, items, flags, and the bounds of each range."""
    assert range_.subtype is not None
    alignment = ALIGNMENTS[range_.subtype.alignment]
    reader = _Reader(sent)
    ranges: list[bytes] = []
    for _ in range(reader.number()):
        value = reader.piece()
        if value is None:
            raise WrongSize
        ranges.append(_range(range_, range_.subtype, value, encoding))
    reader.end()
    items, bounds, before = bytearray(), bytearray(), 0
    for i, stored in enumerate(ranges):
        at = len(bounds)
        if i:
            items += struct.pack("<I", at | _ITEM_OFFSET if i % _ITEM_STRIDE == 0 else at - before)
        before = at
        bounds += stored[HEADER_SIZE:-1]
        bounds += _padding(len(bounds), alignment)
    head = struct.pack("<II", type_.oid, len(ranges)) + items + bytes(stored[-1] for stored in ranges)
    return head + _padding(HEADER_SIZE + len(head), alignment) + bytes(bounds)
