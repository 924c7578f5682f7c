"""Types of the datetime family."""

from __future__ import annotations

from collections.abc import Mapping

from walshadow_core.decode.columns import CodecMaker

CODECS: Mapping[int, CodecMaker] = {}
