"""The registry of types: which codec decodes a column, in its type's own Arrow form or as text.

A type is found by its oid where Postgres itself has it (oids of ``catalog/pg_type.dat`` are the same in every
database), by its name where an extension brings it, and by its kind where users make it: array, domain, enum,
composite, range, multirange.
"""

from __future__ import annotations

from collections.abc import Mapping

from walshadow_core.api import Attribute, PgType, TableRefused
from walshadow_core.decode import type_datetime, type_fixed, type_numeric, type_text
from walshadow_core.decode.columns import Codec, CodecMaker, ColumnBuilder, DecodeOptions, TypeUse

__all__ = ["CODECS", "Codec", "CodecMaker", "ColumnBuilder", "DecodeOptions", "TypeUse", "codec_for", "use_of"]

CODECS: Mapping[int, CodecMaker] = {
    **type_fixed.CODECS,
    **type_text.CODECS,
    **type_numeric.CODECS,
    **type_datetime.CODECS,
}
"""Types that Postgres itself has, by oid, in their own Arrow form."""


def use_of(attribute: Attribute, encoding: str, options: DecodeOptions) -> TypeUse:
    """The use of a column's type in a database of this encoding."""
    a = attribute
    known = a.type or PgType(a.type_oid, "pg_catalog", a.type_name, "b", a.length, a.alignment, a.by_value)
    return TypeUse(known, a.typmod, a.type_name, a.name, encoding, options, a.dimensions)


def codec_for(attribute: Attribute, encoding: str, options: DecodeOptions) -> Codec:
    """The codec of a column in a database of this encoding. Raises TableRefused naming column and type."""
    make = CODECS.get(attribute.type_oid)
    if make is None:
        raise TableRefused(f'column "{attribute.name}" has type {attribute.type_name}, which is not supported yet')
    return make(use_of(attribute, encoding, options))
