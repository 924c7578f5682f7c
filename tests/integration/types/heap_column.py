"""A column of one type: written by the server, decoded out of its heap file, and printed by the server."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from walshadow_core.api import Attribute, Form, PgType, RelationDescriptor, RelFileLocator
from walshadow_core.decode.columns import DecodeOptions
from walshadow_core.decode.table import TableDecoder
from walshadow_core.pgformat.heap import PageWalker
from walshadow_core.testing.postgres import PostgresServer

PAGE_SIZE = 8192
PAGES = 128


@dataclass
class Column:
    """What was decoded, and what ``column::text`` gives for the same rows."""

    values: pa.ChunkedArray
    printed: list[str | None]

    def assert_same(self) -> None:
        """Every value is what the server prints."""
        values = self.values.to_pylist()
        assert len(values) == len(self.printed) > 0
        for mine, theirs in zip(values, self.printed, strict=True):
            assert mine == theirs


def pg_type(server: PostgresServer, name: str, database: str = "postgres") -> PgType:
    """A base type by its name."""
    with server.connect(database, client_encoding="UTF8") as connection:
        row = connection.execute(
            "select t.oid::int8, nspname, typname, typtype::text, typlen::int4, typalign::text, typbyval"
            " from pg_type t join pg_namespace n on n.oid = typnamespace where t.oid = %s::regtype",
            (name,),
        ).fetchone()
    assert row is not None
    return PgType(*row)


def written_column(
    server: PostgresServer,
    name: str,
    texts: Iterable[str | None],
    *,
    database: str = "postgres",
    form: Form = "own",
    type_: PgType | None = None,
    print_as: str = "v::text",
) -> Column:
    """Write the texts as a column of the type ``name``, in rows of one page each at most, and read it both ways."""
    of = type_ or pg_type(server, name, database)
    table = f"t_{uuid.uuid4().hex[:12]}"
    with server.connect(database, client_encoding="UTF8") as connection:
        connection.execute(f"create table {table} (v {name})")
        if of.length == -1:
            connection.execute(f"alter table {table} alter v set storage plain")
        with connection.cursor().copy(f"copy {table} from stdin") as copy:
            for text in texts:
                copy.write_row((text,))
        encoding = str(connection.execute("show server_encoding").fetchone()[0])  # type: ignore[index]
        printed = [row[0] for row in connection.execute(f"select {print_as} from {table}").fetchall()]
        connection.execute("checkpoint")
        path = connection.execute("select pg_relation_filepath(%s)", (table,)).fetchone()[0]  # type: ignore[index]
        pages = np.fromfile(server.data / path, np.uint8)
        connection.execute(f"drop table {table}")
    attribute = Attribute(
        1, "v", of.oid, name, -1, of.length, of.alignment, of.by_value, "p", False, type=of
    )  # fmt: skip
    relation = RelationDescriptor(
        oid=1, database=database, schema="public", name=table, locator=RelFileLocator(1663, 1, 1), kind="r",
        persistence="p", replica_identity="d", key=(), attributes=(attribute,), encoding=encoding,
    )  # fmt: skip
    decoder = TableDecoder(relation, DecodeOptions(), forms={"v": form})
    walker = PageWalker(PAGES)
    batches = []
    for start in range(0, pages.size, PAGES * PAGE_SIZE):
        part = pages[start : start + PAGES * PAGE_SIZE].copy()
        batches += decoder.append(part, walker.walk(part, start // PAGE_SIZE).data)
    last = decoder.finish()
    table_ = pa.Table.from_batches([*batches, *([last] if last else [])], decoder.schema)
    return Column(table_.column("v"), printed)
