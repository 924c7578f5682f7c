"""Values of columns that were added with a default, for tuples that are older (``attmissingval``)."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from walshadow_core.api import FormatError
from walshadow_core.catalog.connect import SourceConnection

_ARRAY_OF_ONE = struct.Struct("!iiIiii")
"""ndim, flags, element oid, dimension, lower bound, element length (``array_send`` in ``adt/arrayfuncs.c``)."""

_MISSING = """
select attrelid, attnum, attmissingval from pg_attribute
where attrelid = any (%s::oid[]) and attnum > 0 and atthasmissing and atttypid = any (%s::oid[])"""


def read_missing(
    connection: SourceConnection, relations: Iterable[int], types: Iterable[int]
) -> dict[tuple[int, int], tuple[int, bytes]]:
    """The missing values of the columns of these relations that have one of these types.

    Gives (relation oid, attribute number) → (type oid, value in the type's binary send format); text is in the
    database's own encoding. attmissingval is an array of one element, and the server sends it in binary
    format without a detour over text, so that no setting of the role (DateStyle, extra_float_digits, …) and
    no typmod can change it. Must be called inside a transaction. Raises FormatError.
    """
    connection.execute("set local client_encoding = 'SQL_ASCII'")
    cursor = connection.execute(_MISSING, (list(relations), list(types)), binary=True)
    result = cursor.pgresult
    assert result is not None
    found = {}
    for row in range(result.ntuples):
        relation, number, array = (result.get_value(row, column) for column in range(3))
        assert relation is not None and number is not None
        if array is not None:
            key = int.from_bytes(relation, "big"), int.from_bytes(number, "big")
            found[key] = array_element(array)
    connection.execute("set local client_encoding = 'UTF8'")
    return found


def array_element(array: bytes) -> tuple[int, bytes]:
    """The type oid and the bytes of the one element of an array in send format. Raises FormatError."""
    if len(array) >= _ARRAY_OF_ONE.size:
        ndim, _, type_oid, count, _, length = _ARRAY_OF_ONE.unpack_from(array)
        if ndim == count == 1 and length == len(array) - _ARRAY_OF_ONE.size:
            return type_oid, array[_ARRAY_OF_ONE.size :]
    raise FormatError(f"attmissingval is not an array of one value: {array[:32].hex(' ')}")
