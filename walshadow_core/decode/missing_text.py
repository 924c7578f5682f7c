"""Missing values that are known as text alone: put in where a column is a string, when its array is made.

The type's own bytes can't be had from SQL (jsonb, tsvector…), so that the column's builder sees NULL for a tuple that
ends before the attribute, and the text takes the NULL's place afterwards.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from walshadow_core.api import Attribute, Bytes, Form, TableRefused
from walshadow_core.decode.columns import Codec, ColumnBuilder


def check_missing_text(attribute: Attribute, codec: Codec, form: Form) -> None:
    """Raises TableRefused where a column's form has no room for its missing value's text."""
    if attribute.missing_text is None or (pa.types.is_string(codec.arrow) and _is_output(attribute, form)):
        return
    raise TableRefused(
        f'column "{attribute.name}" was added with a default, of which only the text is known, and it is loaded in '
        f"another form than {attribute.type_name}'s text",
        f"load it as text with --type TABLE.{attribute.name}=String, or rewrite the table (VACUUM FULL)",
    )


def _is_output(attribute: Attribute, form: Form) -> bool:
    """Whether the strings of that form are what the type's output function prints."""
    by_plugin = attribute.type is not None and attribute.type.codec is not None
    return form == "text" or (form == "own" and not by_plugin)


class TextFilled:
    """A builder of strings in whose NULLs texts are put afterwards. ``note`` says which, after each append."""

    def __init__(self, builder: ColumnBuilder) -> None:
        self._builder = builder
        self._texts: list[str] = []
        self._codes: list[NDArray[np.int32]] = []
        self._more = 0

    def code(self, text: str) -> int:
        """The number of a text for ``note``."""
        self._texts.append(text)
        return len(self._texts) - 1

    @property
    def nbytes(self) -> int:
        """See ColumnBuilder."""
        return self._builder.nbytes + self._more

    def append(self, buf: Bytes, offset: NDArray[np.int32], length: NDArray[np.int32], kind: NDArray[np.uint8]) -> None:
        """See ColumnBuilder."""
        self._builder.append(buf, offset, length, kind)

    def note(self, missing: NDArray[np.bool_], code: int) -> None:
        """Of the values that were appended last, these are the text of that number; with the code -1 none is."""
        self._codes.append(np.where(missing, np.int32(code), np.int32(-1)))
        self._more += int(missing.sum()) * len(self._texts[code]) if code >= 0 else 0

    def finish(self) -> pa.Array:
        """See ColumnBuilder."""
        array = self._builder.finish()
        codes = np.concatenate(self._codes) if self._codes else np.empty(0, np.int32)
        self._codes, self._more = [], 0
        if not (codes >= 0).any():
            return array
        texts = pa.array(self._texts, array.type)
        return pc.coalesce(array, texts.take(pa.array(codes, mask=codes < 0)))
