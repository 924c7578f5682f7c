"""What the resource managers call themselves and their records (``access/rmgrlist.h``, the identify functions of
``access/rmgrdesc``): the words that pg_waldump prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

RMGRS: Final = (
    "XLOG", "Transaction", "Storage", "CLOG", "Database", "Tablespace", "MultiXact", "RelMap", "Standby", "Heap2",
    "Heap", "Btree", "Hash", "Gin", "Gist", "Sequence", "SPGist", "BRIN", "CommitTs", "ReplicationOrigin", "Generic",
    "LogicalMessage",
)  # fmt: skip
"""By resource manager id, 15 to 18."""

(XLOG, TRANSACTION, STORAGE, CLOG, DATABASE, TABLESPACE, MULTIXACT, RELMAP, STANDBY, HEAP2, HEAP) = range(11)
BRIN: Final = 17

FIRST_CUSTOM: Final = 128
"""RM_MIN_CUSTOM_ID: ids from here on belong to extensions (``access/rmgr.h``)."""

INIT: Final = 0x80
"""XLOG_HEAP_INIT_PAGE and XLOG_BRIN_INIT_PAGE."""


def _in_steps(*names: str, first: int = 0) -> dict[int, str]:
    """Names of the codes ``first``, ``first`` + 0x10, …; an empty one leaves its code out."""
    return {first + 0x10 * k: name for k, name in enumerate(names) if name}


def _with_init(names: Mapping[int, str], *codes: int) -> dict[int, str]:
    """These, and those of ``codes`` with the INIT bit."""
    return {**names, **{code | INIT: f"{names[code]}+INIT" for code in codes}}


_NAMES: Final[Mapping[str, Mapping[int, str]]] = {
    "XLOG": _in_steps(
        "CHECKPOINT_SHUTDOWN", "CHECKPOINT_ONLINE", "NOOP", "NEXTOID", "SWITCH", "BACKUP_END", "PARAMETER_CHANGE",
        "RESTORE_POINT", "FPW_CHANGE", "END_OF_RECOVERY", "FPI_FOR_HINT", "FPI", "", "OVERWRITE_CONTRECORD",
        "CHECKPOINT_REDO",
    ),
    "Transaction": _in_steps(
        "COMMIT", "PREPARE", "ABORT", "COMMIT_PREPARED", "ABORT_PREPARED", "ASSIGNMENT", "INVALIDATION"
    ),
    "Storage": _in_steps("CREATE", "TRUNCATE", first=0x10),
    "CLOG": _in_steps("ZEROPAGE", "TRUNCATE"),
    "Database": _in_steps("CREATE_FILE_COPY", "CREATE_WAL_LOG", "DROP"),
    "Tablespace": _in_steps("CREATE", "DROP"),
    "MultiXact": _in_steps("ZERO_OFF_PAGE", "ZERO_MEM_PAGE", "CREATE_ID", "TRUNCATE_ID"),
    "RelMap": _in_steps("UPDATE"),
    "Standby": _in_steps("LOCK", "RUNNING_XACTS", "INVALIDATIONS"),
    "Heap2": _with_init(
        _in_steps(
            "REWRITE", "PRUNE_ON_ACCESS", "PRUNE_VACUUM_SCAN", "PRUNE_VACUUM_CLEANUP", "VISIBLE", "MULTI_INSERT",
            "LOCK_UPDATED", "NEW_CID",
        ),
        0x50,
    ),
    "Heap": _with_init(
        _in_steps("INSERT", "DELETE", "UPDATE", "TRUNCATE", "HOT_UPDATE", "HEAP_CONFIRM", "LOCK", "INPLACE"),
        0x00, 0x20, 0x40,
    ),
    "Btree": _in_steps(
        "INSERT_LEAF", "INSERT_UPPER", "INSERT_META", "SPLIT_L", "SPLIT_R", "INSERT_POST", "DEDUP", "DELETE",
        "UNLINK_PAGE", "UNLINK_PAGE_META", "NEWROOT", "MARK_PAGE_HALFDEAD", "VACUUM", "REUSE_PAGE", "META_CLEANUP",
    ),
    "Hash": _in_steps(
        "INIT_META_PAGE", "INIT_BITMAP_PAGE", "INSERT", "ADD_OVFL_PAGE", "SPLIT_ALLOCATE_PAGE", "SPLIT_PAGE",
        "SPLIT_COMPLETE", "MOVE_PAGE_CONTENTS", "SQUEEZE_PAGE", "DELETE", "SPLIT_CLEANUP", "UPDATE_META_PAGE",
        "VACUUM_ONE_PAGE",
    ),
    "Gin": _in_steps(
        "CREATE_PTREE", "INSERT", "SPLIT", "VACUUM_PAGE", "DELETE_PAGE", "UPDATE_META_PAGE", "INSERT_LISTPAGE",
        "DELETE_LISTPAGE", "VACUUM_DATA_LEAF_PAGE", first=0x10,
    ),
    "Gist": _in_steps("PAGE_UPDATE", "DELETE", "PAGE_REUSE", "PAGE_SPLIT", "", "", "PAGE_DELETE", "ASSIGN_LSN"),
    "Sequence": _in_steps("LOG"),
    "SPGist": _in_steps(
        "ADD_LEAF", "MOVE_LEAFS", "ADD_NODE", "SPLIT_TUPLE", "PICKSPLIT", "VACUUM_LEAF", "VACUUM_ROOT",
        "VACUUM_REDIRECT", first=0x10,
    ),
    "BRIN": _with_init(
        _in_steps("CREATE_INDEX", "INSERT", "UPDATE", "SAMEPAGE_UPDATE", "REVMAP_EXTEND", "DESUMMARIZE"),
        0x00, 0x10, 0x20,
    ),
    "CommitTs": _in_steps("ZEROPAGE", "TRUNCATE"),
    "ReplicationOrigin": _in_steps("SET", "DROP"),
    "LogicalMessage": _in_steps("MESSAGE"),
}  # fmt: skip

_HEAP2_BEFORE_17: Final[Mapping[int, str]] = {0x10: "PRUNE", 0x20: "VACUUM", 0x30: "FREEZE_PAGE"}

_TRANSACTION_MASK: Final = 0x70
"""XLOG_XACT_OPMASK: bit 0x80 says that there is more to the record."""


def rmgr_name(rmgr: int) -> str:
    """The resource manager's name; ``custom128`` for one of an extension, as pg_waldump has it."""
    if rmgr < len(RMGRS):
        return RMGRS[rmgr]
    return f"custom{rmgr:03}" if rmgr >= FIRST_CUSTOM else f"unknown{rmgr}"


def record_name(rmgr: int, info: int, major: int) -> str:
    """What a record with this xl_info is called, ``UNKNOWN (c0)`` for one that nobody knows."""
    name = rmgr_name(rmgr)
    code = info & 0xF0
    if name == "Generic":
        return "Generic"
    if rmgr == TRANSACTION:
        code &= _TRANSACTION_MASK
    if rmgr == HEAP2 and major < 17 and code in _HEAP2_BEFORE_17:
        return _HEAP2_BEFORE_17[code]
    return _NAMES.get(name, {}).get(code, f"UNKNOWN ({info & 0xF0:x})")
