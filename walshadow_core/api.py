"""The one module that a plugin imports: hook markers, protocols, value types, errors.

Everything here is a value (frozen dataclasses, NumPy arrays, Arrow batches) or a protocol. Nothing here
does I/O, and nothing else of ``walshadow_core`` is part of the promise to plugin authors, but for the
contract suites in ``walshadow_core.testing``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import pluggy
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray
from pydantic import BaseModel

PROJECT = "walshadow"
"""pluggy's project name and the entry-point group of plugins."""

hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a function of a plugin as the implementation of the hook of the same name."""

Bytes = NDArray[np.uint8]
"""A byte buffer: C-contiguous, writable, one dimension."""


# --------------------------------------------------------------------------------------------- errors


class WalshadowError(Exception):
    """What went wrong in one line, and what to do about it. The command line prints it without a traceback.

    ``str()`` gives ``message`` and, where there is one, ``remedy`` after a semicolon.
    """

    exit_code = 1

    def __init__(self, message: str, remedy: str | None = None) -> None:
        super().__init__(message if remedy is None else f"{message}; {remedy}")
        self.message = message
        self.remedy = remedy


class UsageError(WalshadowError):
    """The caller asked for something that makes no sense: exit code 2, nothing was tried."""

    exit_code = 2


class FormatError(WalshadowError):
    """Bytes are not what the format says (rule 14). Names the file or relation, and the position."""


class SourceError(WalshadowError):
    """The source Postgres or the backup can't be read."""


class DestinationError(WalshadowError):
    """The destination refused or failed."""


class TableRefused(WalshadowError):
    """One table can't be loaded; the others of the pass can."""


# -------------------------------------------------------------------------------------- Postgres values


_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})", re.ASCII)


class Lsn(int):
    """A byte position in the WAL (64 bits). Prints as Postgres prints it: ``0/16B3748``."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Lsn:
        """``'0/16B3748'`` to an Lsn. Raises ValueError for anything else."""
        match = _LSN.fullmatch(text)
        if match is None:
            raise ValueError(f"not an LSN: {text!r}")
        return cls((int(match[1], 16) << 32) | int(match[2], 16))

    def __str__(self) -> str:
        return f"{int(self) >> 32:X}/{int(self) & 0xFFFFFFFF:X}"

    def __repr__(self) -> str:
        return f"Lsn('{self}')"


@dataclass(frozen=True, slots=True, order=True)
class RelFileLocator:
    """Where a relation's bytes are (``storage/relfilelocator.h``): three oids.

    ``tablespace`` is resolved (never 0); ``database`` is 0 for shared relations.
    """

    tablespace: int
    database: int
    number: int


@dataclass(frozen=True, slots=True)
class PgType:
    """A type as pg_type has it (``catalog/pg_type.h``), with all that its values are made of.

    ``schema`` and ``name`` are unquoted. ``kind`` is typtype (``b`` base, ``c`` composite, ``d`` domain, ``e`` enum,
    ``r`` range, ``m`` multirange, ``p`` pseudo). ``length`` and ``alignment`` as in Attribute, ``delimiter`` what
    stands between the elements of an array of it. ``element`` is that of a true array (typsubscript is
    array_subscript_handler), else None; ``base``, ``base_typmod`` and ``base_dimensions`` (typndims) a domain's;
    ``labels`` an enum's (oid, label) in sort order; ``fields`` a composite's attributes, dropped ones included;
    ``subtype`` a range's; ``range`` the range type that a multirange is made of. ``codec`` is how a plugin decodes it,
    where one does: the core asks for it once the catalog is read.
    """

    oid: int
    schema: str
    name: str
    kind: str
    length: int
    alignment: str
    by_value: bool
    delimiter: str = ","
    element: PgType | None = None
    base: PgType | None = None
    base_typmod: int = -1
    labels: tuple[tuple[int, str], ...] = ()
    fields: tuple[Attribute, ...] = ()
    subtype: PgType | None = None
    range: PgType | None = None
    codec: TypeCodec | None = field(default=None, compare=False)
    base_dimensions: int = 0


class BadValue(Exception):
    """A value that its type can't have. ``row`` is its index in the values that were given."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row
        self.reason = reason


@dataclass(frozen=True)
class StoredValues:
    """n values of one type as tuples store them, for a TypeCodec. Value i is buf[offset[i] : offset[i] + length[i]].

    The bytes of a varlena are those after its header, already decompressed; a type of fixed width has that many. What
    is aligned inside a varlena is aligned as if four bytes of header stood before. ``valid`` is False for a NULL,
    whose offset and length mean nothing. All ranges lie inside ``buf``, which is not to be written to and
    not to be kept. ``typmod`` is the column's type modifier (-1: none), ``encoding`` the database's (``UTF8``).
    """

    buf: Bytes
    offset: NDArray[np.int32]
    length: NDArray[np.int32]
    valid: NDArray[np.bool_]
    typmod: int
    encoding: str

    def fixed(self, dtype: DTypeLike) -> NDArray[Any]:
        """The values of a type of fixed width as an array of such elements, zero for NULL. Raises BadValue."""
        wanted = np.dtype(dtype)
        rows = np.flatnonzero(self.valid)
        wrong = rows[self.length[rows] != wanted.itemsize]
        if wrong.size:
            raise BadValue(int(wrong[0]), f"a value of {self.length[wrong[0]]} bytes, not {wanted.itemsize}")
        values = np.zeros(self.valid.size, wanted)
        places = self.offset[rows][:, None] + np.arange(wanted.itemsize)
        values.view(np.uint8).reshape(-1, wanted.itemsize)[rows] = self.buf[places]
        return values

    def payloads(self) -> Iterator[bytes | None]:
        """The bytes of each value, None for NULL: slow, and plain."""
        for valid, offset, length in zip(self.valid, self.offset, self.length, strict=True):
            yield self.buf[offset : offset + length].tobytes() if valid else None


@dataclass(frozen=True)
class TypeCodec:
    """How a plugin decodes one type (hook ``walshadow_type_codec``).

    ``decode`` gives an array of type ``arrow`` with one element per value, null where the value is. It is called
    with some thousands of values at a time and from several threads, and raises BadValue for bytes that the type
    can't have. ``text`` gives them as strings, as the type's output function prints them: where it is None, the
    type can't be asked for as text, unless ``arrow`` is a string. ``suggested_type`` is what a column of it should be
    at the destination, in the destination's own words (``Decimal(18, 4)``); None: what fits ``arrow``.
    """

    arrow: pa.DataType
    decode: Callable[[StoredValues], pa.Array]
    text: Callable[[StoredValues], pa.Array] | None = None
    suggested_type: str | None = None


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of a relation as pg_attribute has it, dropped ones included (``catalog/pg_attribute.h``).

    ``length`` is attlen: bytes, or -1 for varlena, -2 for a C string. ``alignment`` is attalign
    (``c s i d``), ``storage`` attstorage (``p e m x``), ``generated`` attgenerated (``''``, ``s`` stored,
    ``v`` virtual). ``type_name`` is what format_type prints: ``numeric(10,2)``. ``missing`` is the value
    (attmissingval) of a tuple that ends before this attribute, in its on-disk form without varlena header;
    None: such a tuple has NULL there. Where a type's on-disk form can't be had from SQL, ``missing_text`` is that
    value as the type's output function prints it, and ``missing`` None. ``dimensions`` is attndims. ``type`` is
    None for a dropped attribute.
    """

    number: int
    name: str
    type_oid: int
    type_name: str
    typmod: int
    length: int
    alignment: str
    by_value: bool
    storage: str
    not_null: bool
    dropped: bool = False
    generated: str = ""
    missing: bytes | None = None
    missing_text: str | None = None
    dimensions: int = 0
    type: PgType | None = None


@dataclass(frozen=True, slots=True)
class RelationDescriptor:
    """All that is needed to decode and route one relation (DESIGN: Catalog).

    ``kind`` is relkind, ``persistence`` relpersistence, ``replica_identity`` relreplident. ``key`` holds the
    attribute numbers of the key, in index order; empty for a table without one. ``attributes`` are in
    attribute number order and without gaps, dropped ones included. ``encoding`` is the database's
    (``UTF8``, ``LATIN1``, ``SQL_ASCII``…), ``size_bytes`` the main fork's size when the catalog was read.

    A partition root, and a table that was asked for with those that inherit from it, has the relations that have its
    rows in ``leaves`` (each a whole descriptor, itself without leaves): those below it in oid order, and first such
    a parent itself. Where their rows need it to be told apart, ``system`` holds ``tableoid`` (number -6), and the key
    ends with it. ``excluded`` holds the numbers of attributes that the user leaves out.
    """

    oid: int
    database: str
    schema: str
    name: str
    locator: RelFileLocator
    kind: str
    persistence: str
    replica_identity: str
    key: tuple[int, ...]
    attributes: tuple[Attribute, ...]
    encoding: str
    toast_oid: int = 0
    toast_locator: RelFileLocator | None = None
    size_bytes: int = 0
    leaves: tuple[RelationDescriptor, ...] = ()
    system: tuple[Attribute, ...] = ()
    excluded: frozenset[int] = frozenset()

    @property
    def qualified_name(self) -> str:
        """``schema.name``, unquoted, for people."""
        return f"{self.schema}.{self.name}"

    @property
    def stored(self) -> tuple[RelationDescriptor, ...]:
        """The relations whose files hold the rows: the leaves, or the relation itself. None for a partition root
        without leaves."""
        return self.leaves if self.leaves or self.kind == "p" else (self,)

    @property
    def columns(self) -> tuple[Attribute, ...]:
        """The attributes that are loaded: neither dropped nor virtual nor left out; then the system ones."""
        own = (a for a in self.attributes if not a.dropped and a.generated != "v" and a.number not in self.excluded)
        return (*own, *self.system)

    @property
    def key_names(self) -> tuple[str, ...]:
        """Names of the key's columns, in index order."""
        by_number = {a.number: a.name for a in (*self.attributes, *self.system)}
        return tuple(by_number[n] for n in self.key)


# ------------------------------------------------------------------------------------------ row batches

LSN_COLUMN = "_lsn"
XID_COLUMN = "_xid"
COMMIT_TS_COLUMN = "_commit_ts"
DELETED_COLUMN = "_is_deleted"

META_FIELDS: tuple[pa.Field, ...] = (
    pa.field(LSN_COLUMN, pa.uint64(), nullable=False),
    pa.field(XID_COLUMN, pa.uint32(), nullable=False),
    pa.field(COMMIT_TS_COLUMN, pa.timestamp("us", "UTC"), nullable=False),
    pa.field(DELETED_COLUMN, pa.bool_(), nullable=False),
)
"""The four columns after a table's own in every row batch (DESIGN: Columns, not rows)."""

# Values that Postgres has and Arrow has no room for travel as these raw values; a destination asks for them.
DATE_INFINITY = 2**31 - 1
DATE_NEG_INFINITY = -(2**31)
"""Raw date32 values (days since 1970-01-01) of Postgres's ``infinity`` and ``-infinity``."""
TIMESTAMP_INFINITY = 2**63 - 1
TIMESTAMP_NEG_INFINITY = -(2**63)
"""Raw timestamp[us] values (microseconds since 1970-01-01) of ``infinity`` and ``-infinity``. Finite values
after 294247-01-10 (Postgres goes to 294276) are held at TIMESTAMP_INFINITY - 1."""
DECIMAL_NAN_128 = -(2**127)
DECIMAL_NAN_256 = -(2**255)
"""Raw unscaled decimal128 / decimal256 values of numeric ``NaN`` (a numeric(p,s) can't hold infinities)."""


# ----------------------------------------------------------------------------------------- backup source


@dataclass(frozen=True)
class BackupRequest:
    """What a pass wants of a backup. ``locators`` is the filter set, its TOAST relations included;
    a source may use it to skip what can't matter, the core filters again in any case. ``everything``: the catalog is
    to be read from the backup too, and which files that takes is not known beforehand, so nothing may be skipped."""

    locators: frozenset[RelFileLocator]
    label: str = "walshadow"
    everything: bool = False


@dataclass(frozen=True)
class BackupStart:
    """Facts known when a backup begins. ``b_redo`` is its redo (start) LSN. ``tablespaces`` maps a tablespace
    oid to its path at the source. ``size_estimate`` is in bytes over all parts, None if unknown."""

    b_redo: Lsn
    timeline: int
    system_identifier: int
    server_version: int
    tablespaces: Mapping[int, str] = field(default_factory=dict)
    size_estimate: int | None = None


@dataclass(frozen=True)
class BackupEnd:
    """Facts known when every part was read. ``b_end`` is the LSN at which the backup is consistent."""

    b_end: Lsn
    timeline: int


class BackupFile(Protocol):
    """One file of a backup. ``path`` is relative to the data directory, with ``/``, normalised:
    ``base/16384/16387.1``, ``pg_xact/0000``, ``pg_tblspc/16470/PG_17_202406281/16384/16471``."""

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int:
        """Bytes that ``chunks()`` will give."""
        ...

    def chunks(self) -> Iterator[memoryview]:
        """The content, in order, in pieces of any size. A piece is valid until the next one is taken.
        Files are read in the order they come; one whose chunks are not taken is skipped."""
        ...


@runtime_checkable
class FillingFile(BackupFile, Protocol):
    """A BackupFile that can put its content where it is wanted, with a copy less. Of ``chunks()`` and ``fill()`` one is
    used for a file, not both."""

    def fill(self, view: memoryview) -> int:
        """Put the next content into ``view``, as much as it holds; gives how many bytes, less only at the end."""
        ...


class BackupPart(Protocol):
    """An independent unit of a backup (BASE_BACKUP has one, a wal-g backup one per tar)."""

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int | None:
        """Bytes to be read for this part, None if unknown."""
        ...

    @property
    def paths(self) -> frozenset[str] | None:
        """The paths that it may contain, None if it does not know. Lets the core skip it unread."""
        ...

    @property
    def bytes_read(self) -> int:
        """Bytes read of this part so far, for the progress display."""
        ...

    def files(self) -> Iterator[BackupFile]:
        """The files, once. Raises SourceError or FormatError."""
        ...


class Backup(Protocol):
    """An open backup."""

    @property
    def start(self) -> BackupStart: ...

    def parts(self) -> Sequence[BackupPart]: ...

    def end(self) -> BackupEnd:
        """The end facts. Call it after every part was read to its end. Raises SourceError."""
        ...


class BackupSource(Protocol):
    """Where backups come from."""

    def preflight(self) -> None:
        """Look whether a backup could be had, without starting one. Raises SourceError with the remedy."""
        ...

    def open(self, request: BackupRequest) -> AbstractContextManager[Backup]:
        """Start the backup. Leaving the context early, by an error or Ctrl-C, ends it at the source."""
        ...


@dataclass(frozen=True, slots=True)
class WalPiece:
    """Some bytes of WAL as they were streamed: ``data`` is valid for good, and begins at ``start``."""

    start: Lsn
    data: bytes


class WalStream(Protocol):
    """A live stream of WAL, read by a thread of its own; what is read and not taken yet is bounded."""

    @property
    def start(self) -> Lsn:
        """Where the first piece begins: a segment's start."""
        ...

    @property
    def opened_at(self) -> Lsn:
        """How far the server's WAL had come when the stream was opened."""
        ...

    @property
    def segment_size(self) -> int: ...

    @property
    def system_identifier(self) -> int: ...

    @property
    def timeline(self) -> int:
        """That of the piece that was taken last; it may grow at a standby that is promoted."""
        ...

    def take(self, timeout: float) -> WalPiece | None:
        """The next piece; None if none came within ``timeout`` seconds. Raises SourceError once it has ended."""
        ...

    def confirm(self, position: Lsn) -> None:
        """Tell the server that WAL before ``position`` is not needed again. Sent with the next status update."""
        ...


@runtime_checkable
class WalStreamSource(Protocol):
    """A backup source that can also stream the WAL of the server that it backs up."""

    def stream(self, slot: str | None = None, start: Lsn | None = None) -> AbstractContextManager[WalStream]:
        """Stream the WAL, from the last checkpoint's redo position or earlier, or from ``start``; over the named
        physical slot, which must be there, or a temporary one that ends with the connection. Raises SourceError."""
        ...


class WalFetcher(Protocol):
    """Where WAL comes from: archived segments by name."""

    def segment(self, timeline: int, name: str) -> bytes | None:
        """The bytes of one WAL segment, None if the archive does not have it."""
        ...


# -------------------------------------------------------------------------------------------- visibility


@dataclass(frozen=True)
class TupleHeaders:
    """What decides whether tuples are rows (``access/htup_details.h``): arrays of one length.
    ``ctid_offset`` is ip_posid of t_ctid; 0xfffe marks a speculative insertion."""

    xmin: NDArray[np.uint32]
    xmax: NDArray[np.uint32]
    infomask: NDArray[np.uint16]
    infomask2: NDArray[np.uint16]
    ctid_offset: NDArray[np.uint16]


GATED, EMIT, DEFER = 0, 1, 2
"""Decisions of a resolver: not a row; a row; can't be told until transaction status is complete."""

XID_IN_PROGRESS, XID_COMMITTED, XID_ABORTED, XID_SUB_COMMITTED = 0, 1, 2, 3
"""Transaction states, as pg_xact codes them (``access/clog.h``)."""


class TransactionStatus(Protocol):
    """Transaction status as of the pass's moment."""

    @property
    def complete(self) -> bool:
        """False while the walk goes on: the look-ups below may only be called once this is True."""
        ...

    def state(self, xids: NDArray[np.uint32]) -> NDArray[np.uint8]:
        """XID_* per xid. Raises FormatError for one whose status was truncated away."""
        ...

    def updaters(self, multis: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """The updating member per multixact, 0 where all members are lockers. Raises FormatError, naming
        the remedies, for one whose members are not known."""
        ...


class VisibilityResolver(Protocol):
    """The gate."""

    def decide(self, headers: TupleHeaders) -> NDArray[np.uint8]:
        """GATED, EMIT or DEFER per tuple; DEFER only while the status is not complete."""
        ...


# -------------------------------------------------------------------------------------------- destination


Form = Literal["own", "text", "hex"]
"""How a column's values come: in its type's own Arrow form; as strings that the type's output function prints (what
``column::text`` gives); as strings of the stored bytes in lower-case hex, which every type has, known or not."""


@dataclass(frozen=True)
class ColumnPlan:
    """How one source column lands: the destination's name and type for it, and whether it may be NULL there.
    ``form`` is what the destination wants to be given."""

    attribute: Attribute
    name: str
    type: str
    nullable: bool
    form: Form = "own"


HEX = "hex"
"""The word for a type in ColumnChoice that asks for ``form="hex"``."""


@dataclass(frozen=True)
class ColumnChoice:
    """What the user chose for one column: the destination's type (or HEX), and whether it may be NULL there; None:
    as the destination sees fit."""

    type: str | None = None
    nullable: bool | None = None


NO_CHOICES: Mapping[str, ColumnChoice] = MappingProxyType({})
"""The destination sees fit for every column."""


@dataclass(frozen=True)
class TablePlan:
    """How one source table lands. ``create_sql`` is the statement that makes the table where there is none
    (for people, and for ``--dry-run``); ``exists`` whether one is there; ``warnings`` are for the user, once;
    ``private`` is the destination's own. ``table`` and ``staging`` are names without the database."""

    relation: RelationDescriptor
    table: str
    staging: str
    exists: bool
    columns: tuple[ColumnPlan, ...]
    create_sql: str
    warnings: tuple[str, ...] = ()
    private: Any = None


@dataclass
class WriteStats:
    """What a staging writer has written. ``adjusted`` counts, per column, values that the destination can't
    hold and that its policy changed."""

    rows: int = 0
    bytes: int = 0
    adjusted: dict[str, int] = field(default_factory=dict)


class StagingWriter(Protocol):
    """Fills the staging table of one plan. One thread at a time calls it, but for ``abort()``."""

    @property
    def stats(self) -> WriteStats: ...

    def write(self, batch: pa.RecordBatch) -> None:
        """Take one batch: the plan's columns in order, then META_FIELDS. May return before it is durable, may
        wait for earlier ones (bounded). Raises DestinationError, then or at a later call."""
        ...

    def finish(self) -> None:
        """Wait until all that was written is durable in staging. Raises DestinationError."""
        ...

    def abort(self) -> None:
        """End what is in flight, for certain, and drop the staging table. Never raises for what is gone.

        Another thread may call it while a write() or finish() waits or works: that call then raises
        DestinationError soon, every later write() and finish() at once, and nothing is left of staging, nor
        comes there afterwards. Bounded in time, whatever the other end does."""
        ...


@dataclass(frozen=True)
class RowDigests:
    """A stretch of one side's rows for `verify`: ``key`` and ``row`` are 16-byte digests, sorted by (key, row);
    ``label`` is a printable form of the key."""

    key: pa.Array
    row: pa.Array
    label: pa.Array


@dataclass(frozen=True)
class Comparison:
    """What `verify` needs of a destination for one table: the SQL that gives the source's side, and the
    destination's own side.

    ``source_settings`` are GUCs that the source session must have. ``source_summary_sql`` gives one row:
    count, and an order-independent checksum as text. ``source_rows_sql`` gives (key digest, row digest, label)
    ordered by the first two, digests as hex text. ``source_adjusted_sql`` gives one row with, per name in
    ``adjusted_columns``, how many values the destination's policy changes. ``left_out`` names the source's columns
    that are not compared, each with the reason."""

    source_settings: Mapping[str, str]
    source_summary_sql: str
    source_rows_sql: str
    source_adjusted_sql: str | None
    adjusted_columns: tuple[str, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)


class Destination(Protocol):
    """Where rows go. The order of the publish steps is the core's; a destination only carries them out."""

    @property
    def display_url(self) -> str:
        """The URL without secrets."""
        ...

    def plan(
        self,
        relation: RelationDescriptor,
        table: str,
        *,
        replace: bool = False,
        choices: Mapping[str, ColumnChoice] = NO_CHOICES,
    ) -> TablePlan:
        """How ``relation`` would land in ``table``. Changes nothing. ``choices`` are the user's, by the name of a
        column in ``relation.columns``. Raises TableRefused (naming columns) if a chosen type can't hold the source's
        values or is not known here, if an existing table can't hold the source's columns, or has rows that are not
        ours and ``replace`` is False."""
        ...

    def create_staging(self, plan: TablePlan) -> StagingWriter:
        """Drop a staging table that an earlier attempt left, make it anew, open a writer on it."""
        ...

    def fingerprint(self, table: str) -> tuple[tuple[str, str], ...] | None:
        """Name and type of each column by position; None if there is no such table."""
        ...

    def storage_id(self, table: str) -> str | None:
        """What follows a table's storage through an exchange (a uuid); None if there is no such table."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Rename ``source`` to ``target``, which does not exist. Atomic."""
        ...

    def exchange(self, first: str, second: str) -> None:
        """Swap two tables. Atomic; never retried blindly."""
        ...

    def copy_back(self, source: str, target: str, after: Lsn) -> int:
        """Insert the rows of ``source`` with _lsn > ``after`` into ``target``; gives their count."""
        ...

    def truncate(self, table: str) -> None: ...

    def drop(self, table: str) -> None:
        """Drop it if it is there."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class ComparableDestination(Protocol):
    """A destination that `walshadow verify` can read back."""

    def comparison(self, relation: RelationDescriptor, table: str) -> Comparison:
        """The source's side of a comparison, as SQL for Postgres."""
        ...

    def comparison_summary(self, relation: RelationDescriptor, table: str) -> tuple[int, str]:
        """Count and order-independent checksum of the rows that a reader sees."""
        ...

    def comparison_rows(self, relation: RelationDescriptor, table: str) -> Iterator[RowDigests]:
        """All rows that a reader sees, in order, streamed."""
        ...


# ----------------------------------------------------------------------------------------------- plugins


@dataclass(frozen=True)
class PluginInfo:
    """What a plugin says of itself. ``modes`` are the words of ``initial_load`` and ``--from`` that it answers
    to, ``schemes`` the URL schemes. ``settings`` is a pydantic model with a description per field."""

    name: str
    summary: str
    modes: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ()
    resolvers: tuple[str, ...] = ()
    fetchers: tuple[str, ...] = ()
    settings: type[BaseModel] | None = None
