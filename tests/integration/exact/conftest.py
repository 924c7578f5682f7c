"""Fixtures of the tests of exact loads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import MAJORS
from tests.integration.exact.meddler import Meddler, stand_between
from walshadow_core.backfill.options import LoadOptions
from walshadow_core.backfill.watch import Watch
from walshadow_core.testing.postgres import PostgresServer


def rarely(major: int, *more: str) -> Any:
    """A case of one major: those of older ones are run with the slow tests."""
    return pytest.param(major, *more, marks=[] if major == MAJORS[-1] else [pytest.mark.slow])


@pytest.fixture(params=[rarely(major) for major in MAJORS], ids=lambda major: f"pg{major}")
def pg(request: pytest.FixtureRequest, server_of: Callable[[int], PostgresServer]) -> PostgresServer:
    """A server of every major in turn."""
    return server_of(request.param)


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
        # Nor are they when the WAL was seen to change them: it is not looked at before the end.
        monkeypatch.setattr(Watch, "feed", lambda self, data: None)
    return bool(request.param == "kept")
