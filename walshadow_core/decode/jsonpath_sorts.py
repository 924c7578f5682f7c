"""The sorts of jsonpath items (JsonPathItemType of ``utils/jsonpath.h``), and the words that jsonpath_out has for them.

A sort keeps its number for good; newer versions add more at the end.
"""

from __future__ import annotations

from typing import Final

import numpy as np

VERSION: Final = 1
LAX: Final = 0x80000000

LITERAL_NULL, STRING, NUMERIC, BOOL, AND, OR, NOT, IS_UNKNOWN = range(8)
EQUAL, NOT_EQUAL, LESS, GREATER, LESS_OR_EQUAL, GREATER_OR_EQUAL = range(8, 14)
ADD, SUB, MUL, DIV, MOD, PLUS, MINUS = range(14, 21)
ANY_ARRAY, ANY_KEY, INDEX_ARRAY, ANY, KEY, CURRENT, ROOT, VARIABLE, FILTER, EXISTS = range(21, 31)
TYPE, SIZE, ABS, FLOOR, CEILING, DOUBLE, DATETIME, KEY_VALUE, SUBSCRIPT, LAST, STARTS_WITH, LIKE_REGEX = range(31, 43)
BIGINT, BOOLEAN, DATE, DECIMAL, INTEGER, NUMBER, STRING_FUNC, TIME, TIME_TZ, TIMESTAMP, TIMESTAMP_TZ = range(43, 54)
SORTS: Final = 54
"""JsonPathItemType."""

_WORDS: Final = {
    LITERAL_NULL: b"null", ANY_ARRAY: b"[*]", CURRENT: b"@", ROOT: b"$", LAST: b"last",
    **{
        sort: b".%s()" % name
        for sort, name in {
            TYPE: b"type", SIZE: b"size", ABS: b"abs", FLOOR: b"floor", CEILING: b"ceiling", DOUBLE: b"double",
            KEY_VALUE: b"keyvalue", BIGINT: b"bigint", BOOLEAN: b"boolean", DATE: b"date", INTEGER: b"integer",
            NUMBER: b"number", STRING_FUNC: b"string",
        }.items()
    },
}  # fmt: skip
"""Sorts that are one word."""

_BINARY: Final = {
    AND: b"&&", OR: b"||", EQUAL: b"==", NOT_EQUAL: b"!=", LESS: b"<", GREATER: b">", LESS_OR_EQUAL: b"<=",
    GREATER_OR_EQUAL: b">=", ADD: b"+", SUB: b"-", MUL: b"*", DIV: b"/", MOD: b"%", STARTS_WITH: b"starts with",
}  # fmt: skip
"""Sorts with two operands, and the sign between them."""

_AROUND: Final = {
    NOT: (b"!(", b")"), IS_UNKNOWN: (b"(", b") is unknown"), FILTER: (b"?(", b")"), EXISTS: (b"exists (", b")"),
    DATETIME: (b".datetime(", b")"), TIME: (b".time(", b")"), TIME_TZ: (b".time_tz(", b")"),
    TIMESTAMP: (b".timestamp(", b")"), TIMESTAMP_TZ: (b".timestamp_tz(", b")"),
}  # fmt: skip
"""Sorts with one operand, and what stands around it."""

IS_WORD, IS_BINARY, IS_AROUND, IS_SIGN, IS_TEXT, IS_STAR, IS_OTHER = range(1, 8)
CLASS = np.full(256, 0, np.uint8)
for _class, _sorts in {
    IS_WORD: tuple(_WORDS),
    IS_BINARY: tuple(_BINARY),
    IS_AROUND: tuple(_AROUND),
    IS_SIGN: (PLUS, MINUS),
    IS_TEXT: (STRING, KEY, VARIABLE),
    IS_STAR: (ANY_KEY, ANY),
    IS_OTHER: (NUMERIC, BOOL, INDEX_ARRAY, LIKE_REGEX, DECIMAL),
}.items():
    CLASS[list(_sorts)] = _class
"""How a sort is printed; 0 for those that there are not."""

PRIORITY = np.full(256, 6, np.uint8)
for _level, _sorts in enumerate(
    [
        (OR,),
        (AND,),
        (EQUAL, NOT_EQUAL, LESS, GREATER, LESS_OR_EQUAL, GREATER_OR_EQUAL, STARTS_WITH),
        (ADD, SUB),
        (MUL, DIV, MOD),
        (PLUS, MINUS),
    ]
):
    PRIORITY[list(_sorts)] = _level
"""operationPriority: an operand of the same or a lower one is put in parentheses."""

# One table for all words: by sort what stands first, after SORTS what stands between, after 2 * SORTS what ends it.
TRUE_WORD, FALSE_WORD, OPEN, CLOSE, COMMA, RANGE = range(3 * SORTS, 3 * SORTS + 6)
CLOSE_BRACKET, STRICT, LIKE_REGEX_WORD, FLAG_WORD, DECIMAL_WORD = range(3 * SORTS + 6, 3 * SORTS + 11)
BETWEEN, AFTER = SORTS, 2 * SORTS
_TABLE: Final = [
    *(_WORDS.get(s, _AROUND.get(s, (b"",))[0]) for s in range(SORTS)),
    *(b" %s " % _BINARY.get(s, b"") for s in range(SORTS)),
    *(_AROUND.get(s, (b"", b""))[1] for s in range(SORTS)),
    b"true", b"false", b"(", b")", b",", b" to ", b"]", b"strict ", b" like_regex ", b' flag "', b".decimal(",
]  # fmt: skip
WORD_ENDS = np.cumsum([0, *map(len, _TABLE)])
WORD_TEXT = np.frombuffer(b"".join(_TABLE), np.uint8)

FLAGS = np.frombuffer(b"ismxq", np.uint8)
"""JSP_REGEX_*, from the lowest bit on."""

UNBOUNDED: Final = 0xFFFFFFFF
"""``last`` among the levels of ``.**``."""
