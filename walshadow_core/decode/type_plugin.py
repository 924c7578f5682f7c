"""Types that a plugin decodes (``api.TypeCodec``): its functions as a builder.

What a plugin gives is checked, as it is code of others: every array has its type, its length, and nulls just where
the rows have.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from walshadow_core.api import BadValue, Bytes, FormatError, StoredValues, TableRefused, WalshadowError
from walshadow_core.decode.columns import Codec, TypeUse
from walshadow_core.decode.deform import KIND_VALUE

Decode = Callable[[StoredValues], pa.Array]


class PluginColumn:
    """Builder of what a plugin's function gives."""

    def __init__(self, use: TypeUse, arrow: pa.DataType, decode: Decode) -> None:
        self._use = use
        self._arrow = arrow
        self._decode = decode
        self._chunks: list[pa.Array] = []

    @property
    def nbytes(self) -> int:
        """Bytes of values held."""
        return sum(chunk.nbytes for chunk in self._chunks)

    def append(self, buf: Bytes, offset: NDArray[np.int32], length: NDArray[np.int32], kind: NDArray[np.uint8]) -> None:
        """See ColumnBuilder."""
        readable = buf.view()
        readable.flags.writeable = False
        valid = kind == KIND_VALUE
        values = StoredValues(readable, offset, length, valid, self._use.typmod, self._use.encoding)
        try:
            chunk = self._decode(values)
        except (BadValue, WalshadowError):
            raise
        except Exception as error:
            raise self._wrong(f"{type(error).__name__}: {error}") from error
        if isinstance(chunk, pa.ChunkedArray):
            chunk = chunk.combine_chunks()
        if not isinstance(chunk, pa.Array) or chunk.type != self._arrow:
            raise self._wrong(f"it gave {getattr(chunk, 'type', type(chunk).__name__)}, not {self._arrow}")
        if len(chunk) != valid.size:
            raise self._wrong(f"it gave {len(chunk)} values for {valid.size}")
        given = np.ones(valid.size, bool) if chunk.null_count == 0 else chunk.is_valid().to_numpy(zero_copy_only=False)
        if not np.array_equal(given, valid):
            raise self._wrong("it gave nulls where there are values, or values where there are nulls")
        self._chunks.append(chunk)

    def finish(self) -> pa.Array:
        """See ColumnBuilder."""
        chunks, self._chunks = self._chunks, []
        return pa.concat_arrays(chunks) if chunks else pa.array([], self._arrow)

    def _wrong(self, reason: str) -> FormatError:
        known = self._use.type
        return FormatError(
            f'column "{self._use.column}": the plugin that decodes {known.schema}.{known.name} failed: '
            f"{' '.join(reason.split())}",
            "report it to its author",
        )


def own(use: TypeUse) -> Codec:
    """The codec of a type that has one of a plugin, in its own Arrow form."""
    codec = use.type.codec
    assert codec is not None
    return _codec(use, codec.arrow, codec.decode)


def text(use: TypeUse) -> Codec:
    """The same as its output function prints it. Raises TableRefused if the plugin does not do that."""
    codec = use.type.codec
    assert codec is not None
    if codec.text is not None:
        return _codec(use, pa.string(), codec.text)
    if codec.arrow == pa.string():
        return own(use)
    raise TableRefused(f'column "{use.column}": the plugin that decodes type {use.type.name} does not give it as text')


def _codec(use: TypeUse, arrow: pa.DataType, decode: Decode) -> Codec:
    return Codec(arrow, lambda: PluginColumn(use, arrow, decode))
