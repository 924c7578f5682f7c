"""A one-shot load: plan, a pass over a backup, and more of them for tables that were written to meanwhile."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from walshadow_core.api import (
    NO_CHOICES,
    BackupSource,
    ColumnChoice,
    Destination,
    RelationDescriptor,
    WalshadowError,
)
from walshadow_core.backfill.onepass import Pass
from walshadow_core.backfill.options import LoadOptions, Planned, RecheckFactory, ResolverFactory
from walshadow_core.backfill.stats import LoadStats
from walshadow_core.catalog.sql import ClusterFacts
from walshadow_core.decode.table import decodable
from walshadow_core.decode.types import DecodeOptions

MOST_PASSES = 3


@dataclass
class LoadResult:
    """What a load came to. ``seconds`` says, per stage, for how long its thread was busy with it."""

    stats: LoadStats
    seconds: dict[str, float]


def load(
    source: BackupSource,
    destination: Destination,
    cluster: ClusterFacts,
    tables: Sequence[Planned],
    stats: LoadStats,
    make_resolver: ResolverFactory,
    make_recheck: RecheckFactory,
    options: LoadOptions,
) -> LoadResult:
    """Load ``tables`` and publish each when it is complete. ``stats`` is counted up as it goes.

    A table that fails is out, with its reason in ``stats``; the others go on. Raises WalshadowError for what
    ends a pass as a whole, KeyboardInterrupt likewise: the destination of every table that was not published is then
    as it was.
    """
    stats.started = time.monotonic()
    seconds: Counter[str] = Counter()
    left = list(tables)
    stats.passing = list(stats.tables)
    try:
        for number in range(MOST_PASSES):
            run = Pass(
                source, destination, cluster, left, stats, make_resolver, make_recheck(), options, again=number > 0
            )
            try:
                again = run.go()
            finally:
                seconds.update(run.seconds)
            if not again:
                break
            if number + 1 == MOST_PASSES:
                for index in again:
                    stats.passing[index].fail(_restless(stats.passing[index].put_off or ""))
                break
            left = [replace(left[index], relation=relation) for index, relation in again.items()]
            stats.passing = [stats.passing[index] for index in again]
            for table, planned in zip(stats.passing, left, strict=True):
                table.begin_again(planned.relation)
        return LoadResult(stats, dict(seconds))
    finally:
        stats.seconds = time.monotonic() - stats.started


def _restless(reason: str) -> str:
    return f"{reason} (in each of {MOST_PASSES} passes)"


def plan_tables(
    destination: Destination,
    relations: Sequence[RelationDescriptor],
    names: Mapping[int, str],
    decode: DecodeOptions,
    *,
    replace: bool,
    choices: Mapping[int, Mapping[str, ColumnChoice]],
) -> tuple[list[Planned], list[tuple[str, str]]]:
    """How each relation lands, and (name, reason) of those that can't, or can't be decoded in the form that they are
    to land in. ``names`` and ``choices`` are by relation oid. Changes nothing."""
    planned: list[Planned] = []
    refused: list[tuple[str, str]] = []
    for relation in relations:
        chosen = choices.get(relation.oid, NO_CHOICES)
        try:
            item = Planned(relation, destination.plan(relation, names[relation.oid], replace=replace, choices=chosen))
            decodable(relation, decode, item.forms)
            planned.append(item)
        except WalshadowError as error:
            refused.append((relation.qualified_name, str(error)))
    return planned, refused
