"""tsvector, tsquery and snapshots: text as Postgres prints it, and damage."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stored_values import append
from tests.unit.decode.built import codec, decoded, use
from walshadow_core.decode import columns, type_oids
from walshadow_core.decode.columns import BadValue
from walshadow_core.decode.type_tsearch import AND, NOT, OPERAND, OPERATOR, OR, PHRASE

SMALL = 1024
"""Bytes of a buffer that is soon full."""

VECTOR = use(type_oids.TSVECTOR, "tsvector")
QUERY = use(type_oids.TSQUERY, "tsquery")
SNAPSHOT = use(type_oids.PG_SNAPSHOT, "pg_snapshot")
WORDS = st.text("ab'\\ é", min_size=1, max_size=20)


def quoted(word: str) -> str:
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"


def stored_vector(lexemes: dict[str, list[tuple[int, str]]]) -> bytes:
    entries, body = b"", b""
    for word, positions in lexemes.items():
        text = word.encode()
        entries += struct.pack("<I", bool(positions) | len(text) << 1 | len(body) << 12)
        body += text
        if positions:
            body += bytes(len(body) & 1) + struct.pack("<H", len(positions))
            body += b"".join(struct.pack("<H", p | "DCBA".index(w) << 14) for p, w in positions)
    return struct.pack("<I", len(lexemes)) + entries + body


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.dictionaries(WORDS, st.lists(st.tuples(st.integers(1, 16383), st.sampled_from("ABCD")), max_size=5)),
        max_size=5,
    )
)
def test_vectors(values: list[dict[str, list[tuple[int, str]]]]) -> None:
    def printed(lexemes: dict[str, list[tuple[int, str]]]) -> str:
        marks = {w: ",".join(f"{p}{'' if k == 'D' else k}" for p, k in at) for w, at in lexemes.items()}
        return " ".join(quoted(w) + (f":{m}" if m else "") for w, m in marks.items())

    payloads = [stored_vector(v) for v in values]
    assert decoded(codec(VECTOR), [None, *payloads]) == [None, *map(printed, values)]


def test_a_vector_that_does_not_fit_into_the_first_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "FIRST_BYTES", SMALL)
    lexemes = {f"{'x' * 200}{k}": [(p, "A") for p in range(1, 250)] for k in range(5)}
    text = decoded(codec(VECTOR), [stored_vector(lexemes)])[0]
    assert text.count("A") == 249 * len(lexemes)


def stored_query(tree: Any) -> bytes:
    """A tree of words (with what follows the colon) and of tuples (operator, distance, left, right)."""
    items, strings = b"", b""

    def place(node: Any) -> None:
        nonlocal items, strings
        if isinstance(node, str):
            word, _, marks = node.partition(":")
            text = word.encode()
            weight = sum(8 >> "ABCD".index(m) for m in marks if m != "*")
            items += struct.pack("<BBBxiI", OPERAND, weight, "*" in marks, 0, len(text) | len(strings) << 12)
            strings += text + b"\0"
            return
        operator, distance, *operands = node
        items += struct.pack("<BBhI4x", OPERATOR, operator, distance, 0)
        for operand in reversed(operands):
            place(operand)

    if tree is not None:
        place(tree)
    return struct.pack("<I", len(items) // 12) + items + strings


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (None, ""),
        ("a", "'a'"),
        ("it's:*AD", "'it''s':*AD"),
        ((NOT, 0, (NOT, 0, "a")), "!!'a'"),
        ((AND, 0, "a", "b"), "'a' & 'b'"),
        ((AND, 0, (OR, 0, "a", "b"), "c"), "( 'a' | 'b' ) & 'c'"),
        ((OR, 0, (AND, 0, "a", "b"), "c"), "'a' & 'b' | 'c'"),
        ((PHRASE, 1, (PHRASE, 1, "a", "b"), "c"), "'a' <-> 'b' <-> 'c'"),
        ((PHRASE, 3, "a", (PHRASE, 0, "b", "c")), "'a' <3> ( 'b' <0> 'c' )"),
        ((NOT, 0, (AND, 0, "a", "b")), "!( 'a' & 'b' )"),
    ],
)
def test_queries(tree: Any, text: str) -> None:
    assert decoded(codec(QUERY), [None, stored_query(tree), stored_query("z")]) == [None, text, "'z'"]


def test_a_deep_query() -> None:
    tree: Any = "a"
    for _ in range(150):
        tree = (OR, 0, "b", (AND, 0, "c", tree))
    text = decoded(codec(QUERY), [stored_query(tree)])[0]
    assert text.count("'c'") == 150 and text.count("(") == text.count(")") == 149


def test_snapshots() -> None:
    values = [(5, 5, []), (5, 2**63, [7]), (1, 2, list(range(2**40, 2**40 + 5000)))]
    payloads = [struct.pack(f"<IQQ{len(xip)}Q", len(xip), low, high, *xip) for low, high, xip in values]
    printed = [f"{low}:{high}:{','.join(map(str, xip))}" for low, high, xip in values]
    assert decoded(codec(SNAPSHOT), [None, *payloads]) == [None, *printed]


@pytest.mark.parametrize(
    ("what", "payload"),
    [
        (VECTOR, b"\1\0\0"),
        (VECTOR, struct.pack("<I", 1)),
        (VECTOR, struct.pack("<II", 1, 3 << 1) + b"ab"),
        (VECTOR, struct.pack("<II", 1, 1 | 1 << 1) + b"a"),
        (VECTOR, struct.pack("<II", 1, 1 | 1 << 1) + b"a\0\2\0\0\0"),
        (VECTOR, struct.pack("<III", 2, 2 << 1, 2 << 1) + b"ab"),
        (VECTOR, struct.pack("<II", 1, 1 | 1 << 1) + b"a\0" + struct.pack("<H", 257) + bytes(600)),
        (QUERY, b""),
        (QUERY, struct.pack("<I", 1)),
        (QUERY, stored_query("a")[:-1]),
        (QUERY, stored_query("a")[:-1] + b"x"),
        (QUERY, stored_query((NOT, 0, "a"))[:16] + bytes(12)),
        (QUERY, stored_query((AND, 0, "a"))),
        (QUERY, stored_query((NOT, 0, "a", "b"))),
        (QUERY, stored_query((5, 0, "a", "b"))),
        (SNAPSHOT, b""),
        (SNAPSHOT, bytes(19)),
        (SNAPSHOT, b"\1" + bytes(19)),
        (SNAPSHOT, bytes(28)),
    ],
)
def test_damage_is_a_bad_value(what: Any, payload: bytes) -> None:
    with pytest.raises(BadValue, match="not a value of") as caught:
        append(codec(what).builder(), [None, payload])
    assert caught.value.row == 1
