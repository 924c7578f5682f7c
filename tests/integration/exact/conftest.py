"""Fixtures of the tests of exact loads."""

from __future__ import annotations

import pytest

from tests.integration.exact.meddler import Meddler, stand_between


@pytest.fixture
def meddler(monkeypatch: pytest.MonkeyPatch) -> Meddler:
    """What stands between the program and its backups."""
    meddler = Meddler()
    stand_between(monkeypatch, meddler)
    return meddler
