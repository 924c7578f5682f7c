"""The few arrays that catalogs have, from their on-disk form (``utils/array.h``)."""

from __future__ import annotations

import struct
from typing import Final

from walshadow_core.api import FormatError
from walshadow_core.decode.deform import ALIGNMENTS, CSTRING, VARLENA
from walshadow_core.pgformat.varlena import COMPRESSED_BIT, EXTERNAL_MARKER, HEADER_SIZE, SHORT_BIT

_HEADER: Final = struct.Struct("<iiI")
"""ArrayType without its varlena header: ndim, dataoffset (0: no nulls), element type."""
_DIMENSION: Final = struct.Struct("<i")
_MAX_ALIGN: Final = 8


def smallints(stored: bytes) -> tuple[int, ...]:
    """An int2vector, or a smallint[] of one dimension without nulls. Raises FormatError."""
    count, data = _one_dimension(stored)
    if len(data) != 2 * count:
        raise _broken(stored)
    return struct.unpack(f"<{count}h", data)


def only_element(stored: bytes, length: int, alignment: str) -> bytes:
    """The bytes of the one element of an array (attmissingval), without varlena header; ``length`` and ``alignment``
    are those of the element's type. Raises FormatError."""
    count, data = _one_dimension(stored)
    if count != 1 or alignment not in ALIGNMENTS:
        raise _broken(stored)
    if length == VARLENA:
        return _varlena(data, stored)
    if length == CSTRING:
        element, nul, _ = data.partition(b"\0")
        if not nul:
            raise _broken(stored)
        return element
    if not 0 < length <= len(data):
        raise _broken(stored)
    return data[:length]


def _one_dimension(stored: bytes) -> tuple[int, bytes]:
    """How many elements, and their bytes."""
    if len(stored) < _HEADER.size:
        raise _broken(stored)
    dimensions, data_offset, _ = _HEADER.unpack_from(stored)
    if dimensions == 0 and data_offset == 0:
        return 0, b""
    fixed = _HEADER.size + 2 * _DIMENSION.size
    if dimensions != 1 or data_offset != 0 or len(stored) < fixed:
        raise _broken(stored)
    (count,) = _DIMENSION.unpack_from(stored, _HEADER.size)
    # Offsets count the varlena header, which is not here.
    start = (fixed + HEADER_SIZE + _MAX_ALIGN - 1 & -_MAX_ALIGN) - HEADER_SIZE
    if count < 0 or start > len(stored):
        raise _broken(stored)
    return count, stored[start:]


def _varlena(data: bytes, stored: bytes) -> bytes:
    if data and data[0] & SHORT_BIT and data[0] != EXTERNAL_MARKER:
        start, end = 1, data[0] >> 1
    elif len(data) >= HEADER_SIZE and not data[0] & (SHORT_BIT | COMPRESSED_BIT):
        start, end = HEADER_SIZE, int.from_bytes(data[:HEADER_SIZE], "little") >> 2
    else:
        raise _broken(stored)
    if not start <= end <= len(data):
        raise _broken(stored)
    return data[start:end]


def _broken(stored: bytes) -> FormatError:
    return FormatError(f"not an array that a catalog has: {stored[:32].hex(' ')}")
