"""The values of one TOAST relation: chunks that the walk's workers took, put together when it has ended."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from walshadow_core.api import XID_ABORTED, XID_IN_PROGRESS, Bytes, FormatError, TransactionStatus
from walshadow_core.decode.toasted import MissingValue
from walshadow_core.pgformat.control import ControlFile
from walshadow_core.toast.chunks import (
    AT,
    EXTENT_BYTES,
    EXTENT_WORDS,
    KEY,
    LOW,
    MAX_CHUNK,
    SIZE,
    XMIN,
    ChunkWriter,
)
from walshadow_core.toast.index import ChunkIndex, Extents
from walshadow_core.visibility.spoolfile import MemoryBudget

WRITER_SHIFT: Final = np.uint64(48)
"""Above the place of an extent's bytes stands the number of the writer that has them."""
_PLACE: Final = np.uint64((1 << 48) - 1)
_PIECE: Final = 1 << 14
"""Extents that are read from a writer at a time."""


def check_chunk_size(control: ControlFile) -> None:
    """Raises FormatError for a cluster whose values are cut in other pieces than usual."""
    if control.toast_max_chunk_size != MAX_CHUNK:
        raise FormatError(
            f"the cluster cuts TOASTed values in chunks of {control.toast_max_chunk_size} bytes, not {MAX_CHUNK}",
            "it was built with another TOAST_MAX_CHUNK_SIZE, which is not supported",
        )


class ToastStore:
    """Chunks of one TOAST relation. Each worker takes a ``writer()``; when all have ended and transaction status is
    complete, ``fetch`` gives values; threads may share it then."""

    def __init__(self, budget: MemoryBudget, folder: Path, status: TransactionStatus) -> None:
        self._budget = budget
        self._folder = folder
        self._status = status
        self._writers: list[ChunkWriter] = []
        self._index: ChunkIndex | None = None
        self._lock = threading.Lock()

    def writer(self) -> ChunkWriter:
        """One more writer, for one thread."""
        with self._lock:
            writer = ChunkWriter(self._budget, self._folder)
            self._writers.append(writer)
        return writer

    def _complete(self) -> ChunkIndex:
        with self._lock:
            if self._index is None:
                self._index = ChunkIndex(self._pieces(), self._budget, self._folder)
            return self._index

    def _pieces(self) -> Iterator[Extents]:
        for number, writer in enumerate(self._writers):
            writer.flush()
            step = _PIECE * EXTENT_BYTES
            for at in range(0, writer.extents.size, step):
                data: Bytes = np.empty(min(step, writer.extents.size - at), np.uint8)
                writer.extents.read_into(at, data)
                extents = data.view(np.uint64).reshape(-1, EXTENT_WORDS)
                extents[:, AT] |= np.uint64(number) << WRITER_SHIFT
                yield self._not_aborted(extents)

    def _not_aborted(self, extents: Extents) -> Extents:
        """Those whose inserter has not aborted. One that is not known to have ended counts: the row that points to it
        may have been found committed by a page that was copied after pg_xact. XMIN becomes 0 where it has
        committed."""
        open_ = np.flatnonzero(extents[:, XMIN])
        if not len(open_):
            return extents
        xids, inverse = np.unique(extents[open_, XMIN], return_inverse=True)
        states = self._status.state(xids.astype(np.uint32))[inverse]
        extents[open_[states != XID_IN_PROGRESS], XMIN] = 0
        keep = np.ones(len(extents), np.bool_)
        keep[open_[states == XID_ABORTED]] = False
        return extents if keep.all() else extents[keep]

    def fetch(self, ids: NDArray[np.uint32], sizes: NDArray[np.int64]) -> Bytes:
        """The stored bytes of the values ``ids`` (ascending, no two alike), one after the other; ``sizes`` says how
        many each has. Raises MissingValue for one that is not there as a whole, FormatError, WalshadowError."""
        extents, bounds = self._complete().find(ids)
        starts = np.cumsum(sizes) - sizes
        out: Bytes = np.empty(int(sizes.sum()), np.uint8)
        keys = extents[:, KEY]
        seq = (keys & np.uint64(LOW)).astype(np.int64)
        chunks = (extents[:, SIZE] >> np.uint64(32)).astype(np.int64)
        filled = (extents[:, SIZE] & np.uint64(LOW)).astype(np.int64)
        owner = np.repeat(np.arange(len(ids)), np.diff(bounds))

        opens = np.ones(len(extents), np.bool_)
        opens[1:] = owner[1:] != owner[:-1]
        closes = np.ones(len(extents), np.bool_)
        closes[:-1] = opens[1:]
        expected = np.zeros(len(extents), np.int64)
        expected[1:] = seq[:-1] + chunks[:-1]
        expected[opens] = 0
        wrong = (seq != expected) | (~closes & (filled != chunks * MAX_CHUNK))
        totals = np.bincount(owner, filled, len(ids)).astype(np.int64)
        broken = totals != sizes
        broken[owner[wrong]] = True

        place = extents[:, AT]
        target = starts[owner] + seq * MAX_CHUNK
        for i in np.flatnonzero(broken).tolist():
            part = slice(int(bounds[i]), int(bounds[i + 1]))
            self._mend(i, extents[part], out[starts[i] : starts[i] + sizes[i]])
        if broken.any():
            sound = ~broken[owner]
            place, filled, target = place[sound], filled[sound], target[sound]
        self._copy(place, filled, target, out)
        return out

    def _copy(self, place: NDArray[np.uint64], size: NDArray[np.int64], target: NDArray[np.int64], out: Bytes) -> None:
        """Read pieces of the writers' data to their targets in ``out``, in the order of their places; those that lie
        and go side by side as one."""
        if not len(place):
            return
        order = np.argsort(place, kind="stable")
        place, size, target = place[order], size[order], target[order]
        step = size[:-1]
        apart = (place[1:] != place[:-1] + step.astype(np.uint64)) | (target[1:] != target[:-1] + step)
        first = np.concatenate(([0], np.flatnonzero(apart) + 1))
        length = np.add.reduceat(size, first)
        number, at = place[first] >> WRITER_SHIFT, place[first] & _PLACE
        for n, a, t, k in zip(number.tolist(), at.tolist(), target[first].tolist(), length.tolist(), strict=True):
            self._writers[n].data.read_into(a, out[t : t + k])

    def _mend(self, index: int, extents: Extents, out: Bytes) -> None:
        """Put value ``index`` together chunk by chunk, as its extents don't simply follow each other: a chunk may be
        there twice, as where pages were copied while vacuum freed its id and another value took it. What has committed
        goes before what may have. Raises MissingValue."""
        size = len(out)
        count = -(-size // MAX_CHUNK)
        have: dict[int, tuple[bool, bytes]] = {}
        for key, place, packed, xmin in extents.tolist():
            data: Bytes = np.empty(packed & LOW, np.uint8)
            self._writers[place >> int(WRITER_SHIFT)].data.read_into(place & int(_PLACE), data)
            for k in range(packed >> 32):
                seq, sure = (key & LOW) + k, xmin == 0
                chunk = data[k * MAX_CHUNK : (k + 1) * MAX_CHUNK].tobytes()
                known = have.get(seq)
                if known is None or (sure and not known[0]):
                    have[seq] = sure, chunk
                elif known[0] == sure and known[1] != chunk:
                    raise MissingValue(index, f"has two different chunks {seq}")
        for seq in range(count):
            if seq not in have:
                raise MissingValue(index, f"lacks chunk {seq} of {count}" if have else "is not there")
            chunk, wanted = have[seq][1], min(MAX_CHUNK, size - seq * MAX_CHUNK)
            if len(chunk) != wanted:
                raise MissingValue(index, f"has {len(chunk)} bytes, not {wanted}, in chunk {seq} of {count}")
            out[seq * MAX_CHUNK :][:wanted] = np.frombuffer(chunk, np.uint8)
        if len(have) > count:
            raise MissingValue(index, f"has {len(have)} chunks, not {count}")

    def close(self) -> None:
        """Free memory and files. May be called more than once."""
        for writer in self._writers:
            writer.close()
        if self._index is not None:
            self._index.close()
