"""Types of one width: booleans, integers, floats, dates, times, uuid."""

from __future__ import annotations

from collections.abc import Mapping

from walshadow_core.decode.columns import CodecMaker

CODECS: Mapping[int, CodecMaker] = {}
