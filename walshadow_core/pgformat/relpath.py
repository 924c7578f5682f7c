"""Relation file names in a data directory (``common/relpath.h``)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from walshadow_core.api import RelFileLocator

DEFAULT_TABLESPACE = 1663
"""DEFAULTTABLESPACE_OID (``catalog/pg_tablespace_d.h``): ``base/``."""
GLOBAL_TABLESPACE = 1664
"""GLOBALTABLESPACE_OID: ``global/``."""

MAIN_FORK = "main"

_MAX_OID = 2**32 - 1
_MAX_SEGMENT = 0xFFFFFFFE
"""A segment has at least one block, so none has a larger number than the last block (``storage/block.h``)."""

_NUMBER = r"(?:0|[1-9][0-9]{0,9})"
_FILE = rf"(?P<number>{_NUMBER})(?:_(?P<fork>fsm|vm|init))?(?:\.(?P<segment>[1-9][0-9]{{0,9}}))?"
_PATH = re.compile(
    rf"(?:base/(?P<base_db>{_NUMBER})|global"
    rf"|pg_tblspc/(?P<spc>{_NUMBER})/PG_[0-9]+(?:\.[0-9]+)?_[0-9]+/(?P<spc_db>{_NUMBER}))/{_FILE}",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class RelationFile:
    """One file of a relation: which relation, fork (``main``, ``fsm``, ``vm``, ``init``) and segment (0, 1…)."""

    locator: RelFileLocator
    fork: str
    segment: int


def parse_relation_path(path: str) -> RelationFile | None:
    """What relation file a path in a data directory is; None if it is none, or a temporary relation's.

    Understands ``base/DB/N``, ``global/N`` and ``pg_tblspc/OID/PG_x_y/DB/N``, each with a fork suffix
    (``_fsm``) and a segment suffix (``.1``). Anything that Postgres would not write is None.
    """
    match = _PATH.fullmatch(path)
    if match is None:
        return None
    database = match["base_db"] or match["spc_db"]
    if match["spc"] is not None:
        tablespace = int(match["spc"])
    else:
        tablespace = GLOBAL_TABLESPACE if database is None else DEFAULT_TABLESPACE
    locator = RelFileLocator(tablespace, int(database or 0), int(match["number"]))
    segment = int(match["segment"] or 0)
    oids = (locator.tablespace, locator.database, locator.number)
    if max(oids) > _MAX_OID or locator.number == 0 or locator.tablespace == 0 or segment > _MAX_SEGMENT:
        return None
    if database is not None and locator.database == 0:
        return None
    return RelationFile(locator, match["fork"] or MAIN_FORK, segment)


def relation_path(locator: RelFileLocator, version_dir: str | None = None, segment: int = 0) -> str:
    """The path of a main fork's segment, relative to the data directory.

    ``version_dir`` is the folder's name that Postgres makes inside a tablespace (``PG_17_202406281``); it is needed
    for every tablespace but the two built-in ones: ValueError without.
    """
    if locator.tablespace == GLOBAL_TABLESPACE:
        folder = "global"
    elif locator.tablespace == DEFAULT_TABLESPACE:
        folder = f"base/{locator.database}"
    elif version_dir is None:
        raise ValueError(f"the path of {locator} needs the tablespace's version folder")
    else:
        folder = f"pg_tblspc/{locator.tablespace}/{version_dir}/{locator.database}"
    return f"{folder}/{locator.number}" + (f".{segment}" if segment else "")
