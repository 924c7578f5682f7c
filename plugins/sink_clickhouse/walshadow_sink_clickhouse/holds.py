"""Which types hold every value of which: the one table for types that a user chose and for tables made by hand."""

from __future__ import annotations

from dataclasses import replace

from walshadow_sink_clickhouse.typemap import NANOSECOND_BOUNDS, ColumnType, Part, array_type, tuple_type
from walshadow_sink_clickhouse.typenames import TypeName

_INTEGERS = ("Int8", "Int16", "Int32", "Int64", "Int128", "Int256")
_WIDER: dict[str, tuple[str, ...]] = {
    "Bool": ("UInt8",),
    **{name: _INTEGERS[n + 1 :] for n, name in enumerate(_INTEGERS[:4])},
    "UInt32": ("UInt64", "UInt128", "UInt256", "Int64", "Int128", "Int256"),
    "UInt64": ("UInt128", "UInt256", "Int128", "Int256"),
    "Float32": ("Float64",),
}
_DIGITS = {"Int8": 3, "Int16": 5, "Int32": 10, "UInt32": 10, "Int64": 19, "UInt64": 20}


def fitted(landed: TypeName, sent: ColumnType, *, strict: bool = True) -> ColumnType | None:
    """``sent`` as it must be sent where it lands in ``landed`` (without regard to whether the whole value may be NULL),
    None if that does not hold every value. ``strict``: nor may what is inside of an array or a tuple be NULL where it
    lands in a type that takes none; else it is sent as what is never NULL."""
    bare = landed.bare
    if sent.encoding == "array":
        return _array(bare, sent, strict)
    if sent.encoding == "tuple":
        return _tuple(bare, sent, strict)
    if not _holds(bare, sent):
        return None
    # The server makes the wider value of the narrower one, but for the nanoseconds of what is past their end.
    return replace(sent, limits=NANOSECOND_BOUNDS) if bare.name == "DateTime64" and bare.words[0] == "9" else sent


def _part(landed: TypeName, part: Part, strict: bool) -> Part | None:
    kind = fitted(landed, part.type, strict=strict)
    if kind is None:
        return None
    if not part.nullable or kind.encoding in ("array", "tuple") or landed.nullable:
        return replace(part, type=kind)
    return None if strict else replace(part, type=kind, nullable=False)


def _array(landed: TypeName, sent: ColumnType, strict: bool) -> ColumnType | None:
    if landed.name != "Array":
        return None
    element = _part(landed.parts[0], sent.parts[0], strict)
    return array_type(element) if element is not None else None


def _tuple(landed: TypeName, sent: ColumnType, strict: bool) -> ColumnType | None:
    """Elements go by name where the destination's have names, else by place."""
    if landed.name != "Tuple" or len(landed.parts) != len(sent.parts):
        return None
    by_name = dict(zip(landed.names, landed.parts, strict=True)) if landed.names else None
    parts: list[Part] = []
    for place, part in enumerate(sent.parts):
        there = landed.parts[place] if by_name is None else by_name.get(part.name)
        fit = _part(there, part, strict) if there is not None else None
        if fit is None:
            return None
        parts.append(fit)
    return tuple_type(parts)


def _holds(landed: TypeName, sent: ColumnType) -> bool:
    if str(landed) == sent.name or landed.name in _WIDER.get(sent.name, ()):
        return True
    if landed.name == "Decimal":
        precision, scale = (int(word) for word in landed.words)
        if sent.encoding == "decimal":
            return scale >= sent.scale and precision - scale >= sent.precision - sent.scale
        return precision - scale >= _DIGITS.get(sent.name, precision + 1)
    if landed.name == "Time64":
        return sent.name == "Time64(6)" and int(landed.words[0]) >= 6
    if landed.name == "DateTime64":
        return sent.encoding == "timestamp" and int(landed.words[0]) >= sent.scale
    if landed.name in ("Enum", "Enum8", "Enum16"):
        return bool(sent.labels) and set(sent.labels) <= set(landed.names)
    return landed.name == "JSON" and sent.json
