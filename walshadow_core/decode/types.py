"""The registry of types: which codec decodes a column, in its type's own Arrow form or as text.

A type that a plugin decodes is the plugin's. Any other is found by its oid where Postgres itself has it (oids of
``catalog/pg_type.dat`` are the same in every database), by its name where an extension brings it, and by its kind
where users make it: array, domain, enum, composite, range, multirange.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from walshadow_core.api import Attribute, Form, TableRefused
from walshadow_core.decode import (
    float_lists,
    text_fixed,
    type_array,
    type_bits,
    type_composite,
    type_cube,
    type_datetime,
    type_domain,
    type_enum,
    type_fixed,
    type_geometry,
    type_hstore,
    type_ids,
    type_intvector,
    type_jsonb,
    type_jsonpath,
    type_ltree,
    type_money,
    type_network,
    type_numeric,
    type_plugin,
    type_postgis,
    type_range,
    type_snapshot,
    type_text,
    type_tsearch,
    type_vector,
    type_xml,
)
from walshadow_core.decode.columns import (
    Codec,
    CodecMaker,
    Codecs,
    ColumnBuilder,
    ContainerMaker,
    DecodeOptions,
    TypeUse,
    use_of,
)

__all__ = [
    "CODECS", "Codec", "CodecMaker", "ColumnBuilder", "DecodeOptions", "TypeUse", "codec_for", "native_codec",
    "text_codec", "use_of",
]  # fmt: skip

CODECS: Mapping[int, CodecMaker] = {
    **type_fixed.CODECS,
    **type_text.CODECS,
    **type_numeric.CODECS,
    **type_datetime.CODECS,
    **type_jsonb.CODECS,
    **type_jsonpath.CODECS,
    **type_tsearch.CODECS,
    **type_snapshot.CODECS,
    **type_network.CODECS,
    **type_bits.CODECS,
    **type_money.CODECS,
    **type_geometry.CODECS,
    **type_ids.CODECS,
    **type_xml.CODECS,
    **type_intvector.CODECS,
}
"""Types that Postgres itself has, by oid, in their own Arrow form."""

TEXTS: Mapping[int, CodecMaker] = {
    **type_text.CODECS,
    **type_numeric.TEXTS,
    **text_fixed.TEXTS,
    **float_lists.TEXTS,
    **type_money.TEXTS,
    **type_ids.TEXTS,
    **type_intvector.TEXTS,
}
"""The same as strings, as the type's output function prints them. A type whose own form is just that is not here."""

EXTENSION_CODECS: Mapping[str, CodecMaker] = {
    **type_hstore.EXTENSION_CODECS,
    **type_text.EXTENSION_CODECS,
    **type_ltree.EXTENSION_CODECS,
    **type_cube.EXTENSION_CODECS,
    **type_vector.EXTENSION_CODECS,
    **type_postgis.EXTENSION_CODECS,
}
EXTENSION_TEXTS: Mapping[str, CodecMaker] = {**type_vector.EXTENSION_TEXTS}
"""Types that extensions bring, by name, likewise."""

CAST_TEXTS: Mapping[int, CodecMaker] = {
    **text_fixed.CAST_TEXTS,
    **type_network.CAST_TEXTS,
    **type_xml.CAST_TEXTS,
}
"""Types whose cast to text prints something else than their output function, for columns: true is t in an array."""

CONTAINERS: Mapping[str, ContainerMaker] = {
    **type_array.CONTAINERS,
    **type_composite.CONTAINERS,
    **type_domain.CONTAINERS,
    **type_enum.CONTAINERS,
    **type_range.CONTAINERS,
}
"""By PgType.kind, and ``array`` for arrays of anything: types made of other types, in their own Arrow form."""

CONTAINER_TEXTS: Mapping[str, ContainerMaker] = {
    **type_array.CONTAINER_TEXTS,
    **type_composite.CONTAINER_TEXTS,
    **type_domain.CONTAINER_TEXTS,
}
"""The same as strings; one whose own form is a string is not here."""


class _Codecs:
    """What containers ask for the codecs of their parts: see columns.Codecs."""

    def native(self, use: TypeUse) -> Codec:
        return native_codec(use)

    def text(self, use: TypeUse) -> Codec:
        return text_codec(use)


_CODECS: Codecs = _Codecs()


def native_codec(use: TypeUse) -> Codec:
    """The codec of a type in its own Arrow form. Raises TableRefused naming column and type."""
    if use.type.codec is not None:
        return type_plugin.own(use)
    made = _find(use, CODECS, EXTENSION_CODECS, CONTAINERS)
    if made is None:
        raise _unsupported(use)
    return made


def text_codec(use: TypeUse) -> Codec:
    """The codec of a type as its output function prints it: strings, or under the invalid_text policy ``bytes``
    binaries where there is text in it. Raises TableRefused."""
    if use.type.codec is not None:
        return type_plugin.text(use)
    made = _find(use, TEXTS, EXTENSION_TEXTS, CONTAINER_TEXTS)
    if made is None:
        made = native_codec(use)
        as_stored = use.options.invalid_text == "bytes" and pa.types.is_binary(made.arrow)
        if not pa.types.is_string(made.arrow) and not as_stored:
            raise TableRefused(f'column "{use.column}": type {use.type.name} is not supported as text yet')
    return made


def _find(
    use: TypeUse,
    makers: Mapping[int, CodecMaker],
    extensions: Mapping[str, CodecMaker],
    containers: Mapping[str, ContainerMaker],
) -> Codec | None:
    known = use.type
    make = makers.get(known.oid)
    if make is None and known.kind == "b" and known.schema != "pg_catalog":
        make = extensions.get(known.name)
    if make is not None:
        return make(use)
    container = containers.get("array" if known.kind == "b" and known.element is not None else known.kind)
    return container(use, _CODECS) if container is not None else None


def _unsupported(use: TypeUse) -> TableRefused:
    return TableRefused(
        f'column "{use.column}" has type {use.type_name}, which nothing here decodes',
        f"load its bytes in hex with --type TABLE.{use.column}=hex, leave it out with --exclude, or install a plugin",
    )


def codec_for(attribute: Attribute, encoding: str, options: DecodeOptions, form: Form = "own") -> Codec:
    """The codec of a column in a database of this encoding. Raises TableRefused naming column and type."""
    use = use_of(attribute, encoding, options)
    if form == "own":
        return native_codec(use)
    if form == "hex":
        return text_fixed.hex_codec(use)
    while use.type.kind == "d":
        use = type_domain.base_use(use)
    cast = CAST_TEXTS.get(use.type.oid)
    return cast(use) if cast is not None else text_codec(use)
