"""Values of a type, by the codec that decodes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.stored_values import build
from walshadow_core.api import Form, PgType
from walshadow_core.decode.columns import Codec, DecodeOptions, TypeUse
from walshadow_core.decode.types import native_codec, text_codec


def use(type_oid: int, name: str = "t", *, length: int = -1, encoding: str = "UTF8", schema: str = "") -> TypeUse:
    """A type of Postgres by its oid, or with ``schema`` one that an extension made there."""
    pg_type = PgType(type_oid, schema or "pg_catalog", name, "b", length, "i", False)
    return TypeUse(pg_type, -1, name, "c", encoding, DecodeOptions())


def codec(type_use: TypeUse, form: Form = "own") -> Codec:
    return native_codec(type_use) if form == "own" else text_codec(type_use)


def decoded(made: Codec, payloads: Sequence[bytes | None]) -> list[Any]:
    values: list[Any] = build(made, payloads).to_pylist()
    return values
