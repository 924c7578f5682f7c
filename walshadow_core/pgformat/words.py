"""Eight bytes at a time: the one way that kernels read and write words at any byte offset."""

from __future__ import annotations

from typing import Final

import numpy as np

from walshadow_core.api import Bytes
from walshadow_core.pgformat.jit import kernel

SLACK: Final = 32
"""Bytes past the end of what they mean to write that kernels may write, where they copy by words."""


@kernel
def load64(buf: Bytes, at: np.uint64) -> np.uint64:
    """The little-endian uint64 at a byte offset; the caller has checked the bounds.

    The offset is unsigned, as a signed one may count from the end: LLVM then makes one load of it, not eight.
    """
    value = np.uint64(0)
    for k in range(8):
        value |= np.uint64(buf[at + np.uint64(k)]) << np.uint64(8 * k)
    return value


@kernel
def store16(buf: Bytes, at: int, value: int) -> None:
    """Write a uint16, little-endian; the caller has checked the bounds."""
    i = np.uint64(at)
    buf[i] = np.uint8(value & 255)
    buf[i + np.uint64(1)] = np.uint8((value >> 8) & 255)


@kernel
def store32(buf: Bytes, at: int, value: int) -> None:
    """Write a uint32, little-endian; the caller has checked the bounds."""
    store16(buf, at, value & 0xFFFF)
    store16(buf, at + 2, (value >> 16) & 0xFFFF)


@kernel
def store64(buf: Bytes, at: np.uint64, value: np.uint64) -> None:
    """Write a uint64 at a byte offset, little-endian; the caller has checked the bounds."""
    for k in range(8):
        buf[at + np.uint64(k)] = np.uint8((value >> np.uint64(8 * k)) & np.uint64(255))


@kernel
def copy_words(buf: Bytes, source: np.uint64, out: Bytes, target: np.uint64, count: np.uint64) -> None:
    """Copy ``count`` bytes, and up to SLACK more behind them; the caller has checked that both arrays go on for
    that long. From a place in ``out`` itself it copies right where that is 16 bytes or more before ``target``."""
    stop = target + count
    while target < stop:
        first = load64(buf, source)
        second = load64(buf, source + np.uint64(8))
        store64(out, target, first)
        store64(out, target + np.uint64(8), second)
        source += np.uint64(16)
        target += np.uint64(16)


@kernel
def copy_exactly(buf: Bytes, source: np.uint64, out: Bytes, target: np.uint64, count: np.uint64) -> None:
    """Copy ``count`` bytes and not one more; the caller has checked the bounds, and that they don't overlap, or that in
    one array ``target`` is before ``source``."""
    words = count >> np.uint64(3) << np.uint64(3)
    at = np.uint64(0)
    while at < words:
        store64(out, target + at, load64(buf, source + at))
        at += np.uint64(8)
    while at < count:
        out[target + at] = buf[source + at]
        at += np.uint64(1)


@kernel
def copy_bytes(buf: Bytes, source: np.uint64, out: Bytes, target: np.uint64, count: np.uint64) -> None:
    """Copy ``count`` bytes one by one, upwards: a source that overlaps its target repeats itself."""
    for k in range(count):
        out[target + k] = buf[source + k]


@kernel
def repeat_bytes(out: Bytes, distance: np.uint64, target: np.uint64, count: np.uint64) -> None:
    """Copy ``count`` bytes from ``distance`` before ``target``, upwards: what overlaps its target repeats itself. Up
    to SLACK bytes more are written behind; the caller has checked that ``out`` goes on for that long."""
    if distance >= np.uint64(16):
        copy_words(out, target - distance, out, target, count)
        return
    stop = target + count
    if distance < np.uint64(8):
        # The first word byte by byte; from then on the pattern stands a whole number of times before the target.
        copy_bytes(out, target - distance, out, target, np.uint64(8))
        target += np.uint64(8)
        distance *= (np.uint64(7) + distance) // distance
    while target < stop:
        store64(out, target, load64(out, target - distance))
        target += np.uint64(8)
