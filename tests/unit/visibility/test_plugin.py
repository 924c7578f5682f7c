"""The core's gate is a plugin like any other, asked last."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pluggy
import pytest

from walshadow_core import hookspecs
from walshadow_core.api import PROJECT, hookimpl
from walshadow_core.visibility import plugin
from walshadow_core.visibility.gate import Gate
from walshadow_core.visibility.status import CopiedStatus


class Rival:
    """A plugin that always answers."""

    @hookimpl
    def walshadow_visibility_resolver(self, settings: Mapping[str, Any]) -> str:
        return "the rival's"


@pytest.fixture
def manager() -> pluggy.PluginManager:
    made = pluggy.PluginManager(PROJECT)
    made.add_hookspecs(hookspecs)
    made.register(plugin, name=plugin.NAME)
    made.check_pending()
    return made


def ask(manager: pluggy.PluginManager, **settings: str) -> Any:
    return manager.hook.walshadow_visibility_resolver(status=CopiedStatus(), settings=settings)


def test_it_answers_to_its_name_and_by_default(manager: pluggy.PluginManager) -> None:
    assert isinstance(ask(manager), Gate)
    assert isinstance(ask(manager, resolver="gate"), Gate)
    assert ask(manager, resolver="another") is None


def test_others_are_asked_before_it_though_they_came_first() -> None:
    made = pluggy.PluginManager(PROJECT)
    made.add_hookspecs(hookspecs)
    # pluggy asks the latest first, unless told otherwise
    for each in (Rival(), plugin):
        made.register(each)
    assert ask(made) == "the rival's"


def test_it_says_what_it_is(manager: pluggy.PluginManager) -> None:
    (info,) = manager.hook.walshadow_plugin_info()
    assert (info.name, info.resolvers, info.modes, info.schemes) == ("gate", ("gate",), (), ())


def test_listing_plugins_does_not_wait_for_numba() -> None:
    code = "import sys, walshadow_core.visibility.plugin; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
