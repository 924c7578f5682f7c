"""inet, cidr, macaddr, macaddr8 as their output functions print them (``utils/adt/network.c``, ``mac.c``, ``mac8.c``).

An inet (``utils/inet.h``) is a byte of family (2: IPv4, 3: IPv6), a byte of netmask bits, and 4 or 16 bytes of
address. ``port/inet_net_ntop.c`` says how IPv6 is abbreviated: the first of the longest runs of two zero words or
more becomes ``::``, and an IPv4 address that is mapped or embedded is dotted. A cast of an inet to text always
prints the netmask; the output function does not for a host.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import Bytes
from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.columns import BAD_VALUE, DONE, NO_ROOM, CodecMaker, ascii_maker
from walshadow_core.decode.deform import KIND_VALUE
from walshadow_core.decode.text_put import put_hex, put_number
from walshadow_core.pgformat.heap import load16
from walshadow_core.pgformat.jit import kernel
from walshadow_core.pgformat.words import SLACK

V4, V6 = 2, 3
V4_BITS, V6_BITS = 32, 128
HEADER: Final = 2
LONGEST: Final = 49
"""``ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255/128``"""
WORDS: Final = 8

_POINT, _COLON, _SLASH = b".:/"
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)


@kernel
def _put_octets(buf: Bytes, at: int, out: Bytes, to: int) -> int:
    """An IPv4 address."""
    for k in range(at, at + 4):
        to = put_number(np.uint64(buf[np.uint64(k)]), 1, out, to)
        out[to] = _POINT
        to += 1
    return to - 1


@kernel
def _put_words(buf: Bytes, at: int, out: Bytes, to: int) -> int:
    """An IPv6 address."""
    start, longest, run, last = 0, 0, 0, 0
    for k in range(WORDS):
        word = load16(buf, at + 2 * k)
        run = run + 1 if word == 0 else 0
        if run > longest:
            start, longest = k - run + 1, run
        if k == 5:
            last = word
    end = start + longest
    if longest < 2:
        start = end = WORDS + 1
    for k in range(WORDS):
        if start <= k < end:
            if k == start:
                out[to] = _COLON
                to += 1
            continue
        if k > 0:
            out[to] = _COLON
            to += 1
        if k == 6 and start == 0 and (end == 6 or (end == 5 and last == 0xFFFF)):
            return _put_octets(buf, at + 12, out, to)
        word = load16(buf, at + 2 * k)
        # Big-endian, and without leading zeros.
        word = (word >> 8) | ((word & 0xFF) << 8)
        shift = 12
        while shift > 0 and word >> shift == 0:
            shift -= 4
        while shift >= 0:
            out[to] = _DIGITS[(word >> shift) & 15]
            to += 1
            shift -= 4
    if end == WORDS:
        out[to] = _COLON
        to += 1
    return to


@kernel
def network_to_text(
    always_bits: bool,
    buf: Bytes,
    offset: NDArray[np.int32],
    length: NDArray[np.int32],
    kind: NDArray[np.uint8],
    first: int,
    offsets: NDArray[np.int32],
    data: Bytes,
    row: int,
    used: int,
) -> tuple[int, int, int]:
    """A columns.VarFill for inet, or with ``always_bits`` cidr."""
    room = data.size - SLACK
    for i in range(first, kind.size):
        if kind[i] == KIND_VALUE:
            if used + LONGEST > room:
                return NO_ROOM, i, used
            at = int(np.int64(offset[i]))
            size = int(np.int64(length[i])) - HEADER
            if size != 4 and size != 16:
                return BAD_VALUE, i, used
            family = buf[np.uint64(at)]
            bits = int(np.int64(buf[np.uint64(at + 1)]))
            most = V4_BITS if size == 4 else V6_BITS
            if family != (V4 if size == 4 else V6) or bits > most:
                return BAD_VALUE, i, used
            at += HEADER
            used = _put_octets(buf, at, data, used) if size == 4 else _put_words(buf, at, data, used)
            if always_bits or bits != most:
                data[used] = _SLASH
                used = put_number(np.uint64(bits), 1, data, used + 1)
        offsets[row + i + 1] = used
    return DONE, kind.size, used


@kernel
def mac_to_text(
    buf: Bytes,
    offset: NDArray[np.int32],
    length: NDArray[np.int32],
    kind: NDArray[np.uint8],
    first: int,
    offsets: NDArray[np.int32],
    data: Bytes,
    row: int,
    used: int,
) -> tuple[int, int, int]:
    """A columns.VarFill for macaddr and macaddr8: six or eight bytes in hex."""
    room = data.size - SLACK
    for i in range(first, kind.size):
        if kind[i] == KIND_VALUE:
            count = int(np.int64(length[i]))
            if used + 3 * count > room:
                return NO_ROOM, i, used
            for k in range(count):
                if k > 0:
                    data[used] = _COLON
                    used += 1
                used = put_hex(buf, int(offset[i]) + k, 1, data, used)
        offsets[row + i + 1] = used
    return DONE, kind.size, used


CODECS: Mapping[int, CodecMaker] = {
    oid.INET: ascii_maker(partial(network_to_text, False)),
    oid.CIDR: ascii_maker(partial(network_to_text, True)),
    oid.MACADDR: ascii_maker(mac_to_text),
    oid.MACADDR8: ascii_maker(mac_to_text),
}
"""This family's types, by oid."""

CAST_TEXTS: Mapping[int, CodecMaker] = {oid.INET: CODECS[oid.CIDR]}
"""Types that a cast to text prints otherwise."""
