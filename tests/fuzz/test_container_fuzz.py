"""Damaged arrays, composites, ranges and enums: a value or BadValue, never a read outside of the buffer.

``make test`` runs this with NUMBA_BOUNDSCHECK=1, where a read outside is an IndexError.
"""

from __future__ import annotations

import random
import struct
from collections import Counter

import pytest

from tests.stored_values import (
    BOOL,
    INT4,
    INT8,
    TEXT,
    append,
    array,
    array_of,
    codec_of,
    composite,
    composite_of,
    damaged,
    domain_of,
    enum_of,
    long,
    multirange_of,
    multirange_value,
    range_of,
    range_value,
    short,
)
from walshadow_core.api import FormatError, PgType
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.columns import BadValue

RECORD = composite_of(a=INT4, b=TEXT, gone=None, c=array_of(TEXT), d=BOOL)
SPANS = multirange_of(INT8)
SPAN = range_of(TEXT)
MOOD = enum_of(sad=1, ok=2)
_ONE = struct.pack("<i", 1)
_WORDS = array([short(b"one"), None, long(b"two, three")], TEXT)
_RECORD = composite([_ONE, short(b"x"), None, long(_WORDS), b"\1"], RECORD)

SEEDS: list[tuple[PgType, bytes]] = [
    (array_of(TEXT), _WORDS),
    (array_of(INT4), array([_ONE] * 12, INT4, [2, 3, 2])),
    (array_of(INT8), array([bytes(8), None, bytes(8)], INT8)),
    (array_of(BOOL), array([b"\0", b"\1", None], BOOL, lows=[-7])),
    (array_of(RECORD), array([long(_RECORD), None], RECORD)),
    (array_of(domain_of(array_of(TEXT))), array([long(_WORDS)], TEXT)),
    (array_of(MOOD), array([struct.pack("<I", 1), struct.pack("<I", 2)], MOOD)),
    (PgType(oid.INT2VECTOR, "pg_catalog", "int2vector", "b", -1, "i", False), struct.pack("<iiIiihhh", 1, 0, 21, 3, 0, 1, 2, 3)),
    (RECORD, _RECORD),
    (composite_of(r=RECORD, s=SPAN), composite([long(_RECORD), short(range_value(0, [short(b"a"), long(b"b")], SPAN))], composite_of(r=RECORD, s=SPAN))),
    (composite_of(a=INT4, b=TEXT), composite([_ONE, struct.pack("<IIB", 19 << 2 | 2, 6, 8) + b"abc\0\3abc"], composite_of(a=INT4, b=TEXT))),
    (SPAN, range_value(6, [short(b"a"), long(b"b c")], SPAN)),
    (SPANS, multirange_value([(2, [bytes(8), bytes(8)]), (16, [bytes(8)])], SPANS)),
    (range_of(INT4), range_value(2, [_ONE, _ONE], range_of(INT4))),
]  # fmt: skip


def campaign(seed: int, tries: int) -> Counter[bool]:
    """How many damaged values were decoded, and how many refused."""
    rng = random.Random(seed)
    seen: Counter[bool] = Counter()
    for known, payload in SEEDS:
        for form in ("own", "text"):
            made = codec_of(known, form)  # type: ignore[arg-type]
            for data in damaged(payload, tries, rng):
                builder = made.builder()
                try:
                    # The value that is damaged ends where the buffer does.
                    append(builder, [payload, None, data])
                    builder.finish().validate(full=True)
                    seen[True] += 1
                except (BadValue, FormatError):
                    seen[False] += 1
    return seen


def test_damaged_containers() -> None:
    seen = campaign(random.randrange(2**32), 60)
    assert seen[True] > 100 and seen[False] > 100


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_damaged_containers_at_length(seed: int) -> None:
    campaign(seed, 1500)
