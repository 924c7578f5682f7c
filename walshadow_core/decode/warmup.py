"""Compiles (or loads from the cache) every kernel that turns pages into columns.

A page with one row is made up for every sort of column, and decoded as a load would: so the kernels see the
very types that a load brings, and none is left to compile then.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from walshadow_core.api import Attribute, Bytes, Form, PgType, RelationDescriptor, RelFileLocator
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.columns import DecodeOptions
from walshadow_core.decode.table import TableDecoder
from walshadow_core.decode.warmup_containers import container_samples
from walshadow_core.pgformat import heap
from walshadow_core.pgformat.checksum import bad_checksums
from walshadow_core.pgformat.varlena import COMPRESSED_BIT

PACKAGES: Final = ("walshadow_core.pgformat.", "walshadow_core.decode.")

USUAL, JSON, JSONPATH, SEARCH, FLOATS, CONTAINERS, OTHERS = GROUPS = (
    "usual types", "jsonb", "jsonpath", "text search", "floats as text", "arrays, composites, ranges", "other types",
)  # fmt: skip
"""Sorts of types whose kernels are compiled together: the first run on a machine waits for those of its tables."""


@dataclass(frozen=True)
class _Sample:
    """A column and one value of it, varlena header included. ``group`` is one of GROUPS."""

    name: str
    type_oid: int
    length: int
    value: bytes
    typmod: int = -1
    schema: str = "pg_catalog"
    type: PgType | None = None
    form: Form = "own"
    group: str = USUAL

    @property
    def attribute(self) -> Attribute:
        known = self.type or PgType(self.type_oid, self.schema, self.name, "b", self.length, "c", False)
        return Attribute(
            1, self.name, self.type_oid, self.name, self.typmod, self.length, "c", False, "p", True, type=known
        )


def _short(data: bytes) -> bytes:
    """A varlena with a header of one byte (``varatt.h``)."""
    return bytes((2 * len(data) + 3,)) + data


_ONE: Final = _short(bytes.fromhex("00800100"))
"""The numeric 1: short header, weight 0, one digit."""

_COMPRESSED: Final = struct.pack("<II", 10 << 2 | COMPRESSED_BIT, 1) + b"\0a"
"""The text "a" in pglz: a control byte and a literal."""

_SAMPLES: Final = (
    _Sample("text", oid.TEXT, -1, _short("é".encode("latin-1"))),
    _Sample("compressed text", oid.TEXT, -1, _COMPRESSED),
    _Sample("name", oid.NAME, 64, b"name".ljust(64, b"\0")),
    _Sample("numeric(12,2)", oid.NUMERIC, -1, _ONE, (12 << 16 | 2) + 4),
    _Sample("numeric(60,2)", oid.NUMERIC, -1, _ONE, (60 << 16 | 2) + 4),
    _Sample("numeric", oid.NUMERIC, -1, _ONE),
    _Sample("bool", oid.BOOL, 1, b"\1"),
    _Sample('"char"', oid.CHAR, 1, b"c"),
    _Sample("int2", oid.INT2, 2, bytes(2)),
    _Sample("int4", oid.INT4, 4, bytes(4)),
    _Sample("int8", oid.INT8, 8, bytes(8)),
    _Sample("date", oid.DATE, 4, bytes(4)),
    _Sample("time", oid.TIME, 8, bytes(8)),
    _Sample("timestamptz", oid.TIMESTAMPTZ, 8, bytes(8)),
    _Sample("timetz", oid.TIMETZ, 12, bytes(12)),
    _Sample("interval", oid.INTERVAL, 16, bytes(16)),
    _Sample("uuid", oid.UUID, 16, bytes(16)),
    _Sample("jsonb", oid.JSONB, -1, _short(bytes.fromhex("00000040")), group=JSON),
    _Sample("jsonpath", oid.JSONPATH, -1, _short(bytes.fromhex("01000080 1b000000 00000000")), group=JSONPATH),
    _Sample("tsvector", oid.TSVECTOR, -1, _short(bytes(4)), group=SEARCH),
    _Sample("tsquery", oid.TSQUERY, -1, _short(bytes(4)), group=SEARCH),
    _Sample("pg_snapshot", oid.PG_SNAPSHOT, -1, _short(bytes(20)), group=OTHERS),
    _Sample("hstore", 1, -1, _short(bytes.fromhex("00000080")), schema="public", group=OTHERS),
    _Sample("float8 as text", oid.FLOAT8, 8, bytes(8), form="text", group=FLOATS),
    _Sample("inet", oid.INET, -1, _short(b"\2\x20" + bytes(4)), group=OTHERS),
    _Sample("macaddr", oid.MACADDR, 6, bytes(6), group=OTHERS),
    _Sample("varbit", oid.VARBIT, -1, _short(bytes(4)), group=OTHERS),
    _Sample("money", oid.MONEY, 8, bytes(8), group=OTHERS),
    _Sample("money as text", oid.MONEY, 8, bytes(8), form="text", group=OTHERS),
    _Sample("pg_lsn", oid.PG_LSN, 8, bytes(8), group=OTHERS),
    _Sample("xml", oid.XML, -1, _short(b"<a/>"), group=OTHERS),
    _Sample("ltree", 1, -1, _short(bytes(4)), schema="public", group=OTHERS),
    _Sample("vector", 1, -1, _short(bytes(4)), schema="public", group=FLOATS),
    _Sample("geometry", 1, -1, _short(bytes(4) + struct.pack("<II", 2, 0)), schema="public", group=OTHERS),
)


def _containers() -> Iterator[_Sample]:
    for known, value, form in container_samples():
        stored = value if known.length >= 0 else _short(value)
        yield _Sample(
            f"{known.name} as {form}", known.oid, known.length, stored, type=known, form=form, group=CONTAINERS
        )


_USUAL_TYPES: Final = {
    oid.BOOL, oid.BYTEA, oid.CHAR, oid.NAME, oid.INT8, oid.INT2, oid.INT4, oid.TEXT, oid.OID, oid.JSON, oid.FLOAT4,
    oid.FLOAT8, oid.BPCHAR, oid.VARCHAR, oid.DATE, oid.TIME, oid.TIMESTAMP, oid.TIMESTAMPTZ, oid.INTERVAL, oid.TIMETZ,
    oid.NUMERIC, oid.UUID,
}  # fmt: skip
_GROUP_OF: Final = {oid.JSONB: JSON, oid.JSONPATH: JSONPATH, oid.TSVECTOR: SEARCH, oid.TSQUERY: SEARCH}
_OF_FLOATS: Final = {
    oid.POINT, oid.LSEG, oid.PATH, oid.BOX, oid.POLYGON, oid.LINE, oid.CIRCLE, "cube", "vector", "halfvec", "sparsevec",
}  # fmt: skip


def groups_of(known: PgType, form: Form = "own") -> set[str]:
    """The GROUPS of kernels that a column of this type asks for in that form."""
    parts = [t for t in (known.element, known.base, known.subtype, known.range) if t is not None]
    parts += [field.type for field in known.fields if field.type is not None]
    if parts or known.kind == "e":
        own = known.kind == "d" or (form == "own" and known.kind not in ("r", "m"))
        inner = (groups_of(part, "own" if own and form == "own" else "text") for part in parts)
        return set().union(*inner, () if known.kind == "d" else (CONTAINERS,))
    if known.oid in _USUAL_TYPES:
        if form == "own":
            return {USUAL}
        return {USUAL, FLOATS if known.oid in (oid.FLOAT4, oid.FLOAT8) else CONTAINERS}
    if known.oid in _OF_FLOATS or known.name in _OF_FLOATS:
        return {FLOATS}
    return {_GROUP_OF.get(known.oid, OTHERS)}


def _relation(sample: _Sample) -> RelationDescriptor:
    return RelationDescriptor(
        oid=1, database="warmup", schema="warmup", name="warmup", locator=RelFileLocator(1663, 1, 1), kind="r",
        persistence="p", replica_identity="d", key=(), attributes=(sample.attribute,), encoding="LATIN1",
    )  # fmt: skip


def sample_page(value: bytes, attributes: int = 1) -> Bytes:
    """A heap page with one tuple of so many attributes, none of them NULL."""
    size = heap.MIN_HOFF + len(value)
    start = (heap.PAGE_SIZE - size) & ~7
    page: Bytes = np.zeros(heap.PAGE_SIZE, np.uint8)
    header = page[: heap.PAGE_HEADER.itemsize].view(heap.PAGE_HEADER)[0]
    header["lower"] = heap.PAGE_HEADER_SIZE + heap.LINE_POINTER_SIZE
    header["upper"] = start
    header["special"] = heap.PAGE_SIZE
    header["pagesize_version"] = heap.PAGE_SIZE_AND_VERSION
    pointer = start | heap.LP_NORMAL << heap.LP_FLAGS_SHIFT | size << heap.LP_LENGTH_SHIFT
    page[heap.PAGE_HEADER_SIZE :].view("<u4")[0] = pointer
    tup = page[start : start + size]
    tup[heap.INFOMASK2_AT] = attributes
    tup[heap.HOFF_AT] = heap.MIN_HOFF
    tup[heap.MIN_HOFF :] = np.frombuffer(value, np.uint8)
    return page


def warmup(groups: Collection[str] = GROUPS, progress: Callable[[str], object] | None = None) -> None:
    """Compile or load the kernels of pgformat and decode that these GROUPS ask for; ``progress`` hears what is next.
    Kernels of other layers and of plugins are theirs to warm up."""
    walker = heap.PageWalker(max_pages=1)
    for sample in (*_SAMPLES, *_containers()):
        if sample.group not in groups:
            continue
        if progress is not None:
            progress(sample.name)
        page = sample_page(sample.value)
        bad_checksums(page, 0)
        decoder = TableDecoder(_relation(sample), DecodeOptions(), forms={sample.name: sample.form})
        decoder.append(page, walker.walk(page, 0).data)
        decoder.finish()


def kernels() -> Iterator[tuple[str, Any]]:
    """(name, kernel) of all kernels of pgformat and decode that are imported; ``kernel.signatures`` is what is
    compiled. None if the compiler is turned off (NUMBA_DISABLE_JIT)."""
    for module_name, module in sorted(sys.modules.items()):
        if module_name.startswith(PACKAGES):
            for name, value in sorted(vars(module).items()):
                if hasattr(value, "signatures") and value.__module__ == module_name:
                    yield f"{module_name}.{name}", value
