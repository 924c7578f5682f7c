"""The chunk store: what it was given comes back whole, or the error says what is wrong with it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import walshadow_core.toast.index
from walshadow_core.api import (
    XID_ABORTED,
    XID_COMMITTED,
    XID_IN_PROGRESS,
    Bytes,
    FormatError,
    TupleHeaders,
    WalshadowError,
)
from walshadow_core.decode.toasted import MissingValue
from walshadow_core.pgformat.heap import (
    HEAP_MOVED_IN,
    HEAP_XMIN_COMMITTED,
    HEAP_XMIN_FROZEN,
    HEAP_XMIN_INVALID,
    PageWalk,
    TupleData,
)
from walshadow_core.toast.chunks import MAX_CHUNK, ChunkWriter
from walshadow_core.toast.store import ToastStore
from walshadow_core.visibility.spoolfile import MemoryBudget


@dataclass
class Chunk:
    """A tuple of a TOAST relation."""

    value: int
    seq: int
    data: bytes
    xmin: int = 700
    mask: int = HEAP_XMIN_COMMITTED

    @property
    def stored(self) -> bytes:
        """Its data; short ones with a short header, as Postgres writes them."""
        head = self.value.to_bytes(4, "little") + self.seq.to_bytes(4, "little", signed=True)
        if len(self.data) <= 126:
            return head + bytes((2 * len(self.data) + 3,)) + self.data
        return head + ((len(self.data) + 4) << 2).to_bytes(4, "little") + self.data


@dataclass
class Status:
    """Transaction status by a table; what is not in it has committed."""

    states: Mapping[int, int]
    complete: bool = True

    def state(self, xids: NDArray[np.uint32]) -> NDArray[np.uint8]:
        return np.array([self.states.get(x, XID_COMMITTED) for x in xids.tolist()], np.uint8)

    def updaters(self, multis: NDArray[np.uint32]) -> NDArray[np.uint32]:
        raise AssertionError("nobody asks who deleted a chunk")


def pages_of(chunks: Sequence[Chunk]) -> tuple[PageWalk, Bytes]:
    """The tuples one behind the other, at multiples of 8."""
    buf = bytearray(b"\xff" * 8)
    starts, ends = [], []
    for chunk in chunks:
        starts.append(len(buf))
        buf += chunk.stored
        ends.append(len(buf))
        buf += b"\xff" * (-len(buf) % 8)
    n = len(chunks)
    start, zeros = np.array(starts, np.int32), np.zeros(n, np.uint16)
    walk = PageWalk(
        start=start,
        data=TupleData(start, start, np.full(n, 3, np.int32), np.zeros(n, np.uint8), np.array(ends, np.int32)),
        headers=TupleHeaders(
            np.array([c.xmin for c in chunks], np.uint32), np.full(n, 12345, np.uint32),
            np.array([c.mask for c in chunks], np.uint16), zeros, zeros,
        ),
        block=np.arange(100, 100 + n).astype(np.uint32), offnum=np.arange(1, 1 + n).astype(np.uint16),
        max_lsn=0, pages=1, empty_pages=0, damage=(),
    )  # fmt: skip
    return walk, np.frombuffer(buf, np.uint8)


def add(writer: ChunkWriter, chunks: Sequence[Chunk]) -> None:
    walk, pages = pages_of(chunks)
    writer.add(walk, pages)


def cut(value: int, data: bytes, **more: int) -> list[Chunk]:
    """The chunks of a value."""
    return [
        Chunk(value, k, data[k * MAX_CHUNK : (k + 1) * MAX_CHUNK], **more) for k in range(-(-len(data) // MAX_CHUNK))
    ]


def fetch(store: ToastStore, wanted: Mapping[int, int]) -> dict[int, bytes]:
    """Values by id, of the sizes asked for."""
    ids = sorted(wanted)
    sizes = np.array([wanted[i] for i in ids], np.int64)
    data = store.fetch(np.array(ids, np.uint32), sizes)
    ends = np.cumsum(sizes).tolist()
    return {i: data[end - wanted[i] : end].tobytes() for i, end in zip(ids, ends, strict=True)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.mark.parametrize("limit", [0, 100_000, 1 << 30])
@pytest.mark.parametrize("small_runs", [False, True])
def test_values_come_back_whatever_the_order(
    folder: Path, limit: int, small_runs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if small_runs:
        for name, size in (("RUN", 64), ("SAMPLE", 4), ("PART", 16)):
            monkeypatch.setattr(walshadow_core.toast.index, name, size)
        monkeypatch.setattr(walshadow_core.toast.store, "_PIECE", 20)
    rng = random.Random(limit)
    ids = [*rng.sample(range(16384, 20000), 500), 1, 2**31, 2**32 - 1]
    values = {
        i: rng.randbytes(rng.choice([1, 40, 126, 127, 1000, MAX_CHUNK - 1, MAX_CHUNK, MAX_CHUNK + 1, 9999]))
        for i in ids
    }
    chunks = [c for i, data in values.items() for c in cut(i, data)]
    for k in range(0, len(chunks) - 50, 97):
        chunks[k : k + 50] = rng.sample(chunks[k : k + 50], 50)
    budget = MemoryBudget(limit)
    with closing(ToastStore(budget, folder, Status({}))) as store:
        writers = [store.writer() for _ in range(3)]
        for k in range(0, len(chunks), 40):
            add(writers[k // 40 % 2], chunks[k : k + 40])
        assert fetch(store, {i: len(data) for i, data in values.items()}) == values
        for _ in range(20):
            some = rng.sample(ids, 7)
            assert fetch(store, {i: len(values[i]) for i in some}) == {i: values[i] for i in some}
        assert fetch(store, {}) == {}
        assert budget.used <= limit
    assert budget.used == 0


def test_chunks_in_order_need_few_entries(folder: Path) -> None:
    with closing(ToastStore(MemoryBudget(1 << 30), folder, Status({}))) as store:
        writer = store.writer()
        data = random.Random(1).randbytes(3 * MAX_CHUNK * 100 + 5)
        add(writer, cut(5, data))
        writer.flush()
        assert writer.extents.size <= 32 * 3 * 6
        assert fetch(store, {5: len(data)}) == {5: data}


def test_what_did_not_commit(folder: Path) -> None:
    """A chunk counts unless its inserter is known to have aborted; who deleted it does not matter."""
    aborted, running, committed = 901, 902, 903
    status = Status({aborted: XID_ABORTED, running: XID_IN_PROGRESS})
    kept = [
        Chunk(1, 0, b"hinted"), Chunk(2, 0, b"frozen", aborted, HEAP_XMIN_FROZEN),
        Chunk(3, 0, b"running", running, 0), Chunk(4, 0, b"asked", committed, 0), Chunk(5, 0, b"permanent", 2, 0),
    ]  # fmt: skip
    gone = [Chunk(6, 0, b"x", aborted, 0), Chunk(7, 0, b"x", committed, HEAP_XMIN_INVALID), Chunk(8, 0, b"x", 0, 0)]
    with closing(ToastStore(MemoryBudget(1 << 30), folder, status)) as store:
        add(store.writer(), [*kept, *gone])
        assert fetch(store, {c.value: len(c.data) for c in kept}) == {c.value: c.data for c in kept}
        for chunk in gone:
            with pytest.raises(MissingValue, match="is not there"):
                fetch(store, {1: 6, chunk.value: 1})


def test_an_id_that_was_given_again(folder: Path) -> None:
    """The copy of the transaction that failed is ignored, wherever it is; two that count must agree."""
    old, new = b"o" * 5000, b"n" * 6000
    status = Status({901: XID_ABORTED, 902: XID_IN_PROGRESS})
    for chunks in (
        [*cut(1, old, xmin=901, mask=0), *cut(1, new)],
        [*cut(1, new), *cut(1, old, xmin=901, mask=0)],
        [*cut(1, new), *cut(1, old, xmin=5, mask=HEAP_XMIN_INVALID)],
        [*cut(1, new), *cut(1, old, xmin=902, mask=0)],
        [*cut(1, old, xmin=902, mask=0), *cut(1, new)],
        [*cut(1, new), *cut(1, new)],
        [*cut(1, new)[::-1], cut(1, new)[1]],
    ):
        with closing(ToastStore(MemoryBudget(1 << 30), folder, status)) as store:
            add(store.writer(), chunks)
            assert fetch(store, {1: len(new)}) == {1: new}
    with closing(ToastStore(MemoryBudget(1 << 30), folder, status)) as store:
        add(store.writer(), [*cut(1, old), *cut(1, new), *cut(2, b"fine")])
        assert fetch(store, {2: 4}) == {2: b"fine"}
        with pytest.raises(MissingValue, match="has two different chunks 0") as error:
            fetch(store, {1: len(new), 2: 4})
        assert error.value.index == 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda c: c[1:], "lacks chunk 0 of 4"),
        (lambda c: [c[0], *c[2:]], "lacks chunk 1 of 4"),
        (lambda c: c[:3], "lacks chunk 3 of 4"),
        (lambda c: [], "is not there"),
        (lambda c: [*c, Chunk(9, 4, b"more")], "has 5 chunks, not 4"),
        (lambda c: [*c[:3], Chunk(9, 3, b"short")], "has 5 bytes, not 12, in chunk 3 of 4"),
        (lambda c: [*c[:1], Chunk(9, 1, b"short"), *c[2:]], f"has 5 bytes, not {MAX_CHUNK}, in chunk 1 of 4"),
        (lambda c: [*c[:3], Chunk(9, 3, b"x" * 99)], "has 99 bytes, not 12, in chunk 3 of 4"),
    ],
)
def test_a_value_that_is_not_whole(folder: Path, change: object, reason: str) -> None:
    data = random.Random(3).randbytes(3 * MAX_CHUNK + 12)
    with closing(ToastStore(MemoryBudget(1 << 30), folder, Status({}))) as store:
        add(store.writer(), [*cut(8, b"before"), *change(cut(9, data)), *cut(10, b"after")])  # type: ignore[operator]
        with pytest.raises(MissingValue, match=f"^{reason}$") as error:
            fetch(store, {8: 6, 9: len(data), 10: 5})
        assert error.value.index == 1
        assert fetch(store, {8: 6, 10: 5}) == {8: b"before", 10: b"after"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\1\0\0\0",
        b"\1\0\0\0\0\0\0\0",
        b"\1\0\0\0\xff\xff\xff\xff\5a",
        b"\1\0\0\0\0\0\0\0\7a",
        b"\1\0\0\0\0\0\0\0\2\0\0\0",
    ],
)
def test_what_is_no_chunk(folder: Path, data: bytes) -> None:
    """Too short, a sequence number below 0, a length past the end, a compressed one."""
    walk, pages = pages_of([Chunk(1, 0, b"good"), Chunk(1, 1, b"x" * 40)])
    first = int(walk.data.data_start[1])
    pages = pages.copy()
    pages[first : first + len(data)] = np.frombuffer(data, np.uint8)
    walk.data.end[1] = first + len(data)
    with closing(ToastStore(MemoryBudget(0), folder, Status({}))) as store:
        with pytest.raises(FormatError, match="block 101, line pointer 2: not a TOAST chunk"):
            store.writer().add(walk, pages)
        with pytest.raises(FormatError, match=r"before Postgres 9\.0"):
            add(store.writer(), [Chunk(1, 0, b"moved", mask=HEAP_MOVED_IN)])


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with (
        closing(ToastStore(MemoryBudget(0), tmp_path / "none", Status({}))) as store,
        pytest.raises(WalshadowError, match="can't spool TOAST chunks to"),
    ):
        add(store.writer(), cut(1, bytes(1 << 20)))
