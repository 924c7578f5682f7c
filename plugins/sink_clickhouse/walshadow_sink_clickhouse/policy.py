"""Values that Postgres has and ClickHouse has not: found cheaply, then clamped, made NULL, or refused."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import DestinationError
from walshadow_sink_clickhouse.settings import OutOfRange

_INT64_MIN = np.int64(-(2**63))


@dataclass(frozen=True)
class Adjusted:
    """What became of a column's raw values. ``to_null`` marks rows that must become NULL; ``count`` is how many
    values changed in all."""

    values: NDArray[np.signedinteger]
    to_null: NDArray[np.bool_] | None = None
    count: int = 0


def refuse(column: str, count: int, what: str) -> DestinationError:
    """The error for values that the policy does not let through."""
    return DestinationError(
        f"column {column!r} has {count} value{'s' if count != 1 else ''} that ClickHouse can't hold ({what})",
        "set out_of_range to clamp or null, or make the column's destination Nullable; a value of the key is never "
        "changed, as two keys could become one: change those rows at the source",
    )


def adjust_range(
    column: str,
    values: NDArray[np.signedinteger],
    valid: NDArray[np.uint8] | None,
    limits: tuple[int, int],
    policy: OutOfRange,
) -> Adjusted:
    """Bring raw dates or timestamps into ``limits``. ``valid`` is 1 per row that is not NULL, None if all are;
    what a NULL row's slot holds does not count. Raises DestinationError under ``error``."""
    low, high = limits
    if not len(values) or (values.min() >= low and values.max() <= high):
        return Adjusted(values)
    outside = (values < low) | (values > high)
    if valid is not None:
        outside &= valid.view(np.bool_)
    count = int(np.count_nonzero(outside))
    if count and policy == "error":
        raise refuse(column, count, "infinity or outside 1900 to 2299")
    return Adjusted(np.clip(values, low, high), outside if count and policy == "null" else None, count)


def find_nan(
    column: str,
    high_words: NDArray[np.int64],
    valid: NDArray[np.uint8] | None,
    nullable: bool,
    policy: OutOfRange,
) -> NDArray[np.bool_] | None:
    """The rows whose numeric is NaN, None if there are none. ``high_words`` is the most significant 64-bit word
    of each unscaled value: no Decimal but the NaN mark (api.DECIMAL_NAN_*) has the least one there. Raises
    DestinationError where they may not become NULL."""
    if not len(high_words) or high_words.min() != _INT64_MIN:
        return None
    nan: NDArray[np.bool_] = high_words == _INT64_MIN
    if valid is not None:
        nan &= valid.view(np.bool_)
    count = int(np.count_nonzero(nan))
    if not count:
        return None
    if policy == "error" or not nullable:
        raise refuse(column, count, "NaN in a Decimal")
    return nan
