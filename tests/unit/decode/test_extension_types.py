"""citext, ltree, cube, vectors, PostGIS: forms that servers write, and what is no value."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.stored_values import build
from tests.unit.decode.built import codec, decoded, use
from walshadow_core.api import BadValue, Form, TableRefused
from walshadow_core.decode.columns import Codec

SOME_OID = 16_400


def extension(name: str, form: Form = "own", encoding: str = "UTF8") -> Codec:
    return codec(use(SOME_OID, name, schema="public", encoding=encoding), form)


def test_a_type_is_an_extensions_only_outside_of_pg_catalog() -> None:
    with pytest.raises(TableRefused):
        codec(use(SOME_OID, "cube"))


def test_citext_is_text() -> None:
    assert decoded(extension("citext", encoding="LATIN1"), [b"\xe4B", None]) == ["äB", None]


# ------------------------------------------------------------------------------------------------- ltree


def ltree(*labels: bytes) -> bytes:
    padded = (struct.pack("<H", len(v)) + v + bytes(-(len(v) + 2) % 8) for v in labels)
    return struct.pack("<HH", len(labels), 0) + b"".join(padded)


@given(st.lists(st.binary(max_size=20).map(lambda b: b.hex().encode()), max_size=9))
def test_ltree(labels: list[bytes]) -> None:
    assert decoded(extension("ltree"), [ltree(*labels), None]) == [b".".join(labels).decode(), None]


@pytest.mark.parametrize("payload", [b"", b"\1\0\0", b"\1\0\0\0", b"\1\0\0\0\5\0abcd", b"\2\0\0\0" + ltree(b"abc")[4:]])
def test_no_ltree(payload: bytes) -> None:
    with pytest.raises(BadValue):
        decoded(extension("ltree"), [payload])


# -------------------------------------------------------------------------------------------------- cube


def cube(header: int, *values: float) -> bytes:
    return struct.pack("<I", header) + struct.pack(f"<{len(values)}d", *values)


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (cube(0x80000000), "()"), (cube(0), "()"), (cube(0x80000003, 1, 2.5, -0.0), "(1, 2.5, -0)"),
        (cube(2, 1, 2, 3, 4), "(1, 2),(3, 4)"), (cube(2, 1, 2, 1, 2), "(1, 2)"), (cube(1, 0.0, -0.0), "(0)"),
        (cube(1, float("nan"), float("nan")), "(NaN),(NaN)"), (cube(1, 1e300, float("inf")), "(1e+300),(Infinity)"),
        (cube(1, float("inf"), float("inf")), "(Infinity)"),
    ],
)  # fmt: skip
def test_cube(payload: bytes, text: str) -> None:
    assert decoded(extension("cube"), [None, payload]) == [None, text]


@pytest.mark.parametrize(
    "payload", [b"", b"\0\0\0", cube(1, 1), cube(0x80000001, 1, 2), b"\xff" * 4, b"\xff\xff\xff\x7f"]
)
def test_no_cube(payload: bytes) -> None:
    with pytest.raises(BadValue):
        decoded(extension("cube"), [payload])


# ----------------------------------------------------------------------------------------------- vectors


def vector(*values: float, code: str = "f") -> bytes:
    return struct.pack("<Hh", len(values), 0) + struct.pack(f"<{len(values)}{code}", *values)


def test_vectors_are_lists() -> None:
    array = build(extension("vector"), [vector(1, 2.5), None, vector(-1e-30), vector()])
    assert array.type == pa.list_(pa.field("item", pa.float32(), nullable=False))
    assert array.to_pylist() == [[1, 2.5], None, [np.float32(-1e-30)], []]
    assert decoded(extension("vector", "text"), [vector(1, 2.5), None, vector(1e20, 0.1)]) == [
        "[1,2.5]",
        None,
        "[1e+20,0.1]",
    ]


def test_a_vector_column_starts_anew() -> None:
    builder = extension("vector").builder()
    for values in ([1.0, 2.0], [3.0]):
        payload = np.frombuffer(bytearray(vector(*values)), np.uint8)
        builder.append(payload, np.zeros(1, np.int32), np.array([payload.size], np.int32), np.ones(1, np.uint8))
        assert builder.finish().to_pylist() == [values]


def test_half_floats() -> None:
    """Every exponent and sign, and every fraction that is near a power of two."""
    fractions = np.unique(np.clip([2**k + d for k in range(11) for d in (-1, 0, 1)], 0, 1023))
    halves = (np.arange(64, dtype=np.uint16)[:, None] << 10 | fractions.astype(np.uint16)).reshape(-1)
    expected = halves.view(np.float16).astype(np.float32)
    array = build(extension("halfvec"), [struct.pack("<Hh", halves.size, 0) + halves.tobytes()])
    got = array.values.to_numpy()
    nan = np.isnan(expected)
    assert (np.isnan(got) == nan).all()
    assert (got.view(np.uint32)[~nan] == expected.view(np.uint32)[~nan]).all()
    assert decoded(extension("halfvec", "text"), [vector(0.1, 65504, code="e")]) == ["[0.099975586,65504]"]


def test_sparsevec() -> None:
    two = struct.pack("<iii ii ff", 5, 2, 0, 0, 2, 1.5, -2)
    assert decoded(extension("sparsevec"), [two, None, struct.pack("<iii", 7, 0, 0)]) == [
        "{1:1.5,3:-2}/5",
        None,
        "{}/7",
    ]


@pytest.mark.parametrize("name", ["vector", "halfvec", "sparsevec"])
@pytest.mark.parametrize("form", ["own", "text"])
@pytest.mark.parametrize("payload", [b"", b"\1\0\0", b"\1\0\0\0", b"\xff\xff\0\0", bytes(11), b"\xff" * 12, bytes(13)])
def test_no_vector(name: str, form: Form, payload: bytes) -> None:
    with pytest.raises(BadValue):
        decoded(extension(name, form), [payload])


# ----------------------------------------------------------------------------------------------- PostGIS

Z, M, BOX, GEODETIC, EXTENDED, VERSION_2 = 1, 2, 4, 8, 16, 64


def geometry(tree: bytes, flags: int = VERSION_2, srid: int = 0, box: bytes = b"") -> bytes:
    return srid.to_bytes(3, "big") + bytes((flags,)) + box + tree


def node(type_: int, count: int, *values: float) -> bytes:
    return struct.pack("<II", type_, count) + struct.pack(f"<{len(values)}d", *values)


POINT_12 = "000000000000F03F0000000000000040"


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (geometry(node(1, 1, 1, 2)), f"0101000000{POINT_12}"),
        (geometry(node(1, 1, 1, 2), flags=0), f"0101000000{POINT_12}"),
        (geometry(node(1, 1, 1, 2), srid=4326), f"0101000020E6100000{POINT_12}"),
        (geometry(node(1, 1, 1, 2), VERSION_2 | GEODETIC | BOX, 4326, bytes(24)), f"0101000020E6100000{POINT_12}"),
        (geometry(node(1, 1, 1, 2), VERSION_2 | EXTENDED, 0, bytes(8)), f"0101000000{POINT_12}"),
        (geometry(node(1, 1, 1, 2, 0), VERSION_2 | Z), f"0101000080{POINT_12}{'0' * 16}"),
        (geometry(node(1, 1, 1, 2, 0), VERSION_2 | M), f"0101000040{POINT_12}{'0' * 16}"),
        (geometry(node(1, 0)), "0101000000" + "000000000000F87F" * 2),
        (geometry(node(2, 0)), "010200000000000000"),
        (geometry(node(2, 1, 1, 2), VERSION_2 | BOX, 0, bytes(16)), f"010200000001000000{POINT_12}"),
        # The solid flag of version 1 has the place of no flag that version 2 knows.
        (geometry(node(2, 1, 1, 2), BOX | 0x20, 0, bytes(16)), f"010200000001000000{POINT_12}"),
        (
            geometry(node(3, 1) + struct.pack("<II", 1, 0) + node(0, 0, 1, 2)[8:]),
            f"01030000000100000001000000{POINT_12}",
        ),
        (
            geometry(node(7, 2) + node(1, 1, 1, 2) + node(7, 1) + node(2, 0), srid=1),
            f"010700002001000000020000000101000000{POINT_12}010700000001000000010200000000000000",
        ),
        (geometry(node(13, 0)), "010F00000000000000"),
        (geometry(node(15, 1) + node(14, 1, 1, 2)), f"01100000000100000001110000000100000001000000{POINT_12}"),
    ],
)  # fmt: skip
def test_geometry(payload: bytes, text: str) -> None:
    for name in ("geometry", "geography"):
        assert decoded(extension(name), [None, payload, payload]) == [None, text, text]


@pytest.mark.parametrize(
    "payload",
    [
        b"", bytes(3), geometry(b""), geometry(bytes(8)), geometry(node(16, 0)), geometry(node(1, 2, 1, 2, 3, 4)),
        geometry(node(1, 1, 1)), geometry(node(2, 2**32 - 1, 1, 2)), geometry(node(3, 2**32 - 1)),
        geometry(node(3, 1) + b"\xff" * 8), geometry(node(7, 2) + node(1, 0)), geometry(node(7, 2**32 - 1)),
        geometry(node(1, 1, 1, 2), VERSION_2 | BOX), geometry(node(1, 1, 1, 2), VERSION_2 | EXTENDED)[:20],
    ],
)  # fmt: skip
def test_no_geometry(payload: bytes) -> None:
    with pytest.raises(BadValue):
        decoded(extension("geometry"), [payload])


def test_a_long_geometry_needs_room() -> None:
    points = np.arange(8_000, dtype=np.float64)
    payload = geometry(struct.pack("<II", 2, 4_000) + points.tobytes())
    (text,) = decoded(extension("geometry"), [payload])
    assert text == "0102000000A00F0000" + points.tobytes().hex().upper()
