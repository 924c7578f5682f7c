"""int2vector and oidvector: arrays by their layout, lists of numbers by their text (``utils/adt/int.c``, ``oid.c``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from walshadow_core.api import PgType
from walshadow_core.decode import text_fixed, type_fixed
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.columns import Codec, CodecMaker, TypeUse
from walshadow_core.decode.type_array import ArrayTextColumn, ElementCodec, ListColumn

_ELEMENTS = {
    oid.INT2VECTOR: PgType(oid.INT2, "pg_catalog", "int2", "b", 2, "s", True),
    oid.OIDVECTOR: PgType(oid.OID, "pg_catalog", "oid", "b", 4, "i", True),
}


def _element(use: TypeUse, makers: Mapping[int, CodecMaker]) -> ElementCodec:
    element = _ELEMENTS[use.type.oid]
    return ElementCodec(element, makers[element.oid](replace(use, type=element, type_name=element.name)), True)


def _native(use: TypeUse) -> Codec:
    element = _element(use, type_fixed.CODECS)
    return Codec(pa.list_(element.codec.arrow), lambda: ListColumn(element, 1))


def _text(use: TypeUse) -> Codec:
    element = _element(use, text_fixed.TEXTS)
    return Codec(element.codec.arrow, lambda: ArrayTextColumn(element, use.column))


CODECS: Mapping[int, CodecMaker] = dict.fromkeys(_ELEMENTS, _native)
TEXTS: Mapping[int, CodecMaker] = dict.fromkeys(_ELEMENTS, _text)
"""This family's types, by oid."""
