"""cube, of the extension of that name, as cube_out prints it.

On disk (``contrib/cube/cubedata.h``) a uint32 of dimensions, its highest bit set if the cube is a point, is followed
by the float8s of one corner, and unless it is a point by those of the other. A cube whose corners are equal is printed
as a point too.
"""

from __future__ import annotations

from collections.abc import Mapping

from walshadow_core.decode.columns import CodecMaker
from walshadow_core.decode.float_lists import CUBE, floats_maker

EXTENSION_CODECS: Mapping[str, CodecMaker] = {"cube": floats_maker(CUBE)}
"""This family's types, by name."""
