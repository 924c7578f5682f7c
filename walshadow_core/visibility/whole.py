"""Small files of a backup, taken whole: pg_control, segments of pg_xact and pg_multixact, pg_filenode.map."""

from __future__ import annotations

from walshadow_core.api import BackupFile, FormatError

_MAX_BYTES = 1 << 20
"""More than any of them has: segments have 256 KiB."""


def whole(file: BackupFile) -> bytes:
    """A small file's content. Raises FormatError for one that is too large to be one."""
    if file.size > _MAX_BYTES:
        raise FormatError(f"{file.path} has {file.size} bytes, which no such file has", "take another backup")
    return b"".join(map(bytes, file.chunks()))
