"""How a staging table keeps its parts while it is filled: not merged, and with few files. All is undone before it is
published."""

from __future__ import annotations

import logging

from walshadow_core.api import DestinationError
from walshadow_sink_clickhouse.client import Connection
from walshadow_sink_clickhouse.quoting import literal, qualified

log = logging.getLogger(__name__)

MERGES_HELD = 100
"""Inserts during which staging is not merged: a load of less is quicker without, a longer one must not leave too
many parts."""

WIDE = 10 << 20
"""min_bytes_for_wide_part of a server that was not told otherwise: from here on a part has files for each column."""
WIDE_IN_STAGING = 64 << 20
"""More than the usual insert makes, so that it writes one file, and less than two: what is merged is wide."""
_SETTINGS = ("min_bytes_for_wide_part", "min_rows_for_wide_part")


class StagingParts:
    """The parts of one staging table. ``control`` is a connection that no insert is on."""

    def __init__(self, control: Connection, database: str, staging: str) -> None:
        self._control = control
        self._staging = qualified(database, staging)
        self._where = f"database = {literal(database)} AND name = {literal(staging)}"
        self._inserts = 0
        self._held = False
        self._one_file = False
        self._asked = False

    def before_insert(self, size: int) -> None:
        """An insert of ``size`` bytes is next."""
        self._inserts += 1
        if self._inserts == 1:
            self._held = self._tried(f"SYSTEM STOP MERGES {self._staging}")
        elif self._inserts == MERGES_HELD:
            self._merge_again()
        if size >= WIDE and not self._asked:
            self._asked = True
            self._one_file = self._may_set() and self._tried(
                f"ALTER TABLE {self._staging} MODIFY SETTING {_SETTINGS[0]} = {WIDE_IN_STAGING}"
            )

    def settle(self) -> None:
        """Undo what was set. Raises DestinationError."""
        if self._one_file:
            self._control.run(f"ALTER TABLE {self._staging} RESET SETTING {_SETTINGS[0]}")
            self._one_file = False
        self._merge_again()

    def _merge_again(self) -> None:
        if self._held:
            self._control.run(f"SYSTEM START MERGES {self._staging}")
            self._held = False

    def _may_set(self) -> bool:
        """Whether the table has the server's settings, and has them alone: other replicas have their own."""
        try:
            found = self._control.rows(f"SELECT engine, engine_full FROM system.tables WHERE {self._where}")
        except DestinationError as error:
            log.debug("settings of staging not read: %s", error)
            return False
        return any(
            not engine.startswith(("Replicated", "Shared")) and not any(name in full for name in _SETTINGS)
            for engine, full in found
        )

    def _tried(self, statement: str) -> bool:
        """Run what only saves time, and may not be allowed."""
        try:
            self._control.run(statement)
        except DestinationError as error:
            log.debug("staging is filled without: %s", error)
            return False
        return True
