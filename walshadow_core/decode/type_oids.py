"""Oids of the types that can be decoded (``catalog/pg_type.dat``); they are the same in every database."""

from __future__ import annotations

from typing import Final

BOOL: Final = 16
BYTEA: Final = 17
CHAR: Final = 18
"""``"char"``, the one-byte type; ``char(n)`` is BPCHAR."""
NAME: Final = 19
INT8: Final = 20
INT2: Final = 21
INT4: Final = 23
TEXT: Final = 25
OID: Final = 26
JSON: Final = 114
FLOAT4: Final = 700
FLOAT8: Final = 701
BPCHAR: Final = 1042
VARCHAR: Final = 1043
DATE: Final = 1082
TIME: Final = 1083
TIMESTAMP: Final = 1114
TIMESTAMPTZ: Final = 1184
INTERVAL: Final = 1186
TIMETZ: Final = 1266
NUMERIC: Final = 1700
UUID: Final = 2950
TXID_SNAPSHOT: Final = 2970
TSVECTOR: Final = 3614
TSQUERY: Final = 3615
JSONB: Final = 3802
JSONPATH: Final = 4072
PG_SNAPSHOT: Final = 5038
