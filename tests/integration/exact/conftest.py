"""Fixtures of the tests of exact loads."""

from __future__ import annotations

import pytest

from tests.integration.exact.meddler import Meddler, stand_between
from walshadow_core.backfill.options import LoadOptions


@pytest.fixture
def meddler(monkeypatch: pytest.MonkeyPatch) -> Meddler:
    """What stands between the program and its backups."""
    meddler = Meddler()
    stand_between(monkeypatch, meddler)
    return meddler


@pytest.fixture(params=["kept", "as they come"])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether pages are kept until the backup's end in the first pass."""
    if request.param == "as they come":
        monkeypatch.setattr(LoadOptions, "spool_below", -1)
    return bool(request.param == "kept")
