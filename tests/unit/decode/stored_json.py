"""JSON values as Postgres stores them in a jsonb, and as jsonb_out prints them; and strategies for them."""

from __future__ import annotations

import json
import struct
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from tests.unit.decode.stored_numeric import encode as encode_numeric
from walshadow_core.decode import type_jsonb as jb

STRIDE = 32
"""JB_OFFSET_STRIDE."""


def stored(value: Any) -> bytes:
    """The payload. Keys stay in the order of the dict: Postgres's own is for the printing not to care about."""
    if isinstance(value, list | dict):
        return _container(value, 0)
    return _container([value], 0, jb.SCALAR)


def _container(value: Any, start: int, flags: int = 0) -> bytes:
    """A container whose first byte is at ``start``."""
    children = [*value, *value.values()] if isinstance(value, dict) else value
    flags |= jb.OBJECT if isinstance(value, dict) else jb.ARRAY
    head = struct.pack("<I", len(value) | flags)
    body_at = start + len(head) + 4 * len(children)
    entries, body = b"", b""
    for index, child in enumerate(children):
        sort, data = _child(child, body_at + len(body))
        body += data
        place = len(body) | jb.HAS_OFF if index % STRIDE == 0 else len(data)
        entries += struct.pack("<I", place | sort)
    return head + entries + body


def _child(value: Any, at: int) -> tuple[int, bytes]:
    pad = bytes(-at % 4)
    if isinstance(value, str):
        return jb.STRING, value.encode()
    if value is None:
        return jb.NULL, b""
    if isinstance(value, bool):
        return jb.TRUE if value else jb.FALSE, b""
    if isinstance(value, Decimal | int):
        digits = encode_numeric(Decimal(value), dscale_of(Decimal(value)))
        return jb.NUMERIC, pad + struct.pack("<I", (4 + len(digits)) << 2) + digits
    return jb.CONTAINER, pad + _container(value, at + len(pad))


def dscale_of(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    return max(0, -exponent)


def printed(value: Any) -> str:
    """What jsonb_out prints."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{printed(k)}: {printed(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(printed, value)) + "]"
    if isinstance(value, Decimal):
        return f"{value if value else value.copy_abs():f}"
    return json.dumps(value, ensure_ascii=False)


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30) | st.text(
    'ab"\\\n\t\x01\x1f\x7f é', max_size=40
)
NUMBERS = st.integers(-(10**40), 10**40) | st.builds(
    lambda unscaled, scale: Decimal(unscaled).scaleb(-scale), st.integers(-(10**20), 10**20), st.integers(0, 60)
)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=6)
        | st.lists(inner, min_size=30, max_size=70)
        | st.dictionaries(TEXTS, inner, max_size=6)
    ),
    max_leaves=12,
)
