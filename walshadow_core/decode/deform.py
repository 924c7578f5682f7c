"""Tuples to attribute positions: one pass over all attributes of every tuple."""

from __future__ import annotations

from typing import Final

KIND_NULL: Final = 0
KIND_VALUE: Final = 1
KIND_COMPRESSED: Final = 2
KIND_EXTERNAL: Final = 3
"""What an attribute of a tuple is (uint8)."""
