"""How one column lands: its type at the destination, by the user's choice, by what is there, or by the source's."""

from __future__ import annotations

from dataclasses import dataclass

from walshadow_core.api import HEX, Attribute, ColumnChoice, ColumnPlan, Form
from walshadow_sink_clickhouse.existing import Column
from walshadow_sink_clickhouse.holds import fitted
from walshadow_sink_clickhouse.native import SentColumn
from walshadow_sink_clickhouse.pgtypes import NUMERIC, is_known, own_type, suggested_type, type_of, undressed
from walshadow_sink_clickhouse.typemap import STRING, ColumnType, landed_name
from walshadow_sink_clickhouse.typenames import BadTypeName, TypeName, parse_type

_AS_SENT = ColumnChoice()


class CanNotLand(Exception):
    """Why a column can't land, and perhaps what to do."""

    def __init__(self, reason: str, remedy: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


@dataclass(frozen=True)
class Landed:
    """One column: its plan, and what is sent. ``loses_null``: its NULLs become empty arrays."""

    plan: ColumnPlan
    sent: SentColumn

    @property
    def loses_null(self) -> bool:
        """Whether its NULLs become empty arrays."""
        return self.sent.type.encoding == "array" and self.sent.nullable


def land(attribute: Attribute, in_key: bool, choice: ColumnChoice | None, there: Column | None) -> Landed:
    """How a column lands in a new table, or in the column that is there. Raises CanNotLand."""
    choice = choice or _AS_SENT
    hexed = choice.type == HEX
    wanted = _wanted(choice, in_key)
    nullable = _may_be_null(attribute, in_key, choice, wanted)
    if there is not None:
        _agrees(choice, wanted, nullable, there)
    target = there.parsed if there is not None else TypeName("String") if hexed else wanted
    own = None if hexed else _own(attribute, nullable)
    if target is None:
        sent, form = _by_itself(attribute, own)
        takes_null = nullable and sent.encoding not in ("array", "tuple")
        plugins = _suggested(attribute) if form == "own" else None
        declared = landed_name(sent, nullable) if plugins is None else str(plugins.bare.wrapped(takes_null, False))
    else:
        # What the user chose himself may be firmer inside than the source: a NULL there is an error.
        strict = wanted is None
        sent, form = _into(attribute, nullable, own, target, there is not None, hexed, strict)
        if there is not None:
            declared, takes_null = there.type, there.nullable
        else:
            takes_null = nullable and sent.encoding not in ("array", "tuple")
            declared = str(target.bare.wrapped(takes_null, target.low_cardinality))
    plan = ColumnPlan(attribute, attribute.name, declared, takes_null, form)
    may_come = nullable if sent.encoding == "array" else takes_null
    return Landed(plan, SentColumn(attribute.name, sent, may_come, in_key))


def compared(attribute: Attribute, there: Column) -> ColumnPlan:
    """How a column that was loaded is held, whatever was chosen then. Raises CanNotLand."""
    own = own_type(type_of(attribute), attribute.typmod, attribute.dimensions)
    if own is not None and fitted(there.parsed, own, strict=False) is not None:
        return ColumnPlan(attribute, attribute.name, there.type, there.nullable)
    if there.parsed.bare.name != "String":
        raise CanNotLand(f"{attribute.name} is {there.type} there, which does not hold {attribute.type_name}")
    form: Form = "text" if is_known(type_of(attribute)) else "hex"
    return ColumnPlan(attribute, attribute.name, there.type, there.nullable, form)


def _wanted(choice: ColumnChoice, in_key: bool) -> TypeName | None:
    if choice.type is None or choice.type == HEX:
        return None
    try:
        wanted = parse_type(choice.type)
    except BadTypeName as error:
        raise CanNotLand(str(error)) from None
    if wanted.nullable and choice.nullable is False:
        raise CanNotLand(f"its type is to be {wanted}, and it is not to be NULL")
    if wanted.low_cardinality and wanted.bare.name != "String":
        raise CanNotLand(f"{wanted}: LowCardinality is for String alone here")
    return wanted


def _may_be_null(attribute: Attribute, in_key: bool, choice: ColumnChoice, wanted: TypeName | None) -> bool:
    chosen = choice.nullable or (wanted is not None and wanted.nullable)
    if chosen and in_key:
        raise CanNotLand("it is in the key, which can't be NULL")
    if chosen:
        return True
    return choice.nullable is None and not attribute.not_null and not in_key


def _agrees(choice: ColumnChoice, wanted: TypeName | None, nullable: bool, there: Column) -> None:
    """A table that is there has its types: what is chosen must be the same."""
    parsed = there.parsed
    if choice.type == HEX and parsed.bare.name != "String":
        raise CanNotLand(f"it is {there.type} there, hex lands in a String", _ALTER)
    if wanted is not None and wanted.plain != parsed.plain:
        raise CanNotLand(f"it is {there.type} there, {wanted} was chosen", _ALTER)
    if choice.nullable is False and there.nullable:
        raise CanNotLand(f"it is {there.type} there, which may be NULL", _ALTER)
    if nullable and not there.nullable and parsed.bare.name != "Array":
        raise CanNotLand(
            f"it may be NULL in the source, {there.type} may not",
            None if choice.nullable else "--not-null for it fails the load at a NULL",
        )


_ALTER = "alter the table, or load into another name with --into"


def _suggested(attribute: Attribute) -> TypeName | None:
    """The type that a plugin which decodes the column's type wants for it."""
    words = suggested_type(type_of(attribute))
    try:
        return parse_type(words) if words is not None else None
    except BadTypeName as error:
        raise CanNotLand(f"the plugin that knows its type suggests a wrong one: {error}") from None


def _own(attribute: Attribute, nullable: bool) -> ColumnType | None:
    """The type's own form where it can be used: a tuple can't be NULL."""
    own = own_type(type_of(attribute), attribute.typmod, attribute.dimensions)
    return None if own is not None and own.encoding == "tuple" and nullable else own


def _by_itself(attribute: Attribute, own: ColumnType | None) -> tuple[ColumnType, Form]:
    if own is not None:
        return own, "own"
    if is_known(type_of(attribute)):
        return STRING, "text"
    raise CanNotLand(
        f"it is of type {attribute.type_name}, which has no ClickHouse type here",
        f"--type for it with {HEX} loads its bytes",
    )


def _into(
    attribute: Attribute,
    nullable: bool,
    own: ColumnType | None,
    target: TypeName,
    is_there: bool,
    hexed: bool,
    strict: bool,
) -> tuple[ColumnType, Form]:
    if hexed:
        return STRING, "hex"
    if own is not None and (fit := fitted(target, own, strict=strict)) is not None:
        return fit, "own"
    if own is not None and (plugins := _suggested(attribute)) is not None and plugins.plain == target.plain:
        return own, "own"
    if fitted(target, STRING) is not None and (not is_there or is_known(type_of(attribute))):
        return STRING, "text"
    raise _does_not_hold(attribute, nullable, own, target, is_there)


def _does_not_hold(
    attribute: Attribute, nullable: bool, own: ColumnType | None, target: TypeName, is_there: bool
) -> CanNotLand:
    source = attribute.type_name
    natural = f" ({landed_name(own, False)})" if own is not None else ""
    pg, typmod, _ = undressed(type_of(attribute), attribute.typmod, 0)
    remedy = None
    if own is None and target.bare.name == "Tuple" and nullable:
        remedy = "a Tuple can't be NULL: --not-null for it, if it never is"
    elif pg.oid == NUMERIC and typmod < 0 and target.bare.name == "Decimal":
        remedy = "a numeric without precision may have any digits: give the source's column a precision"
    where = "it is " + str(target) + " there, which" if is_there else str(target)
    return CanNotLand(f"{where} does not hold {source}{natural}", remedy)
