"""Numerics as Postgres stores them."""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal

_EXACT = Context(prec=200_000, Emax=MAX_EMAX, Emin=MIN_EMIN)


def on_disk(negative: bool, digits: list[int], weight: int, dscale: int, long: bool = False) -> bytes:
    """What numeric.c's make_result writes, digits already stripped; ``long`` forces the long header."""
    if not long and dscale <= 63 and -64 <= weight <= 63:
        header = (0x8000 | (0x2000 * negative) | (dscale << 7) | (weight & 0x7F)).to_bytes(2, "little")
    else:
        header = ((0x4000 * negative) | dscale).to_bytes(2, "little") + weight.to_bytes(2, "little", signed=True)
    return header + b"".join(d.to_bytes(2, "little") for d in digits)


def encode(value: Decimal, dscale: int, long: bool = False) -> bytes:
    """A finite decimal with ``dscale`` digits after the point, as Postgres stores it."""
    unscaled = abs(int(_EXACT.scaleb(value, dscale)))
    padding = -dscale % 4
    rest = unscaled * 10**padding
    digits: list[int] = []
    while rest:
        rest, digit = divmod(rest, 10000)
        digits.insert(0, digit)
    weight = len(digits) - 1 - (dscale + padding) // 4
    while digits and digits[-1] == 0:
        digits.pop()
    return on_disk(bool(digits) and value < 0, digits, weight if digits else 0, dscale, long)
