"""Table names to relations, as a connection would look them up."""

from __future__ import annotations

from collections.abc import Sequence

from walshadow_core.api import FormatError
from walshadow_core.catalog.files.database import DatabaseCatalogs
from walshadow_core.catalog.files.encodings import is_written
from walshadow_core.catalog.names import QualifiedName, printable
from walshadow_core.catalog.refusals import no_schema, not_found

_HIDDEN_SCHEMAS = (b"pg_toast", b"pg_temp")
_TABLE_KINDS = "rpvmf"
_FIRST_NORMAL_OID = 16384


class Names:
    """The names of one database's relations. ``search_path`` are the schemas that a bare name is looked up in."""

    def __init__(self, catalogs: DatabaseCatalogs, namespaces: dict[int, bytes], search_path: Sequence[str]) -> None:
        self._catalogs = catalogs
        self._encoding = catalogs.database.encoding
        self._namespaces = namespaces
        self._search_path = search_path
        self._classes = catalogs.class_names()

    def find(self, name: QualifiedName) -> int | str:
        """The relation's oid, or why there is none."""
        if name.database not in (None, self._catalogs.database.name):
            return (
                f"it is in another database than {printable(self._catalogs.database.name)}; one load reads one database"
            )
        named = [(namespace, oid) for oid, namespace, stored, _ in self._classes if self._is(stored, name.name)]
        for schema in self._search_path if name.schema is None else [name.schema]:
            for namespace, oid in named:
                if self._is(self._namespaces.get(namespace, b""), schema):
                    return oid
        return self._not_found(name)

    def _is(self, stored: bytes, written: str) -> bool:
        return is_written(stored, self._encoding, written)

    def _not_found(self, name: QualifiedName) -> str:
        if name.schema is not None and not any(self._is(n, name.schema) for n in self._namespaces.values()):
            shown = [self._text(n) for n in self._namespaces.values() if not n.startswith(_HIDDEN_SCHEMAS)]
            return no_schema(name.schema, sorted(filter(None, shown)))
        place = "in the search_path" if name.schema is None else f"in schema {printable(name.schema)}"
        candidates = []
        for oid, namespace, stored, kind in self._classes:
            schema, table = self._text(self._namespaces.get(namespace, b"")), self._text(stored)
            near = schema == name.schema or (name.schema is None and schema in self._search_path)
            if oid >= _FIRST_NORMAL_OID and kind in _TABLE_KINDS and (near or table == name.name):
                candidates.append((not near, schema, table))
        return not_found(name.name, place, [(schema, table) for _, schema, table in sorted(candidates)])

    def _text(self, stored: bytes) -> str:
        """A name for a hint: empty if it is not valid text."""
        try:
            return self._catalogs.text(stored)
        except FormatError:
            return ""
