"""What a pass does with each file of a backup: walk it, collect it, or skip it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from walshadow_core.api import RelationDescriptor, RelFileLocator
from walshadow_core.pgformat.control import CONTROL_PATH
from walshadow_core.pgformat.relpath import parse_relation_path
from walshadow_core.visibility.status import CopiedStatus


class Use(Enum):
    """What becomes of a file."""

    SKIP = "skip"
    WALK = "walk"
    CHUNKS = "chunks"
    STATUS = "status"
    CONTROL = "control"


@dataclass(frozen=True, slots=True)
class Route:
    """The use of one file; for WALK (a table's own pages) and CHUNKS (those of its TOAST relation), the index of the
    table, the segment number, and the index in the table's ``stored``."""

    use: Use
    table: int = -1
    segment: int = 0
    leaf: int = 0


SKIP = Route(Use.SKIP)


class Router:
    """Routes the files of a backup for one filter set. Only main forks are walked."""

    def __init__(self, relations: Sequence[RelationDescriptor], status: CopiedStatus) -> None:
        self._routes: dict[RelFileLocator, tuple[Use, int, int]] = {}
        for table, relation in enumerate(relations):
            for leaf, stored in enumerate(relation.stored):
                self._routes[stored.locator] = (Use.WALK, table, leaf)
                if stored.toast_locator is not None:
                    self._routes[stored.toast_locator] = (Use.CHUNKS, table, leaf)
        self._status = status

    def route(self, path: str) -> Route:
        """The use of the file at ``path`` (relative to the data directory)."""
        if path == CONTROL_PATH:
            return Route(Use.CONTROL)
        if self._status.wants(path):
            return Route(Use.STATUS)
        file = parse_relation_path(path)
        if file is None or file.fork != "main":
            return SKIP
        use, table, leaf = self._routes.get(file.locator, (Use.SKIP, -1, 0))
        return SKIP if use is Use.SKIP else Route(use, table, file.segment, leaf)
