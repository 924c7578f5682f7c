"""Damaged jsonb, jsonpath, hstore, text search and snapshot values: a bad value or a text, never a read outside.

Run it with NUMBA_BOUNDSCHECK=1: a read outside of an array is an IndexError then.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.decode import stored_json, test_hstore, test_jsonb, test_jsonpath, test_tsearch
from walshadow_core.api import FormatError
from walshadow_core.decode import jsonpath_sorts as sorts
from walshadow_core.decode.columns import DONE, NO_ROOM, SLACK, BadValue, Codec, DecodeOptions, TypeUse
from walshadow_core.decode.type_hstore import hstore_to_text
from walshadow_core.decode.type_jsonb import jsonb_to_text
from walshadow_core.decode.type_jsonpath import jsonpath_to_text
from walshadow_core.decode.type_snapshot import snapshot_to_text
from walshadow_core.decode.type_tsearch import tsquery_to_text, tsvector_to_text
from walshadow_core.decode.types import native_codec

CAMPAIGN = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])

WORDS = st.sampled_from([0, 1, 2, 3, 8, 0x10000000, 0x20000001, 0x40000002, 0x50000010, 0x80000004, 0xFFFFFFFF])


def path_items() -> st.SearchStrategy[bytes]:
    """Items whose places may point anywhere near."""
    places = st.integers(-8, 60)
    item = st.builds(
        lambda sort, following, words, tail: struct.pack("<Bxxxi", sort, following) + b"".join(words) + tail,
        st.integers(0, sorts.SORTS),
        places,
        st.lists(places.map(lambda p: struct.pack("<i", p)), max_size=4),
        st.sampled_from([b"", b"abc\0", b"\x28\0\0\0", b"\0"]),
    )
    return st.lists(item, max_size=12).map(lambda items: test_jsonpath.HEADER + b"".join(items))


def vectors() -> st.SearchStrategy[bytes]:
    lexemes = st.dictionaries(st.text("ab'", min_size=1, max_size=5), st.lists(st.just((9, "B")), max_size=3))
    return lexemes.map(test_tsearch.stored_vector)


def queries() -> st.SearchStrategy[bytes]:
    nodes: st.SearchStrategy[Any] = st.recursive(
        st.sampled_from(["a", "b:*A"]),
        lambda inner: (
            st.tuples(st.integers(0, 5), st.integers(-3, 3), inner, inner) | st.tuples(st.just(1), st.just(0), inner)
        ),
    )
    return nodes.map(test_tsearch.stored_query)


SEEDS: dict[str, tuple[TypeUse, Callable[[], st.SearchStrategy[bytes]]]] = {
    "jsonb": (test_jsonb.USE, lambda: stored_json.VALUES.map(stored_json.stored)),
    "jsonpath": (test_jsonpath.USE, path_items),
    "hstore": (
        test_hstore.USE,
        lambda: st.dictionaries(st.text("ab"), st.none() | st.text("ab"), max_size=4).map(test_hstore.stored),
    ),
    "tsvector": (test_tsearch.VECTOR, vectors),
    "tsquery": (test_tsearch.QUERY, queries),
    "pg_snapshot": (
        test_tsearch.SNAPSHOT,
        lambda: st.integers(0, 3).map(lambda n: struct.pack("<I", n) + bytes(16 + 8 * n)),
    ),
}


@st.composite
def damaged(draw: st.DrawFn, seed: st.SearchStrategy[bytes]) -> bytes:
    """A value, or one with words and bytes of it replaced, or cut off."""
    value = bytearray(draw(seed | st.binary(max_size=80)))
    for _ in range(draw(st.integers(0, 4))):
        if not value:
            break
        at = draw(st.integers(0, len(value) - 1))
        if draw(st.booleans()):
            value[at] = draw(st.integers(0, 255))
        else:
            at &= ~3
            value[at : at + 4] = struct.pack("<I", draw(WORDS))
    return bytes(value[: draw(st.integers(0, len(value)))]) if draw(st.integers(0, 4)) == 0 else bytes(value)


def check(made: Codec, payloads: list[bytes], behind: int) -> None:
    builder = made.builder()
    for payload in payloads:
        buf = np.frombuffer(bytearray(b"\xee" * 3 + payload + b"\xee" * behind), np.uint8)
        try:
            builder.append(buf, np.array([3], np.int32), np.array([len(payload)], np.int32), np.array([1], np.uint8))
        except BadValue:
            builder = made.builder()
    try:
        array = builder.finish()
    except FormatError:
        return
    array.validate(full=True)


def codec_of(name: str) -> Codec:
    # What is invalid as text is not of interest here.
    return native_codec(replace(SEEDS[name][0], options=DecodeOptions(invalid_text="replace")))


@pytest.mark.parametrize("name", SEEDS)
def test_damage(name: str) -> None:
    made, seed = codec_of(name), SEEDS[name][1]

    @CAMPAIGN
    @given(st.lists(damaged(seed()), max_size=5), st.sampled_from([0, 1, 7, 8, 40]))
    def run(payloads: list[bytes], behind: int) -> None:
        check(made, payloads, behind)

    run()


GOOD: dict[str, list[bytes]] = {
    "jsonb": [
        stored_json.stored(v)
        for v in ([], {"a": [1, "b", {"c": None}], "d": [[], {}, True]}, [[[["deep"]]]], list(range(40)), "text", 1)
    ],
    "jsonpath": [
        test_jsonpath.HEADER + test_jsonpath.item(sorts.ROOT, 8) + test_jsonpath.string(sorts.KEY, b"key"),
        test_jsonpath.HEADER
        + test_jsonpath.item(sorts.AND, 0, struct.pack("<ii", 16, 28))
        + test_jsonpath.item(sorts.NOT, 0, struct.pack("<i", 40))
        + test_jsonpath.item(sorts.INDEX_ARRAY, 0, struct.pack("<Iii", 1, 20, 28))
        + test_jsonpath.item(sorts.LAST)
        + test_jsonpath.item(sorts.LITERAL_NULL),
    ],
    "hstore": [test_hstore.stored({"a": "b", "c": None, "": "dd"})],
    "tsvector": [test_tsearch.stored_vector({"a": [(1, "A"), (9, "D")], "bc": []})],
    "tsquery": [test_tsearch.stored_query((2, 0, (4, 2, "a:*", (1, 0, "b")), (3, 0, "c", "d:A")))],
    "pg_snapshot": [struct.pack("<IQQQ", 1, 2, 3, 4)],
}


def mutations(name: str, many: int) -> None:
    """Good values with a few bytes or words of them replaced, each in a buffer that ends soon after it."""
    made, rng = codec_of(name), random.Random(many)
    words = [0, 1, 2, 4, 8, 12, 1 << 28, 2 << 28, 3 << 28, 4 << 28, 5 << 28, 1 << 31, (1 << 32) - 1]
    for _ in range(many):
        value = bytearray(rng.choice(GOOD[name]))
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(value))
            if rng.random() < 0.5:
                value[at] = rng.randrange(256)
            else:
                at &= ~3
                value[at : at + 4] = struct.pack("<I", rng.choice(words) | rng.randrange(48))
        check(
            made,
            [bytes(value[: rng.randrange(len(value) + 1)]) if rng.random() < 0.2 else bytes(value)],
            rng.choice([0, 9]),
        )


FILLS = {
    "jsonb": jsonb_to_text,
    "jsonpath": jsonpath_to_text,
    "hstore": hstore_to_text,
    "tsvector": tsvector_to_text,
    "tsquery": tsquery_to_text,
    "pg_snapshot": snapshot_to_text,
}
LONG: dict[str, list[bytes]] = {
    "jsonb": [stored_json.stored({"\x01" * 20: "\x02" * 21, '"' * 9: [10**30, -(10**9), True]})],
    "jsonpath": [
        test_jsonpath.HEADER
        + test_jsonpath.string(sorts.VARIABLE, b"\x01" * 20, 36)
        + test_jsonpath.item(sorts.TIMESTAMP_TZ, 0, bytes(4)),
        test_jsonpath.HEADER + test_jsonpath.item(sorts.ANY, 0, b"\xfe" * 8),
        test_jsonpath.HEADER
        + test_jsonpath.item(sorts.LIKE_REGEX, 0, struct.pack("<III", 31, 32, 9) + b'"' * 9 + bytes(3))
        + test_jsonpath.item(sorts.ROOT),
    ],
    "hstore": [test_hstore.stored({'"' * 21: "\\" * 23, "n": None})],
    "tsvector": [test_tsearch.stored_vector({"'" * 21: [(16000 + k, "A") for k in range(20)], "\\": []})],
    "tsquery": [test_tsearch.stored_query((4, -32000, f"{chr(39) * 21}:*ABCD", (1, 0, (3, 0, "c", "d:ABCD*"))))],
    "pg_snapshot": [struct.pack("<IQQQ", 1, 2**64 - 1, 2**64 - 1, 2**64 - 1)],
}


@pytest.mark.parametrize("name", FILLS)
def test_every_room(name: str) -> None:
    """A fill with little room says so, and writes nowhere else; with enough of it, it gives the same text."""
    for payload in [*GOOD[name], *LONG[name]]:
        buf = np.frombuffer(bytearray(payload), np.uint8)
        place, size, kind = np.zeros(1, np.int32), np.array([len(payload)], np.int32), np.ones(1, np.uint8)
        offsets = np.zeros(2, np.int32)
        texts = set()
        for room in range(SLACK, 700):
            data = np.full(room, 0xEE, np.uint8)
            status, _, used = FILLS[name](buf, place, size, kind, 0, offsets, data, 0, 0)
            assert status in (DONE, NO_ROOM)
            if status == DONE:
                texts.add(data[:used].tobytes())
        assert len(texts) == 1


@pytest.mark.parametrize("name", GOOD)
def test_mutations(name: str) -> None:
    mutations(name, 5_000)


@pytest.mark.slow
@pytest.mark.parametrize("name", GOOD)
def test_many_mutations(name: str) -> None:
    mutations(name, 300_000)
