"""Varlena headers on a little-endian machine, and TOAST pointers (``varatt.h``).

A stored varlena begins with one of four headers: one byte with the lowest bit set (short: up to 126 bytes
follow); that byte alone being 1 (external: a tag, then a pointer); four bytes with the two lowest bits 00 (plain) or
10 (compressed in line). Lengths count the header. Only the four-byte forms are aligned.
"""

from __future__ import annotations

import numpy as np

HEADER_SIZE = 4
"""VARHDRSZ."""
SHORT_HEADER_SIZE = 1
"""VARHDRSZ_SHORT."""
EXTERNAL_HEADER_SIZE = 2
"""VARHDRSZ_EXTERNAL: the marker byte and the tag."""
COMPRESSED_HEADER_SIZE = 8
"""VARHDRSZ_COMPRESSED: the length word, then the raw size and the method (va_tcinfo)."""

SHORT_BIT = 0x01
"""Set in the first byte of a short header, and of an external one."""
EXTERNAL_MARKER = 0x01
"""The first byte of an external datum, as a whole."""
COMPRESSED_BIT = 0x02
"""Set in the first byte of a four-byte header: compressed in line."""

TAG_ONDISK = 18
"""VARTAG_ONDISK: the only tag that is found in a table."""
EXTERNAL_SIZE = EXTERNAL_HEADER_SIZE + 16
"""Bytes of a whole on-disk TOAST pointer."""

EXTSIZE_BITS = 30
EXTSIZE_MASK = (1 << EXTSIZE_BITS) - 1
"""VARLENA_EXTSIZE_MASK: the size in va_tcinfo and va_extinfo; the two bits above are the compression method."""
METHOD_PGLZ, METHOD_LZ4 = 0, 1
"""ToastCompressionId (``access/toast_compression.h``)."""

VARATT_EXTERNAL = np.dtype([("rawsize", "<i4"), ("extinfo", "<u4"), ("valueid", "<u4"), ("toastrelid", "<u4")])
"""varatt_external: what follows marker and tag, unaligned. ``rawsize`` counts a four-byte header; the value is
compressed where extinfo's size is less than rawsize - HEADER_SIZE."""
