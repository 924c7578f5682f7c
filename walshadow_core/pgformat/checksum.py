"""Data page checksums (``storage/checksum_impl.h``): 32 FNV-like sums side by side, folded into 16 bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Bytes, FormatError
from walshadow_core.pgformat.heap import CHECKSUM_AT, MAX_BLOCK, PAGE_SIZE, UPPER_AT
from walshadow_core.pgformat.jit import kernel

_SUMS = 32
_PRIME = np.uint64(16777619)
_LOW_32 = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint32(17)
_ROUNDS = PAGE_SIZE // (4 * _SUMS)
_WORDS = PAGE_SIZE // 4
_CHECKSUM_WORD = CHECKSUM_AT // 4
_UPPER_WORD = UPPER_AT // 4

_BASE_OFFSETS = np.array(
    [
        0x5B1F36E9, 0xB8525960, 0x02AB50AA, 0x1DE66D2A, 0x79FF467A, 0x9BB9F8A3, 0x217E7CD2, 0x83E13D2C,
        0xF8D4474F, 0xE39EB970, 0x42C6AE16, 0x993216FA, 0x7B093B5D, 0x98DAFF3C, 0xF718902A, 0x0B1C9CDB,
        0xE58F764B, 0x187636BC, 0x5D7B3BB1, 0xE73DE7DE, 0x92BEC979, 0xCCA6C0B2, 0x304A0979, 0x85AA43D4,
        0x783125BB, 0x6CA8EAA2, 0xE407EAC6, 0x4B5CFC3E, 0x9FBF8C76, 0x15CA20BE, 0xF2CA9FD3, 0x959BD756,
    ],
    np.uint32,
)  # fmt: skip
"""checksumBaseOffsets: where each of the sums begins."""

_KEEP = np.full(_SUMS, 0xFFFFFFFF, np.uint32)
_KEEP[_CHECKSUM_WORD] = 0xFFFF0000
"""The bits of a page's first words that are summed: all but the checksum itself, which counts as zero."""


_NO_BLOCKS = np.empty(0, np.uint32)


@kernel
def _mix(value: np.uint32) -> np.uint32:
    """What CHECKSUM_COMP makes of a sum that was xor-ed with the next word."""
    return np.uint32(np.uint32((np.uint64(value) * _PRIME) & _LOW_32) ^ np.uint32(value >> _SHIFT))


@kernel
def _page_sums(
    rows: NDArray[np.uint32],
    sums: NDArray[np.uint32],
    bases: NDArray[np.uint32],
    keep: NDArray[np.uint32],
    first_block: int,
    out: NDArray[np.uint32],
) -> int:
    """pg_checksum_page of whole pages, given as rows of 32 words, 64 to a page; ``sums`` is scratch. Gives how many
    of the pages that are initialised (pd_upper is not 0) store another checksum.

    The inner loops run over a row, up to a bound that is not a constant: those LLVM turns into vector code.
    """
    n = len(sums)
    wrong = 0
    for page in range(len(out)):
        first = rows[page * _ROUNDS]
        for j in range(n):
            sums[j] = _mix(np.uint32(bases[j] ^ (first[j] & keep[j])))
        for i in range(1, _ROUNDS):
            row = rows[page * _ROUNDS + i]
            for j in range(n):
                sums[j] = _mix(np.uint32(sums[j] ^ row[j]))
        folded = np.uint32(0)
        for j in range(n):
            folded ^= _mix(_mix(sums[j]))
        out[page] = np.uint32(folded ^ np.uint32(first_block + page)) % np.uint32(65535) + np.uint32(1)
        stored = first[_CHECKSUM_WORD] & np.uint32(0xFFFF)
        if first[_UPPER_WORD] >> np.uint32(16) != 0 and stored != out[page]:
            wrong += 1
    return wrong


def _words(pages: Bytes, first_block: int) -> NDArray[np.uint32]:
    """The pages as uint32[pages, words per page]; a copy only where the buffer is not aligned."""
    count, rest = divmod(len(pages), PAGE_SIZE)
    if rest:
        raise FormatError(f"block {first_block + count} is truncated: {rest} of {PAGE_SIZE} bytes")
    if first_block < 0 or first_block + count > MAX_BLOCK + 1:
        raise FormatError(f"blocks {first_block} and up are past the largest block number")
    words = pages.view(np.uint32)
    if not words.flags.aligned:
        words = pages.copy().view(np.uint32)
    return words.reshape(count, _WORDS)


def _checksums(words: NDArray[np.uint32], first_block: int) -> tuple[NDArray[np.uint32], int]:
    """(the checksum that each page should have, how many have another)."""
    checksums = np.empty(len(words), np.uint32)
    rows = words.reshape(-1, _SUMS)
    wrong = _page_sums(rows, np.empty(_SUMS, np.uint32), _BASE_OFFSETS, _KEEP, first_block, checksums)
    return checksums, wrong


def page_checksums(pages: Bytes, first_block: int) -> NDArray[np.uint16]:
    """pg_checksum_page of each page: what its pd_checksum should be, uint16[pages].

    ``first_block`` is the block number of the first page in its relation (not in its segment file): it is
    mixed in. Raises FormatError where the buffer does not end with a page's end.
    """
    return _checksums(_words(pages, first_block), first_block)[0].astype(np.uint16)


def bad_checksums(pages: Bytes, first_block: int) -> NDArray[np.uint32]:
    """The block numbers of the pages whose stored checksum is not theirs, ascending.

    Pages that were never initialised (pd_upper is 0) have none and are left out. Only for clusters with data
    checksums (ControlFile.data_checksum_version). Arguments and errors as in `page_checksums`.
    """
    words = _words(pages, first_block)
    checksums, wrong = _checksums(words, first_block)
    if not wrong:
        return _NO_BLOCKS
    stored = words[:, _CHECKSUM_WORD] & np.uint32(0xFFFF)
    initialised = words[:, _UPPER_WORD] >> np.uint32(16) != 0
    return (first_block + np.flatnonzero(initialised & (stored != checksums))).astype(np.uint32)
