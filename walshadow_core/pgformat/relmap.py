"""``pg_filenode.map``: the files of the relations whose pg_class row does not say (``utils/relmapper.h``,
``utils/cache/relmapper.c``).

A *mapped* relation has relfilenode 0 in pg_class: pg_class itself, what is needed to read it, and what all
databases share. ``global/pg_filenode.map`` is about the shared ones, the map in a database's folder about its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import google_crc32c
import numpy as np

from walshadow_core.api import FormatError

RELMAP_NAME = "pg_filenode.map"
"""RELMAPPER_FILENAME."""
GLOBAL_RELMAP_PATH = f"global/{RELMAP_NAME}"

RELMAP_MAGIC = 0x592717
"""RELMAPPER_FILEMAGIC."""

_REMEDY = "the backup is damaged: take another"


def _layout(mappings: int, padding: int) -> np.dtype[np.void]:
    """RelMapFile."""
    mapping = [("oid", "<u4"), ("number", "<u4")]
    return np.dtype(
        [("magic", "<i4"), ("count", "<i4"), ("mappings", mapping, mappings), ("crc", "<u4"), ("pad", f"V{padding}")]
    )


_LAYOUTS = {layout.itemsize: layout for layout in (_layout(62, 4), _layout(64, 0))}
"""By the file's size: 512 bytes in 15, 524 since 16."""


def parse_relmap(data: bytes, path: str = RELMAP_NAME) -> Mapping[int, int]:
    """The relfilenode of each mapped relation, by the relation's oid. ``path`` is for messages.

    Raises FormatError for another size or magic number, a wrong CRC, and a map that no server writes.
    """
    layout = _LAYOUTS.get(len(data))
    if layout is None:
        raise FormatError(f"{path} has {len(data)} bytes, which no such file of PostgreSQL 15 to 18 has", _REMEDY)
    record = np.frombuffer(data, layout)[0]
    if int(record["magic"]) != RELMAP_MAGIC:
        raise FormatError(f"{path} begins with {int(record['magic']) & 0xFFFFFFFF:#x}, which no map does", _REMEDY)
    assert layout.fields is not None
    if google_crc32c.value(data[: layout.fields["crc"][1]]) != int(record["crc"]):
        raise FormatError(f"{path}: its CRC does not match its content", _REMEDY)
    mappings = record["mappings"]
    count = int(record["count"])
    if not 0 <= count <= len(mappings):
        raise FormatError(f"{path} says that it has {count} mappings; it has room for {len(mappings)}", _REMEDY)
    oids, numbers = mappings["oid"][:count].tolist(), mappings["number"][:count].tolist()
    found = dict(zip(oids, numbers, strict=True))
    if len(found) != count or 0 in oids or 0 in numbers:
        raise FormatError(f"{path} maps a relation twice, or to nothing", _REMEDY)
    return MappingProxyType(found)
