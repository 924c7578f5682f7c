"""point, lseg, box, line, circle, path, polygon as their output functions print them (``utils/adt/geo_ops.c``).

On disk (``utils/geo_decls.h``) they are float8s: pairs x, y for a point and for what has points; three
coefficients for a line; a point and a radius for a circle. Before the points of a path are three int32s: how many,
1 if it is closed, and a filler; before those of a polygon, how many and its bounding box.
"""

from __future__ import annotations

from collections.abc import Mapping

from walshadow_core.decode import type_oids as oid
from walshadow_core.decode.columns import CodecMaker
from walshadow_core.decode.float_lists import CIRCLE, LINE, LSEG, PATH, POINTS, POLYGON, floats_maker

CODECS: Mapping[int, CodecMaker] = {
    oid.POINT: floats_maker(POINTS),
    oid.BOX: floats_maker(POINTS),
    oid.LSEG: floats_maker(LSEG),
    oid.LINE: floats_maker(LINE),
    oid.CIRCLE: floats_maker(CIRCLE),
    oid.PATH: floats_maker(PATH),
    oid.POLYGON: floats_maker(POLYGON),
}
"""This family's types, by oid."""
