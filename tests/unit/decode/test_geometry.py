"""Geometric types: forms, and what is no value."""

from __future__ import annotations

import struct

import pytest

from tests.unit.decode.built import codec, decoded, use
from walshadow_core.api import BadValue
from walshadow_core.decode import type_oids as oid


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


def path(closed: int, *values: float) -> bytes:
    return struct.pack("<iii", len(values) // 2, closed, 0) + floats(*values)


def polygon(*values: float) -> bytes:
    return struct.pack("<i", len(values) // 2) + floats(0, 0, 0, 0) + floats(*values)


@pytest.mark.parametrize(
    ("type_oid", "payload", "text"),
    [
        (oid.POINT, floats(1, -0.5), "(1,-0.5)"),
        (oid.POINT, floats(float("nan"), float("-inf")), "(NaN,-Infinity)"),
        (oid.LSEG, floats(1, 2, 3, 4), "[(1,2),(3,4)]"),
        (oid.BOX, floats(3, 4, 1, 2), "(3,4),(1,2)"),
        (oid.LINE, floats(1, -1, 0.1), "{1,-1,0.1}"),
        (oid.CIRCLE, floats(1, 2, 1e20), "<(1,2),1e+20>"),
        (oid.PATH, path(1, 0, 0, 1, 1), "((0,0),(1,1))"),
        (oid.PATH, path(0, 0, 0), "[(0,0)]"),
        (oid.POLYGON, polygon(0, 0, 1, 1, 2, 0), "((0,0),(1,1),(2,0))"),
    ],
)
def test_as_printed(type_oid: int, payload: bytes, text: str) -> None:
    assert decoded(codec(use(type_oid, length=len(payload))), [None, payload, payload]) == [None, text, text]


def test_many_points_need_room() -> None:
    longest = -1.8665272370064376e-301
    (text,) = decoded(codec(use(oid.PATH)), [path(1, *[longest] * 4_000)])
    assert text == "(" + ",".join([f"({longest},{longest})"] * 2_000) + ")"


@pytest.mark.parametrize(
    ("type_oid", "payload"),
    [
        (oid.PATH, b""), (oid.PATH, path(1, 0, 0)[:-1]), (oid.PATH, path(2, 0, 0)), (oid.PATH, path(1, 0, 0) + b"\0"),
        (oid.PATH, b"\xff" * 12), (oid.POLYGON, b""), (oid.POLYGON, polygon(1, 2)[:-1]),
        (oid.POLYGON, b"\xff\xff\xff\x7f" + polygon(1, 2)[4:]), (oid.POLYGON, bytes(35)),
    ],
)  # fmt: skip
def test_no_geometry(type_oid: int, payload: bytes) -> None:
    good = {oid.PATH: path(0, 1, 2), oid.POLYGON: polygon(1, 2)}[type_oid]
    with pytest.raises(BadValue) as error:
        decoded(codec(use(type_oid)), [good, payload])
    assert error.value.row == 1
