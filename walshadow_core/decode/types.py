"""The registry of types: which codec decodes a column."""

from __future__ import annotations

from collections.abc import Mapping

from walshadow_core.api import Attribute, TableRefused
from walshadow_core.decode import type_datetime, type_fixed, type_numeric, type_text
from walshadow_core.decode.columns import Codec, CodecMaker, ColumnBuilder, DecodeOptions

__all__ = ["CODECS", "Codec", "CodecMaker", "ColumnBuilder", "DecodeOptions", "codec_for"]

CODECS: Mapping[int, CodecMaker] = {
    **type_fixed.CODECS,
    **type_text.CODECS,
    **type_numeric.CODECS,
    **type_datetime.CODECS,
}
"""Every type that can be decoded, by its oid."""


def codec_for(attribute: Attribute, encoding: str, options: DecodeOptions) -> Codec:
    """The codec of a column in a database of this encoding. Raises TableRefused naming column and type."""
    make = CODECS.get(attribute.type_oid)
    if make is None:
        raise TableRefused(f'column "{attribute.name}" has type {attribute.type_name}, which is not supported yet')
    return make(attribute, encoding, options)
