"""jsonpath: payloads made by hand; what every sort prints is held against real servers elsewhere."""

from __future__ import annotations

import struct

import pytest

from tests.stored_values import append
from tests.unit.decode.built import codec, decoded, use
from walshadow_core.decode import columns, type_oids
from walshadow_core.decode import jsonpath_sorts as sorts
from walshadow_core.decode.columns import BadValue

SMALL = 1024
"""Bytes of a buffer that is soon full."""

USE = use(type_oids.JSONPATH, "jsonpath")
HEADER = struct.pack("<I", sorts.VERSION | sorts.LAX)


def item(sort: int, following: int = 0, content: bytes = b"") -> bytes:
    """An item that begins aligned."""
    return struct.pack("<Bxxxi", sort, following) + content


def string(sort: int, text: bytes, following: int = 0) -> bytes:
    content = struct.pack("<I", len(text)) + text + b"\0"
    return item(sort, following, content + bytes(-len(content) % 4))


def text(*items: bytes, header: bytes = HEADER) -> str:
    values = decoded(codec(USE), [None, header + b"".join(items)])
    assert values[0] is None
    return str(values[1])


def test_a_path_of_keys() -> None:
    assert text(item(sorts.ROOT, 8), string(sorts.KEY, b'a"', 16), item(sorts.ANY_KEY)) == '$."a\\"".*'


def test_strict() -> None:
    assert text(item(sorts.ROOT), header=struct.pack("<I", sorts.VERSION)) == "strict $"


def test_priorities_decide_on_parentheses() -> None:
    one = item(sorts.BOOL, 0, b"\1\0\0\0")
    both = item(sorts.OR, 0, struct.pack("<ii", 16, 28)) + one + one
    assert text(both) == "(true || true)"
    assert text(item(sorts.AND, 0, struct.pack("<ii", 16, 28)) + one + both) == "(true && (true || true))"


def test_any_depth() -> None:
    depth = 400
    path = b"".join(item(sorts.NOT, 0, struct.pack("<i", 12)) for _ in range(depth)) + item(sorts.LITERAL_NULL)
    assert text(path) == "!(" * depth + "null" + ")" * depth


def test_a_string_that_does_not_fit_into_the_first_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "FIRST_BYTES", SMALL)
    assert text(string(sorts.STRING, b"\n" * SMALL)) == '"' + "\\n" * SMALL + '"'


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        HEADER,
        HEADER[:3],
        struct.pack("<I", 2) + item(sorts.ROOT),
        HEADER + item(sorts.ROOT)[:7],
        HEADER + item(200),
        HEADER + item(sorts.SUBSCRIPT),
        HEADER + item(sorts.ROOT, 8),
        HEADER + item(sorts.ROOT, -8),
        HEADER + item(sorts.ROOT, 4),
        HEADER + item(sorts.NOT),
        HEADER + item(sorts.NOT, 0, bytes(4)),
        HEADER + item(sorts.AND, 0, struct.pack("<ii", 16, 0)) + item(sorts.ROOT),
        HEADER + item(sorts.KEY, 0, struct.pack("<I", 5) + b"abcd"),
        HEADER + item(sorts.BOOL),
        HEADER + item(sorts.NUMERIC, 0, struct.pack("<I", 40 << 2)),
        HEADER + item(sorts.INDEX_ARRAY, 0, struct.pack("<I", 3)),
        HEADER + item(sorts.INDEX_ARRAY, 0, struct.pack("<Iii", 1, 0, 0)),
        HEADER + item(sorts.ANY, 0, bytes(4)),
        HEADER + item(sorts.LIKE_REGEX, 0, struct.pack("<Iii", 0, 20, 90)) + item(sorts.ROOT),
    ],
)
def test_damage_is_a_bad_value(payload: bytes) -> None:
    builder = codec(USE).builder()
    with pytest.raises(BadValue, match="not a value of jsonpath") as caught:
        append(builder, [None, payload])
    assert caught.value.row == 1


def test_operands_that_are_shared_are_damage() -> None:
    both = b"".join(item(sorts.AND, 0, struct.pack("<ii", 16, 16)) for _ in range(40)) + item(sorts.ROOT)
    with pytest.raises(BadValue):
        append(codec(USE).builder(), [HEADER + both])
