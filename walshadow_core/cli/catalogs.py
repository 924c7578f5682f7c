"""Where ``walshadow load`` gets the definitions of tables: ``--catalog sql`` or ``--catalog backup``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from walshadow_core.cli.console import say

if TYPE_CHECKING:
    from rich.console import Console

    from walshadow_core.api import BackupSource, RelationDescriptor
    from walshadow_core.backfill.options import LoadOptions
    from walshadow_core.backfill.recheck import Applied, BackupRecheck, Recheck
    from walshadow_core.catalog.files.read import Asked, FoundCatalog
    from walshadow_core.catalog.sql import CatalogSnapshot
    from walshadow_core.plugins import Plugins


class CatalogReader(Protocol):
    """Reads the catalog before the load, and says how it is read again at its end."""

    def read(self, tables: Sequence[str]) -> CatalogSnapshot:
        """The tables, as people write them."""
        ...

    def recheck(self, tables: Sequence[str], applied: Applied) -> Recheck:
        """For these tables, of what was read; ``applied`` gives a descriptor with the user's choices."""
        ...


class SqlReader:
    """Asks the source."""

    def __init__(self, dsn: str, with_children: bool) -> None:
        self._dsn = dsn
        self._with_children = with_children

    def read(self, tables: Sequence[str]) -> CatalogSnapshot:
        """See CatalogReader."""
        from walshadow_core.catalog.sql import read_catalog

        return read_catalog(self._dsn, tables, with_children=self._with_children)

    def recheck(self, tables: Sequence[str], applied: Applied) -> Recheck:
        """See CatalogReader."""
        from walshadow_core.backfill.recheck import SqlRecheck
        from walshadow_core.catalog.moment import Moment
        from walshadow_core.catalog.sql import read_catalog

        def read(moment: Moment) -> list[RelationDescriptor]:
            now = read_catalog(self._dsn, tables, with_children=self._with_children, seeing=moment)
            return [applied(relation) for relation in now.relations]

        return SqlRecheck(read)


class FilesReader:
    """Reads a backup's own files; at one moment, with the WAL."""

    def __init__(
        self,
        dsn: str,
        with_children: bool,
        source: BackupSource,
        console: Console,
        plugins: Plugins,
        options: LoadOptions,
    ) -> None:
        self._dsn = dsn
        self._options = options
        self._with_children = with_children
        self._source = source
        self._console = console
        self._plugins = plugins
        self._found: FoundCatalog | None = None
        self._last: BackupRecheck | None = None

    def read(self, tables: Sequence[str]) -> CatalogSnapshot:
        """See CatalogReader."""
        from walshadow_core.backfill.catalogwal import wal_beside
        from walshadow_core.catalog.files.read import read_backup
        from walshadow_core.cli.warmup import warm_up_if_cold

        warm_up_if_cold(self._console, self._plugins)
        asked = self._asked(tables)
        self._source.preflight()
        say(self._console, f"reading the catalog of database {asked.database} out of a backup")
        self._found = read_backup(self._source, asked, beside=lambda: wal_beside(self._source, self._options))
        return self._found.snapshot

    def recheck(self, tables: Sequence[str], applied: Applied) -> Recheck:
        """See CatalogReader."""
        from walshadow_core.backfill.recheck import BackupRecheck

        assert self._found is not None
        # What the pass before has found is nearer than what was found before the load.
        found = self._found if self._last is None else self._last.found
        self._last = BackupRecheck(self._asked(tables), found, applied)
        return self._last

    def _asked(self, tables: Sequence[str]) -> Asked:
        """The database is the one that the tables' names have before the schema, or else that of the DSN; names
        without a schema are looked up where a server would by default."""
        from walshadow_core.api import UsageError
        from walshadow_core.catalog.connect import connection_words
        from walshadow_core.catalog.files.read import Asked
        from walshadow_core.catalog.names import parse_qualified

        words = connection_words(self._dsn)
        written = [name for table in tables if (name := parse_qualified(table).database) is not None]
        database = written[0] if written else words.get("dbname") or words.get("user")
        if database is None:
            raise UsageError(
                "which database the tables are in can't be told from the source DSN",
                "add dbname= to it, or write --table database.schema.table",
            )
        search_path = [schema for schema in ("pg_catalog", words.get("user"), "public") if schema is not None]
        return Asked(database, tables, search_path, self._with_children)
