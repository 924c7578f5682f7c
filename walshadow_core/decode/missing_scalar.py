"""Values of types that are not made of others: from binary send format to the bytes that a tuple would hold.

The layouts are those of the types' send functions and structs (``utils/adt``): mostly the same numbers, big-endian
there and little-endian here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from walshadow_core.api import FormatError, PgType
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.type_numeric import (
    LONG_DSCALE_MASK,
    NAN,
    NEGATIVE,
    NEGATIVE_INFINITY,
    POSITIVE_INFINITY,
    SHORT,
    SHORT_DSCALE_MASK,
    SHORT_DSCALE_SHIFT,
    SHORT_SIGN,
    SHORT_WEIGHT_MASK,
    SHORT_WEIGHT_SIGN,
)

NAME_LENGTH: Final = 64
"""NAMEDATALEN: bytes of a name, filled up with zeros."""

_SHORT_WEIGHTS: Final = range(-SHORT_WEIGHT_SIGN, SHORT_WEIGHT_MASK + 1)

_CATALOG: Final = "pg_catalog"

Stored = Callable[[bytes], bytes]
"""Send format to on-disk format. Raises WrongSize for bytes that are not of the type."""


class WrongSize(Exception):
    """Bytes in send format that the type can't have."""


def unpack(layout: str, sent: bytes) -> tuple[int, ...]:
    """As struct.unpack. Raises WrongSize."""
    if len(sent) != struct.calcsize(layout):
        raise WrongSize
    return struct.unpack(layout, sent)


def scalar(type_: PgType) -> Stored | None:
    """How a base type's values are turned into their on-disk form; None if that is not known."""
    if type_.schema == _CATALOG:
        return _BUILT_IN.get(type_.oid)
    return _OF_EXTENSIONS.get(type_.name)


def not_of_type(sent: bytes, type_: PgType) -> FormatError:
    """The error for a WrongSize."""
    return FormatError(f"a missing value of {len(sent)} bytes is none of type {type_.name} (oid {type_.oid})")


def _as_sent(sent: bytes) -> bytes:
    return sent


def _exactly(size: int) -> Stored:
    def stored(sent: bytes) -> bytes:
        if len(sent) != size:
            raise WrongSize
        return sent

    return stored


def _numbers(layout: str) -> Stored:
    """A few numbers, in the same order in both formats. Floats go as integers: a NaN's bits must not go through a
    float."""

    def stored(sent: bytes) -> bytes:
        return struct.pack(f"<{layout}", *unpack(f">{layout}", sent))

    return stored


def _name(sent: bytes) -> bytes:
    if len(sent) >= NAME_LENGTH:
        raise WrongSize
    return sent.ljust(NAME_LENGTH, b"\0")


def _numeric(sent: bytes) -> bytes:
    """numeric_send's (digits, weight, sign, dscale, digit…) to what make_result writes."""
    count, weight, sign, dscale = unpack(">HhHH", sent[:8])
    digits = unpack(f">{count}H", sent[8:])
    if sign in (NAN, POSITIVE_INFINITY, NEGATIVE_INFINITY):
        return struct.pack("<H", sign)
    if sign not in (0, NEGATIVE) or dscale > LONG_DSCALE_MASK:
        raise WrongSize
    if dscale <= SHORT_DSCALE_MASK and weight in _SHORT_WEIGHTS:
        short_sign = SHORT_SIGN if sign else 0
        short_weight = weight & (SHORT_WEIGHT_SIGN | SHORT_WEIGHT_MASK)
        header = struct.pack("<H", SHORT | short_sign | dscale << SHORT_DSCALE_SHIFT | short_weight)
    else:
        header = struct.pack("<Hh", sign | dscale, weight)
    return header + struct.pack(f"<{count}H", *digits)


def _network(sent: bytes) -> bytes:
    """inet and cidr: (family, bits, is_cidr, length, address) to inet_struct (``utils/inet.h``)."""
    if len(sent) not in (8, 20) or sent[3] != len(sent) - 4:
        raise WrongSize
    return sent[:2] + sent[4:]


def _bits(sent: bytes) -> bytes:
    """bit and varbit: the count of bits, and they."""
    (count,) = unpack(">i", sent[:4])
    if len(sent) != 4 + (count + 7 >> 3):
        raise WrongSize
    return struct.pack("<i", count) + sent[4:]


def _tid(sent: bytes) -> bytes:
    """ItemPointerData (``storage/itemptr.h``): the block number in two halves, the high one first."""
    block, offset = unpack(">IH", sent)
    return struct.pack("<HHH", block >> 16, block & 0xFFFF, offset)


def _path(sent: bytes) -> bytes:
    """PATH (``utils/geo_decls.h``): count, closed, and a word of padding before the points."""
    closed, count = unpack(">bi", sent[:5])
    return struct.pack("<iii", count, closed, 0) + _doubles(sent[5:], 2 * count)


def _polygon(sent: bytes) -> bytes:
    """POLYGON (``utils/geo_decls.h``): count, bounding box (high corner, low corner), points."""
    (count,) = unpack(">i", sent[:4])
    points = _doubles(sent[4:], 2 * count)
    values = struct.unpack(f"<{2 * count}d", points)
    box = (max(values[::2]), max(values[1::2]), min(values[::2]), min(values[1::2])) if count else (0.0,) * 4
    return struct.pack("<i4d", count, *box) + points


def _doubles(sent: bytes, count: int) -> bytes:
    return struct.pack(f"<{count}Q", *unpack(f">{count}Q", sent))


def _vector(width: str) -> Stored:
    """pgvector's Vector and HalfVector: the count of dimensions, an unused word, and the numbers as integers."""

    def stored(sent: bytes) -> bytes:
        count, unused = unpack(">hh", sent[:4])
        layout = f"{max(count, 0)}{width}"
        return struct.pack("<hh", count, unused) + struct.pack(f"<{layout}", *unpack(f">{layout}", sent[4:]))

    return stored


_OID: Final = _numbers("I")
_POINT: Final = _numbers("2Q")
_BUILT_IN: Final[dict[int, Stored]] = {
    oid.BOOL: _numbers("b"), oid.CHAR: _numbers("b"),
    oid.INT2: _numbers("h"), oid.INT4: _numbers("i"), oid.INT8: _numbers("q"),
    oid.FLOAT4: _numbers("I"), oid.FLOAT8: _numbers("Q"), oid.NUMERIC: _numeric,
    oid.TEXT: _as_sent, oid.VARCHAR: _as_sent, oid.BPCHAR: _as_sent, oid.JSON: _as_sent, oid.BYTEA: _as_sent,
    oid.NAME: _name, oid.UUID: _exactly(16),
    oid.DATE: _numbers("i"), oid.TIME: _numbers("q"), oid.TIMETZ: _numbers("qi"), oid.TIMESTAMP: _numbers("q"),
    oid.TIMESTAMPTZ: _numbers("q"), oid.INTERVAL: _numbers("qii"),
    oid.OID: _OID,
    # xid, cid, regproc, regprocedure, regoper, regoperator, regclass, regtype, regconfig, regdictionary,
    # regnamespace, regrole, regcollation
    **dict.fromkeys((28, 29, 24, 2202, 2203, 2204, 2205, 2206, 3734, 3769, 4089, 4096, 4191), _OID),
    5069: _numbers("Q"),  # xid8
    3220: _numbers("Q"),  # pg_lsn
    790: _numbers("q"),  # money
    27: _tid,
    1790: _as_sent,  # refcursor
    869: _network, 650: _network,  # inet, cidr
    829: _exactly(6), 774: _exactly(8),  # macaddr, macaddr8
    1560: _bits, 1562: _bits,  # bit, varbit
    600: _POINT, 601: _numbers("4Q"), 603: _numbers("4Q"), 628: _numbers("3Q"), 718: _numbers("3Q"),
    602: _path, 604: _polygon,  # before: point, lseg, box, line, circle
}  # fmt: skip
_OF_EXTENSIONS: Final[dict[str, Stored]] = {"citext": _as_sent, "vector": _vector("I"), "halfvec": _vector("H")}
