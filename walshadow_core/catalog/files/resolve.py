"""Table names to relations, as a connection would look them up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from walshadow_core.api import FormatError
from walshadow_core.catalog.files.database import DatabaseCatalogs
from walshadow_core.catalog.files.encodings import decoded, spelled
from walshadow_core.catalog.names import QualifiedName, printable
from walshadow_core.catalog.refusals import FIRST_NORMAL_OID, no_schema, not_found

_HIDDEN_SCHEMAS = ("pg_toast", "pg_temp")
_TABLE_KINDS = "rpvmf"
_MOST_CANDIDATES = 20_000


class Names:
    """The names of one database's relations, as far as ``wanted`` has them. ``search_path`` are the schemas that a
    bare name is looked up in."""

    def __init__(
        self,
        catalogs: DatabaseCatalogs,
        namespaces: dict[int, bytes],
        search_path: Sequence[str],
        wanted: Iterable[QualifiedName],
    ) -> None:
        self._catalogs = catalogs
        self._schemas = {oid: schema for oid, name in namespaces.items() if (schema := self._text(name))}
        self._search_path = search_path
        names = {self._spelled(name.name) for name in wanted}
        self._found: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for oid, namespace, stored, _ in catalogs.class_names():
            if (name := self._text(stored)) in names and namespace in self._schemas:
                self._found[name][self._schemas[namespace]] = oid

    def find(self, name: QualifiedName) -> int | str:
        """The relation's oid, or why there is none."""
        if name.database not in (None, self._catalogs.database.name):
            return (
                f"it is in another database than {printable(self._catalogs.database.name)}; one load reads one database"
            )
        named = self._found[self._spelled(name.name)]
        for schema in self._search_path if name.schema is None else [name.schema]:
            if (oid := named.get(self._spelled(schema))) is not None:
                return oid
        return self._not_found(name)

    def _not_found(self, name: QualifiedName) -> str:
        schemas = sorted(schema for schema in self._schemas.values() if not schema.startswith(_HIDDEN_SCHEMAS))
        if name.schema is not None and self._spelled(name.schema) not in self._schemas.values():
            return no_schema(name.schema, schemas)
        near = set(self._search_path) if name.schema is None else {name.schema}
        candidates = [
            (self._schemas.get(namespace, ""), self._text(stored))
            for oid, namespace, stored, kind in self._catalogs.class_names()
            if oid >= FIRST_NORMAL_OID and kind in _TABLE_KINDS
        ]
        likely = [(s not in near, s, table) for s, table in candidates if s in near or table == name.name]
        place = "in the search_path" if name.schema is None else f"in schema {printable(name.schema)}"
        return not_found(name.name, place, [(s, table) for _, s, table in sorted(likely)[:_MOST_CANDIDATES]])

    def _spelled(self, name: str) -> str:
        return spelled(name, self._catalogs.database.encoding)

    def _text(self, stored: bytes) -> str:
        """A name as text: empty if it is not valid, as then nobody can write it."""
        try:
            return decoded(stored, self._catalogs.database.encoding)
        except FormatError:
            return ""
