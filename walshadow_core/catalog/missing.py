"""Values of columns that were added with a default, for tuples that are older (``attmissingval``)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from walshadow_core.api import FormatError, PgType
from walshadow_core.catalog.build import CatalogBuilder
from walshadow_core.catalog.connect import SourceConnection
from walshadow_core.catalog.rows import AttributeRow

_ARRAY_OF_ONE = struct.Struct("!iiIiii")
"""ndim, flags, element oid, dimension, lower bound, element length (``array_send`` in ``adt/arrayfuncs.c``)."""

_XML = 142
"""XMLOID (``catalog/pg_type.dat``)."""
_ARRAY_HEADER, _VARLENA_HEADER = 24, 4
"""What an array of one varlena has before its element (``utils/array.h``)."""

_MISSING = """
select a.attrelid, a.attnum, a.attmissingval from pg_attribute a
join unnest(%s::oid[], %s::int2[]) as w (relation, number) on (a.attrelid, a.attnum) = (w.relation, w.number)"""

_TEXT_SETTINGS = (
    "set local datestyle = 'ISO'; set local intervalstyle = 'postgres'; set local timezone = 'UTC'; "
    "set local extra_float_digits = 1; set local bytea_output = 'hex'; set local client_encoding = 'UTF8'"
)


def read_missing(
    connection: SourceConnection, builder: CatalogBuilder, attributes: Iterable[AttributeRow], encoding: str
) -> dict[tuple[int, int], bytes | str]:
    """The missing values that there are, by (relation oid, attribute number): in on-disk form, or where a type's
    can't be had, as its output function prints them; without those that can't be had at all. ``encoding`` is the
    database's.

    attmissingval is an array of one element. The server sends it in binary format without a detour over text, so
    that no setting of the role (DateStyle, extra_float_digits, …) and no typmod can change it; where it has to be
    text, the settings are pinned. Must be called inside a transaction. Raises FormatError.
    """
    there = [a for a in attributes if a.has_missing and not a.dropped]
    if not there:
        return {}
    # The decoder brings its compiler with it: only a table that needs it waits for that.
    from walshadow_core.decode.missing import on_disk, storable

    types = {(a.relation, a.number): builder.type(a.type) for a in there}
    binary = [key for key, type_ in types.items() if storable(type_)]
    as_text = [key for key in types if key not in set(binary)]
    found: dict[tuple[int, int], bytes | str] = {}
    for key, array in _read_binary(connection, binary).items():
        found[key] = on_disk(types[key], array_element(array), encoding)
    for key, (array_text, size) in _read_text(connection, as_text).items():
        element = array_text_element(array_text)
        if not _has_xml(types[key]) or (types[key].oid == _XML and size in _sizes_of_xml(element)):
            found[key] = element
    return found


def _has_xml(type_: PgType) -> bool:
    parts = [type_.element, type_.base, type_.subtype, type_.range, *(f.type for f in type_.fields)]
    return type_.oid == _XML or any(_has_xml(part) for part in parts if part is not None)


def _sizes_of_xml(element: str) -> tuple[int, int]:
    """The sizes that an array of this xml has, with a long and with a short header, if it is stored as it prints.
    xml_out leaves XML declarations out, or writes them anew, so that the stored text is not known from what it
    gives; a size that does not fit (or that is one of a compressed array) says so."""
    size = _ARRAY_HEADER + (_VARLENA_HEADER + len(element.encode()) + 3 & ~3)
    return size, size - 3


def _read_binary(connection: SourceConnection, keys: Sequence[tuple[int, int]]) -> dict[tuple[int, int], bytes]:
    """The arrays in send format, texts in them in the database's own encoding."""
    if not keys:
        return {}
    connection.execute("set local client_encoding = 'SQL_ASCII'")
    cursor = connection.execute(_MISSING, [list(part) for part in zip(*keys, strict=True)], binary=True)
    result = cursor.pgresult
    assert result is not None
    found = {}
    for row in range(result.ntuples):
        relation, number, array = (result.get_value(row, column) for column in range(3))
        assert relation is not None and number is not None
        if array is not None:
            found[int.from_bytes(relation, "big"), int.from_bytes(number, "big")] = array
    connection.execute("set local client_encoding = 'UTF8'")
    return found


def _read_text(connection: SourceConnection, keys: Sequence[tuple[int, int]]) -> dict[tuple[int, int], tuple[str, int]]:
    """The arrays as array_out prints them, and how large they are as they are stored."""
    if not keys:
        return {}
    connection.execute(_TEXT_SETTINGS)
    query = _MISSING.replace("a.attmissingval", "a.attmissingval::text, pg_column_size(a.attmissingval)")
    rows = connection.execute(query.encode(), [list(part) for part in zip(*keys, strict=True)]).fetchall()
    return {(relation, number): (text, size) for relation, number, text, size in rows if text is not None}


def array_element(array: bytes) -> bytes:
    """The bytes of the one element of an array in send format. Raises FormatError."""
    if len(array) >= _ARRAY_OF_ONE.size:
        ndim, _, _, count, _, length = _ARRAY_OF_ONE.unpack_from(array)
        if ndim == count == 1 and length == len(array) - _ARRAY_OF_ONE.size:
            return array[_ARRAY_OF_ONE.size :]
    raise FormatError(f"attmissingval is not an array of one value: {array[:32].hex(' ')}")


def array_text_element(text: str) -> str:
    """The one element of an array that array_out printed (``adt/arrayfuncs.c``): in double quotes, with a backslash
    before those inside and before backslashes, unless it needs none. Raises FormatError."""
    inside = text[1:-1]
    if len(text) < 2 or text[0] != "{" or text[-1] != "}" or not inside:
        raise FormatError(f"attmissingval is not an array of one value: {text[:64]!r}")
    if inside[0] != '"':
        return inside
    out = []
    characters = iter(inside[1:-1])
    for character in characters:
        out.append(next(characters, "") if character == "\\" else character)
    return "".join(out)
