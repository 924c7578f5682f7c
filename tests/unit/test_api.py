"""Values of the plugin api."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walshadow_core.api import Lsn


@given(st.integers(0, 2**64 - 1))
def test_an_lsn_reads_what_it_prints(value: int) -> None:
    assert Lsn.parse(str(Lsn(value))) == value


def test_an_lsn_prints_as_postgres_prints_it() -> None:
    assert str(Lsn(0x16B3748)) == "0/16B3748" and str(Lsn(2**64 - 1)) == "FFFFFFFF/FFFFFFFF"


@pytest.mark.parametrize(
    "text", ["", "0", "/", "0/", "/0", "0/1/2", "-1/0", "+1/0", " 1/2", "1/2\n", "0x1/0", "1_0/0", "123456789/0", "٣/0"]
)
def test_what_is_no_lsn(text: str) -> None:
    with pytest.raises(ValueError, match="not an LSN"):
        Lsn.parse(text)
