"""A table is a folder: ``part-*.parquet`` files and ``_walshadow.json``. Here is all that touches folders.

A folder that is being filled, copied or removed holds a file ``_walshadow.incomplete``, made before anything
else and removed last. Such a folder is no table, whatever is in it: so a program killed half-way leaves nothing
that looks like one.
"""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem

from walshadow_core.api import DestinationError, UsageError, WalshadowError
from walshadow_sink_parquet.settings import PREFIX

MARK, INCOMPLETE = "_walshadow.json", "_walshadow.incomplete"
Columns = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class TableMark:
    """The content of ``_walshadow.json``. ``storage_id`` stays with the folder through renames; ``columns`` are
    name and Arrow type, by position; ``source`` is the table in Postgres."""

    storage_id: str
    columns: Columns
    source: str
    made_by: str = "walshadow-sink-parquet"

    @classmethod
    def new(cls, schema: pa.Schema, source: str) -> TableMark:
        """The mark of a table made now."""
        return cls(str(uuid.uuid4()), columns_of(schema), source)


def columns_of(schema: pa.Schema) -> Columns:
    """Name and type of each column, by position."""
    return tuple((f.name, str(f.type)) for f in schema)


@contextmanager
def errors(what: str) -> Iterator[None]:
    """Whatever a file system raises becomes a DestinationError: file systems of fsspec raise all kinds."""
    try:
        yield
    except WalshadowError:
        raise
    except Exception as error:
        raise DestinationError(f"{what}: {' '.join(str(error).split()) or type(error).__name__}") from error


class Folders:
    """The folders under one root, on one file system."""

    def __init__(self, url: str, storage_options: dict[str, Any]) -> None:
        """``url`` is ``parquet+PROTOCOL://…``. Raises UsageError for a protocol that fsspec does not have, or
        lacks a package for."""
        inner = url[len(PREFIX) :]
        self.display_url = PREFIX + _without_secrets(inner)
        try:
            self.fs, root = fsspec.core.url_to_fs(inner, **storage_options)
        except (ValueError, ImportError) as error:
            raise UsageError(f"{self.display_url}: {error}") from error
        self.root = root.rstrip("/")
        self._renames = isinstance(self.fs, LocalFileSystem)

    def path(self, table: str) -> str:
        """The folder of a table. What could mean something to a file system or to fsspec is %-encoded."""
        name = quote(table, safe=" ")
        return f"{self.root}/{'%2E' + name[1:] if name.startswith('.') else name}"

    def files(self, table: str) -> list[str]:
        """Paths of the files of a table, sorted; none if there is no folder or it is incomplete."""
        found = self._entries(table, "file")
        return [] if f"{self.path(table)}/{INCOMPLETE}" in found else found

    def is_foreign(self, table: str) -> bool:
        """Whether there is something in the folder, and no mark of ours."""
        return self.has_folders(table) or (bool(self.files(table)) and self.mark(table) is None)

    def has_folders(self, table: str) -> bool:
        """Whether there are folders in a table's folder: never of ours, and never removed."""
        return bool(self._entries(table, "directory"))

    def parts(self, table: str) -> list[str]:
        """Paths of the Parquet files of a table, sorted."""
        return [f for f in self.files(table) if f.endswith(".parquet")]

    def part(self, table: str, number: int) -> str:
        """The path of one part."""
        return f"{self.path(table)}/part-{number:05d}.parquet"

    def mark(self, table: str) -> TableMark | None:
        """The mark of a table of ours, None for any other folder or none."""
        path = f"{self.path(table)}/{MARK}"
        if path not in self.files(table):
            return None
        content = json.loads(self.fs.cat_file(path))
        columns = tuple((name, type_) for name, type_ in content.pop("columns"))
        return TableMark(columns=columns, **content)

    def begin(self, table: str) -> None:
        """An empty, incomplete folder in place of what was there."""
        self.remove(table)
        self.fs.makedirs(self.path(table), exist_ok=True)
        self.fs.pipe_file(f"{self.path(table)}/{INCOMPLETE}", b"")

    def complete(self, table: str, mark: TableMark) -> None:
        """Make an incomplete folder a table."""
        self.fs.pipe_file(f"{self.path(table)}/{MARK}", json.dumps(asdict(mark), indent=2).encode())
        self.fs.rm_file(f"{self.path(table)}/{INCOMPLETE}")

    def columns(self, table: str) -> Columns | None:
        """Name and type of each column; of a folder that is not ours, as its first Parquet file has them."""
        if mark := self.mark(table):
            return mark.columns
        parts = self.parts(table)
        return columns_of(pq.read_schema(parts[0], filesystem=self.fs)) if parts else None

    def remove(self, table: str) -> None:
        """Remove a folder if it is there: file by file, and never what is in folders inside it. (The recursive
        removal of fsspec takes ``*`` and ``?`` in a path for patterns.)"""
        folder = self.path(table)
        if found := self._entries(table, "file"):
            incomplete = f"{folder}/{INCOMPLETE}"
            self.fs.pipe_file(incomplete, b"")
            for path in found:
                if path != incomplete:
                    self.fs.rm_file(path)
            self.fs.rm_file(incomplete)
        self.fs.invalidate_cache()
        if self.fs.isdir(folder):
            self.fs.rmdir(folder)

    def move(self, source: str, target: str) -> None:
        """Rename a folder to a name that no table has. Atomic on a local file system; elsewhere the target is
        copied, and a table once it is whole, and then the source is removed."""
        if self.files(target) or self.is_foreign(target):
            raise DestinationError(f"{self.path(target)} is there already")
        if self._renames:
            self.remove(target)
            self.fs.mv(self.path(source), self.path(target))
            return
        self.begin(target)
        for path in self.files(source):
            self.fs.cp_file(path, f"{self.path(target)}/{path.rsplit('/', 1)[1]}")
        self.fs.rm_file(f"{self.path(target)}/{INCOMPLETE}")
        self.remove(source)

    @contextmanager
    def new_part(self, table: str) -> Iterator[Any]:
        """A file to write one more part of a finished table to; it is there when the block has ended well."""
        taken = self.parts(table)
        path = next(p for n in itertools.count(len(taken)) if (p := self.part(table, n)) not in taken)
        with self.fs.open(path + ".new", "wb") as handle:
            yield handle
        if self._renames:
            self.fs.mv(path + ".new", path)
        else:
            self.fs.cp_file(path + ".new", path)
            self.fs.rm_file(path + ".new")

    def _entries(self, table: str, kind: str) -> list[str]:
        self.fs.invalidate_cache()
        folder = self.path(table)
        if not self.fs.isdir(folder):
            return []
        return sorted(e["name"] for e in self.fs.ls(folder, detail=True) if e["type"] == kind)


def _without_secrets(url: str) -> str:
    """``url`` without password and query."""
    words = urlsplit(url)
    user, at, host = words.netloc.rpartition("@")
    return urlunsplit((words.scheme, f"{user.partition(':')[0]}{at}{host}", words.path, "", ""))
