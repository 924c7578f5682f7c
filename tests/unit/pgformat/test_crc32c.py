"""Checksums of WAL records, by the processor's instruction and by tables."""

from __future__ import annotations

import google_crc32c
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.stream.walmaker import record
from walshadow_core.pgformat.crc32c import INSTRUCTION, holds, word_by_instruction, word_by_tables
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.walpage import RECORD_CRC_AT, RECORD_HEADER


@given(st.integers(0, 40) | st.integers(0, 3000), st.integers(0, 9), st.data())
def test_a_checksum_holds_until_a_bit_is_flipped(size: int, before: int, data: st.DataObject) -> None:
    """Wherever the record lies, whatever its length."""
    body = bytes((7 * k + 13) & 255 for k in range(size))
    whole = record(body, 1 << 40, xid=77)
    buf = np.frombuffer(b"\xff" * before + whole + b"\xff" * 9, np.uint8).copy()
    assert holds(buf, before, len(whole), RECORD_HEADER, RECORD_CRC_AT)
    bit = data.draw(st.integers(0, 8 * len(whole) - 1))
    buf[before + bit // 8] ^= 1 << bit % 8
    assert not holds(buf, before, len(whole), RECORD_HEADER, RECORD_CRC_AT)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1))
def test_a_word(crc: int, word: int) -> None:
    """Both ways come to what the library has."""
    expected = google_crc32c.extend(crc ^ 0xFFFFFFFF, word.to_bytes(8, "little")) ^ 0xFFFFFFFF
    assert int(word_by_tables(np.uint64(crc), np.uint64(word))) == expected
    if INSTRUCTION:
        assert int(_by_instruction(np.uint64(crc), np.uint64(word))) == expected


@kernel
def _by_instruction(crc: np.uint64, word: np.uint64) -> np.uint64:
    """An intrinsic can be called from a kernel alone."""
    return np.uint64(word_by_instruction(crc, word))
