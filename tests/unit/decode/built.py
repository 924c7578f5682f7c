"""Values of a type, by the codec that decodes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from walshadow_core.api import Form, PgType
from walshadow_core.decode.columns import Codec, ColumnBuilder, DecodeOptions, TypeUse
from walshadow_core.decode.types import native_codec, text_codec


def use(type_oid: int, name: str = "t", *, length: int = -1, encoding: str = "UTF8", schema: str = "") -> TypeUse:
    """A type of Postgres by its oid, or with ``schema`` one that an extension made there."""
    pg_type = PgType(type_oid, schema or "pg_catalog", name, "b", length, "i", False)
    return TypeUse(pg_type, -1, name, "c", encoding, DecodeOptions())


def codec(type_use: TypeUse, form: Form = "own") -> Codec:
    return native_codec(type_use) if form == "own" else text_codec(type_use)


def append(builder: ColumnBuilder, payloads: Sequence[bytes | None]) -> None:
    """The last value ends where the buffer does; a null's place and length are nonsense."""
    buf = bytearray(b"\xee")
    offset, length = [], []
    for payload in payloads:
        offset.append(2**31 - 1 if payload is None else len(buf))
        length.append(2**31 - 1 if payload is None else len(payload))
        buf += payload or b""
    kind = np.array([p is not None for p in payloads], np.uint8)
    builder.append(np.frombuffer(buf, np.uint8), np.array(offset, np.int32), np.array(length, np.int32), kind)


def built(made: Codec, payloads: Sequence[bytes | None]) -> pa.Array:
    builder = made.builder()
    append(builder, payloads)
    array = builder.finish()
    assert array.type == made.arrow
    array.validate(full=True)
    return array


def decoded(made: Codec, payloads: Sequence[bytes | None]) -> list[Any]:
    values: list[Any] = built(made, payloads).to_pylist()
    return values
