"""inet, cidr, macaddr, macaddr8: forms, against Python's ipaddress, and what is no value."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.decode.built import codec, decoded, use
from walshadow_core.api import BadValue
from walshadow_core.decode import type_oids as oid

INET = codec(use(oid.INET, "inet"))
CIDR = codec(use(oid.CIDR, "cidr"))


def stored(text: str) -> bytes:
    interface = ipaddress.ip_interface(text)
    return bytes((2 if interface.version == 4 else 3, interface.network.prefixlen)) + interface.ip.packed


@pytest.mark.parametrize(
    "text",
    [
        "0.0.0.0", "255.255.255.255", "192.168.1.7", "10.0.0.0/8", "0.0.0.0/0", "::", "::1", "1::", "::/0",
        "::ffff:1.2.3.4", "::ffff:0.0.0.0", "::1.2.3.4", "::2:0/100", "1:0:0:2::", "2001:db8::1:0:0:1",
        "1:2:3:4:5:6:7:8", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/127", "1:0:2:3:4:5:6:7", "0:1:2:3:4:5:6:0",
        "fe80::1:2:3:4/64", "::fffe:102:304",
    ],
)  # fmt: skip
def test_as_printed(text: str) -> None:
    # An embedded IPv4 address is dotted only behind six zero words, or five and ffff.
    spelled = {"::2:0/100": "::0.2.0.0/100"}.get(text, text)
    assert decoded(INET, [stored(text), None]) == [spelled, None]
    assert decoded(CIDR, [stored(text)]) == [spelled if "/" in spelled else f"{spelled}/{128 if ':' in text else 32}"]


@given(st.lists(st.ip_addresses(), max_size=20))
def test_an_address_reads_back(addresses: list[ipaddress.IPv4Address | ipaddress.IPv6Address]) -> None:
    texts = decoded(INET, [stored(str(a)) for a in addresses])
    assert [ipaddress.ip_address(t) for t in texts] == addresses


@given(st.lists(st.sampled_from([0, 0, 0, 1, 0xFFFF, 0xAB0]), min_size=8, max_size=8))
def test_zero_runs_read_back(words: list[int]) -> None:
    packed = b"".join(w.to_bytes(2, "big") for w in words)
    (text,) = decoded(INET, [b"\3\x80" + packed])
    assert ipaddress.ip_address(text).packed == packed


def test_mac_addresses() -> None:
    assert decoded(codec(use(oid.MACADDR, length=6)), [bytes.fromhex("08002b01ff03"), None]) == [
        "08:00:2b:01:ff:03",
        None,
    ]
    assert decoded(codec(use(oid.MACADDR8, length=8)), [bytes(range(8))]) == ["00:01:02:03:04:05:06:07"]


@pytest.mark.parametrize(
    "payload",
    [
        b"", b"\2", b"\2\x20\1\2\3", b"\2\x21\1\2\3\4", b"\3\x20\1\2\3\4", b"\2\x20" + bytes(16), b"\3\x81" + bytes(16),
        b"\0\x20\1\2\3\4", b"\3\x80" + bytes(17),
    ],
)  # fmt: skip
def test_no_address(payload: bytes) -> None:
    with pytest.raises(BadValue) as error:
        decoded(INET, [stored("1.2.3.4"), None, payload])
    assert error.value.row == 2
