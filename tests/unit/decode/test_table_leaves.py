"""Tuples of several relations into one table's batches, and missing values that are known as text."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from tests.unit.decode.test_table import TWO, attribute, relation, rows_of, short, tuples, two
from walshadow_core.api import RelationDescriptor, TableRefused
from walshadow_core.catalog.trees import merged
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.columns import DecodeOptions
from walshadow_core.decode.table import TableDecoder, decodable

TURNED = relation(
    attribute(1, "word", oid.TEXT, -1, "i"),
    attribute(2, "gone", oid.INT8, 8, "d", dropped=True),
    attribute(3, "id", oid.INT4, 4, "i", not_null=True),
    attribute(4, "only_here", oid.TEXT, -1, "i"),
)


def _root(*leaves: RelationDescriptor, key: tuple[int, ...] = ()) -> RelationDescriptor:
    return merged(replace(TWO, kind="p", key=key), leaves)


def _turned(number: int, word: str) -> bytes:
    body = short(word.encode())
    body += bytes(-len(body) % 8) + b"\7" * 8
    return body + number.to_bytes(4, "little") + short(b"not loaded")


def test_columns_are_found_by_name_and_leaves_share_batches() -> None:
    one, other = replace(TWO, oid=70001), replace(TURNED, oid=70002)
    decoder = TableDecoder(_root(one, other), DecodeOptions(), block_rows=3)
    batches = decoder.append(*tuples(two(1, "a"), two(2, "b"), natts=2))
    batches += decoder.append(*tuples(_turned(3, "ccc"), _turned(4, "d"), natts=4), leaf=1)
    batches += decoder.append(*tuples(two(5, "e"), natts=2), leaf=0)
    batches.append(decoder.finish())
    assert [b.num_rows for b in batches] == [3, 2]
    assert rows_of(batches) == [(1, "a"), (2, "b"), (3, "ccc"), (4, "d"), (5, "e")]


def test_tableoid_is_that_of_the_leaf() -> None:
    one, other = replace(TWO, oid=70001, key=(1,)), replace(TURNED, oid=4_000_000_000, key=(3,))
    root = _root(one, other)
    assert root.key_names == ("id", "tableoid")
    decoder = TableDecoder(root, DecodeOptions(), block_rows=4)
    batches = decoder.append(*tuples(two(1, "a"), natts=2))
    batches += decoder.append(*tuples(*[_turned(k, "x" * k) for k in range(9)], natts=4), leaf=1)
    batches.append(decoder.finish())
    assert [b.num_rows for b in batches] == [4, 4, 2]
    assert rows_of(batches) == [(1, "a", 70001), *((k, "x" * k, 4_000_000_000) for k in range(9))]
    assert decoder.schema.field("tableoid") == pa.field("tableoid", pa.uint32(), nullable=False)
    as_text = TableDecoder(root, DecodeOptions(), forms={"tableoid": "text"})
    as_text.append(*tuples(two(1, "a"), natts=2))
    assert rows_of([as_text.finish()]) == [(1, "a", "70001")]


def test_a_root_without_leaves_has_no_rows() -> None:
    decoder = TableDecoder(_root(), DecodeOptions())
    assert decoder.finish() is None and decoder.schema.names == ["id", "word"]


def test_texts_stand_in_for_missing_values() -> None:
    doc = attribute(2, "doc", oid.JSONB, -1, "i")
    plain = relation(TWO.attributes[0], doc)
    one, two_, none = (
        relation(TWO.attributes[0], replace(doc, missing_text=text)) for text in ('{"é": 1}', "[]", None)
    )
    decoder = TableDecoder(merged(replace(plain, kind="p"), (one, two_, none)), DecodeOptions(), block_rows=5)
    numbers = [k.to_bytes(4, "little") for k in range(4)]
    batches = []
    for leaf in (0, 1, 2, 0):
        batches += decoder.append(*tuples(*numbers, natts=1), leaf=leaf)
    batches.append(decoder.finish())
    words = ['{"é": 1}'] * 4 + ["[]"] * 4 + [None] * 4 + ['{"é": 1}'] * 4
    assert rows_of(batches) == list(zip([0, 1, 2, 3] * 4, words, strict=True))


def test_a_text_has_no_place_in_another_form() -> None:
    lists = relation(attribute(1, "a", oid.BYTEA, -1, "i", missing_text="\\x00"))
    with pytest.raises(TableRefused, match=r'column "a" was added with a default, .* --type TABLE\.a=String'):
        decodable(lists, DecodeOptions())
    decodable(lists, DecodeOptions(), {"a": "text"})
    with pytest.raises(TableRefused, match='column "a"'):
        decodable(lists, DecodeOptions(), {"a": "hex"})
