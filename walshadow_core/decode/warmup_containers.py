"""Values to warm the kernels of enums, arrays, composites and ranges up with: type, payload, and in which forms."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from walshadow_core.api import Attribute, Form, PgType
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.text_range import LOWER_INCLUSIVE

_OID: Final = 16384
_INT4: Final = PgType(oid.INT4, "pg_catalog", "int4", "b", 4, "i", True)
_FIELD: Final = Attribute(1, "x", oid.INT4, "integer", -1, 4, "i", True, "p", False, type=_INT4)


def _made(name: str, kind: str, element: PgType | None = None, **parts: object) -> PgType:
    return PgType(_OID, "public", name, kind, -1, "d", False, element=element, **parts)  # type: ignore[arg-type]


_ENUM: Final = PgType(_OID, "public", "enum", "e", 4, "i", True, labels=((1, "label"),))
_ARRAY: Final = _made("array", "b", _INT4)
_COMPOSITE: Final = _made("composite", "c", fields=(_FIELD,))
_RANGE: Final = _made("range", "r", subtype=_INT4)

_ONE_ELEMENT: Final = struct.pack("<iiIiii", 1, 0, oid.INT4, 1, 1, 7)
_ONE_FIELD: Final = struct.pack("<iIiHHHBxi", -1, _OID, 0, 0, 1, 0, 24, 7)
_ONE_RANGE: Final = struct.pack("<IiiB", _OID, 7, 8, LOWER_INCLUSIVE)


def container_samples() -> Iterator[tuple[PgType, bytes, Form]]:
    """(type, stored bytes without varlena header, form)"""
    yield _INT4, bytes(4), "text"
    yield _ENUM, struct.pack("<I", 1), "own"
    yield _ARRAY, _ONE_ELEMENT, "own"
    yield _ARRAY, _ONE_ELEMENT, "text"
    yield _COMPOSITE, _ONE_FIELD, "own"
    yield _COMPOSITE, _ONE_FIELD, "text"
    yield _RANGE, _ONE_RANGE, "own"
