"""Finding, loading and asking plugins.

Every entry point of the group ``walshadow`` is loaded by itself: one that can't be is kept, with its error in
one line, and the others go on. Which plugin answers to a mode or a URL scheme is what its ``PluginInfo`` says;
a word that two claim belongs to neither until one of them is left out (``WALSHADOW_DISABLE_PLUGINS``).
"""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pluggy
import typer
from pydantic import BaseModel, ValidationError

import walshadow_core
from walshadow_core import hookspecs
from walshadow_core.api import (
    PROJECT,
    BackupSource,
    Destination,
    PgType,
    PluginInfo,
    TransactionStatus,
    TypeCodec,
    UsageError,
    VisibilityResolver,
    WalFetcher,
    WalshadowError,
)

DISABLE_VARIABLE = "WALSHADOW_DISABLE_PLUGINS"
GATE = "gate"
"""Name of the core's own visibility resolver, itself a plugin."""

OK, BROKEN, DISABLED, CONFLICT = "ok", "broken", "disabled", "conflict"

_WORDS = {
    "modes": "mode",
    "schemes": "URL scheme",
    "resolvers": "visibility resolver",
    "fetchers": "WAL fetcher mode",
}
"""The fields of PluginInfo that claim words, and what one such word is called."""

_SETTINGS_OF_THE_CORE = frozenset({"dsn", "resolver"})
"""Settings that the core adds to the user's own: no plugin has to know them."""

_PACKAGES = {
    "base_backup": "walshadow-source-basebackup",
    "clickhouse": "walshadow-sink-clickhouse",
    "clickhouses": "walshadow-sink-clickhouse",
    "chdb": "'walshadow-sink-clickhouse[chdb]'",
}
"""Distributions to install for words that users may ask for before they have them."""


@dataclass
class Plugin:
    """One entry point and what became of it.

    ``entry`` is the entry point's name, ``name`` what the plugin calls itself (the entry point's name until
    that is known). ``status`` is ok, broken, disabled or conflict; ``error`` says why in one line.
    """

    entry: str
    distribution: str
    version: str
    status: str = OK
    error: str | None = None
    info: PluginInfo | None = None
    hooks: tuple[str, ...] = ()
    module: Any = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return self.info.name if self.info is not None else self.entry

    @property
    def usable(self) -> bool:
        """Whether its hooks are called (a plugin in conflict still answers to its other words)."""
        return self.status in (OK, CONFLICT)


class Plugins:
    """The plugins of this environment, the core's own gate included. Make it with ``Plugins.load()``."""

    def __init__(self) -> None:
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self.all: list[Plugin] = []

    @classmethod
    def load(
        cls,
        entry_points: Iterable[importlib.metadata.EntryPoint] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Plugins:
        """Load the gate and every entry point of the group ``walshadow``. Never raises for what a plugin does."""
        environ = os.environ if environ is None else environ
        if entry_points is None:
            entry_points = importlib.metadata.entry_points(group=PROJECT)
        left_out = {w.strip() for w in environ.get(DISABLE_VARIABLE, "").split(",") if w.strip()}
        plugins = cls()
        plugins._add(Plugin(GATE, "walshadow", walshadow_version()), _load_gate, left_out)
        for point in sorted(entry_points, key=lambda p: (_distribution(p)[0], p.name)):
            plugins._add(Plugin(point.name, *_distribution(point)), point.load, left_out)
        plugins._find_conflicts()
        return plugins

    # ------------------------------------------------------------------------------------------- listing

    @property
    def infos(self) -> tuple[PluginInfo, ...]:
        """What each usable plugin says of itself."""
        return tuple(p.info for p in self.all if p.usable and p.info is not None)

    @property
    def broken(self) -> tuple[Plugin, ...]:
        """The plugins that could not be loaded; their ``error`` says why."""
        return tuple(p for p in self.all if p.status == BROKEN)

    @property
    def usable(self) -> tuple[Plugin, ...]:
        return tuple(p for p in self.all if p.usable)

    def words(self, kind: str) -> dict[str, list[Plugin]]:
        """Every word of ``kind`` (modes, schemes, resolvers, fetchers) and who claims it."""
        claims: dict[str, list[Plugin]] = {}
        for plugin in self.usable:
            for word in getattr(plugin.info, kind):
                claims.setdefault(word, []).append(plugin)
        return claims

    def find(self, name: str) -> Plugin:
        """A plugin by its own name or its entry point's. Raises UsageError, naming those there are."""
        for plugin in self.all:
            if name in (plugin.name, plugin.entry):
                return plugin
        raise UsageError(f"no plugin is called {name}", f"there are: {_list(p.name for p in self.all)}")

    # -------------------------------------------------------------------------------------------- asking

    def source(self, mode: str, settings: Mapping[str, Any]) -> BackupSource:
        """The backup source for ``mode``. ``settings`` are the user's options, and ``dsn``.

        Raises UsageError if nobody, or more than one, claims the mode or an option is not the plugin's; else
        what the plugin raises.
        """
        plugin = self._claimant("modes", mode)
        return cast(BackupSource, self._ask(plugin, "walshadow_backup_source", mode, settings, mode=mode))

    def fetcher(self, mode: str, settings: Mapping[str, Any]) -> WalFetcher:
        """The WAL fetcher for ``mode``; otherwise as ``source``."""
        plugin = self._claimant("fetchers", mode)
        return cast(WalFetcher, self._ask(plugin, "walshadow_wal_fetcher", mode, settings, mode=mode))

    def destination(self, url: str, settings: Mapping[str, Any]) -> Destination:
        """The destination for ``url``, found by its scheme: all of it, or, for ``parquet+s3://…``, by who claims
        ``parquet+``. Errors as in ``source``; none shows the URL."""
        scheme, separator, _ = url.partition("://")
        if not separator or not scheme:
            raise UsageError(
                "the destination is not a URL: it has no scheme",
                f"write it as SCHEME://…, with one of: {_list(self.words('schemes'))}",
            )
        scheme = scheme.lower()
        family = "".join(scheme.partition("+")[:2])
        known = self.words("schemes")
        plugin = self._claimant("schemes", family if family in known and scheme not in known else scheme)
        return cast(Destination, self._ask(plugin, "walshadow_destination", f"{scheme}://", settings, url=url))

    def resolver(self, status: TransactionStatus, settings: Mapping[str, Any]) -> VisibilityResolver:
        """The gate of a pass: the answer of the first plugin that gives one, the core's own being asked last.

        Raises UsageError if two claim the name in ``settings["resolver"]``, or none answers to it.
        """
        name = str(settings.get("resolver") or GATE)
        self._claimant("resolvers", name)
        asked = {**settings, "resolver": name}
        by_module = {id(p.module): p for p in self.usable}
        for implementation in reversed(self._manager.hook.walshadow_visibility_resolver.get_hookimpls()):
            plugin = by_module[id(implementation.plugin)]
            answer = self._call(plugin, "walshadow_visibility_resolver", status=status, settings=asked)
            if answer is not None:
                return cast(VisibilityResolver, answer)
        raise WalshadowError(f"no plugin answered for the visibility resolver {name}, though one claims it")

    def type_codec(self, pg_type: PgType) -> TypeCodec | None:
        """How a plugin decodes a type; None if there is no such plugin.

        Raises UsageError if more than one does, WalshadowError for an answer that is no TypeCodec.
        """
        hook = "walshadow_type_codec"
        answers: dict[str, TypeCodec] = {}
        for plugin in self.usable:
            answer = self._call(plugin, hook, pg_type=pg_type) if hook in plugin.hooks else None
            if isinstance(answer, TypeCodec):
                answers[plugin.name] = answer
            elif answer is not None:
                raise WalshadowError(
                    f"plugin {plugin.name} gave {type(answer).__name__} for type {pg_type.name}, not a TypeCodec",
                    "report it to its author",
                )
        if len(answers) > 1:
            raise UsageError(
                f"type {pg_type.schema}.{pg_type.name} is decoded by more than one plugin: {_list(answers)}",
                f"leave one out: {DISABLE_VARIABLE}={list(answers)[-1]}",
            )
        return next(iter(answers.values()), None)

    def register_commands(self, app: typer.Typer, plugin: Plugin) -> None:
        """Let one plugin add its commands to ``app``. Raises WalshadowError naming it if it fails."""
        self._call(plugin, "walshadow_register_commands", app=app)

    def warmups(self) -> list[tuple[str, Callable[[], object]]]:
        """(name, function that compiles its kernels) of each plugin that has kernels."""
        hook = "walshadow_warmup"
        return [(p.name, lambda p=p: self._call(p, hook)) for p in self.usable if hook in p.hooks]  # type: ignore[misc]

    # ------------------------------------------------------------------------------------------- loading

    def _add(self, plugin: Plugin, load: Callable[[], Any], left_out: set[str]) -> None:
        self.all.append(plugin)
        if plugin.entry in left_out:
            plugin.status = DISABLED
            return
        try:
            plugin.module = load()
            if self._manager.register(plugin.module, plugin.entry) is None:
                raise ValueError(f"{plugin.entry} is blocked")
            self._manager.check_pending()
            plugin.hooks = tuple(sorted(c.name for c in self._manager.get_hookcallers(plugin.module) or ()))
            plugin.info = self._info_of(plugin)
        except (Exception, SystemExit) as error:
            plugin.status, plugin.error, plugin.info = BROKEN, _one_line(error), None
        if plugin.name in left_out:
            plugin.status, plugin.error = DISABLED, None
        if not plugin.usable and self._manager.get_plugin(plugin.entry) is plugin.module is not None:
            self._manager.unregister(plugin.module)

    def _info_of(self, plugin: Plugin) -> PluginInfo:
        if "walshadow_plugin_info" not in plugin.hooks:
            raise TypeError("it has no hook walshadow_plugin_info (every plugin must have it)")
        info = self._only(plugin, "walshadow_plugin_info")()[0]
        if not isinstance(info, PluginInfo):
            raise TypeError(f"walshadow_plugin_info gave {type(info).__name__}, not a PluginInfo")
        for kind in _WORDS:
            claimed = getattr(info, kind)
            if not isinstance(claimed, tuple) or not all(isinstance(w, str) and w for w in claimed):
                raise TypeError(f"{kind} of its PluginInfo is {claimed!r}, not a tuple of words")
        if info.settings is not None and not (isinstance(info.settings, type) and issubclass(info.settings, BaseModel)):
            raise TypeError(f"settings of its PluginInfo is {info.settings!r}, not a pydantic model")
        for other in self.all:
            if other is not plugin and other.usable and other.name == info.name:
                raise ValueError(f"another plugin is called {info.name} too (from {other.distribution})")
        return info

    def _find_conflicts(self) -> None:
        for kind, noun in _WORDS.items():
            for word, claimants in self.words(kind).items():
                for plugin in claimants if len(claimants) > 1 else ():
                    others = _list(p.name for p in claimants if p is not plugin)
                    plugin.status = CONFLICT
                    plugin.error = _joined(plugin.error, f"{noun} {word} is claimed by {others} too")

    # ------------------------------------------------------------------------------------------- calling

    def _claimant(self, kind: str, word: str) -> Plugin:
        claims = self.words(kind)
        claimants = claims.get(word, [])
        if len(claimants) == 1:
            return claimants[0]
        if claimants:
            raise UsageError(
                f"{_WORDS[kind]} {word} is claimed by more than one plugin: {_list(p.name for p in claimants)}",
                f"leave one out: {DISABLE_VARIABLE}={claimants[-1].name}",
            )
        raise self._unknown(kind, word, claims)

    def _unknown(self, kind: str, word: str, claims: Mapping[str, list[Plugin]]) -> UsageError:
        message = f"no plugin answers to the {_WORDS[kind]} {word}; there are: {_list(claims)}"
        if near := difflib.get_close_matches(word, claims, 1):
            return UsageError(message, f"did you mean {near[0]}?")
        if broken := self.broken:
            message += f" (broken: {_list(f'{p.name}: {p.error}' for p in broken)})"
        if disabled := [p.name for p in self.all if p.status == DISABLED]:
            message += f" (left out by {DISABLE_VARIABLE}: {_list(disabled)})"
        package = _PACKAGES.get(word)
        return UsageError(
            message,
            f"pip install {package}" if package else "pip install the plugin that brings it",
        )

    def _ask(self, plugin: Plugin, hook: str, word: str, settings: Mapping[str, Any], **given: Any) -> Any:
        if hook not in plugin.hooks:
            raise WalshadowError(
                f"plugin {plugin.name} claims {word} and has no hook {hook}", "report it to its author"
            )
        _check_options(plugin, settings)
        answer = self._call(plugin, hook, settings=settings, **given)
        if answer is None:
            raise WalshadowError(
                f"plugin {plugin.name} claims {word} and gave nothing for it", "report it to its author"
            )
        return answer

    def _call(self, plugin: Plugin, hook: str, **given: Any) -> Any:
        """One plugin's answer. Its WalshadowErrors pass as they are, anything else becomes one that names it."""
        try:
            answer = self._only(plugin, hook)(**given)
        except WalshadowError:
            raise
        except ValidationError as error:
            raise UsageError(f"{plugin.name}: {_settings_error(error)}") from None
        except Exception as error:
            raise WalshadowError(
                f"plugin {plugin.name} failed in {hook}: {_one_line(error)}", "report it to its author"
            ) from error
        return answer[0] if isinstance(answer, list) and answer else answer

    def _only(self, plugin: Plugin, hook: str) -> Any:
        others = [p.module for p in self.usable if p is not plugin]
        return self._manager.subset_hook_caller(hook, others)


def walshadow_version() -> str:
    """The version of the installed distribution."""
    return importlib.metadata.version(walshadow_core.__name__.partition("_")[0])


def _load_gate() -> Any:
    return importlib.import_module("walshadow_core.visibility.plugin")


def _distribution(point: importlib.metadata.EntryPoint) -> tuple[str, str]:
    return (point.dist.name, point.dist.version) if point.dist is not None else ("", "")


def _check_options(plugin: Plugin, settings: Mapping[str, Any]) -> None:
    model = plugin.info.settings if plugin.info is not None else None
    if model is not None and model.model_config.get("extra") == "allow":
        return
    fields = model.model_fields if model is not None else {}
    known = set(fields) | {f.alias for f in fields.values() if f.alias}
    unknown = sorted(set(settings) - known - _SETTINGS_OF_THE_CORE)
    if not unknown:
        return
    near = difflib.get_close_matches(unknown[0], known, 1)
    offered = _list(n for n in fields if n not in _SETTINGS_OF_THE_CORE)
    raise UsageError(
        f"{plugin.name} has no option {_list(unknown)}; it has: {offered}",
        f"did you mean {near[0]}?" if near else f"see walshadow plugins show {plugin.name}",
    )


def _settings_error(error: ValidationError) -> str:
    """What pydantic says, by option, without the values: they may be secret."""
    return "; ".join(
        f"option {'.'.join(map(str, e['loc'])) or '(all)'}: {e['msg']}"
        for e in error.errors(include_url=False, include_input=False, include_context=False)
    )


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def _joined(first: str | None, second: str) -> str:
    return second if first is None else f"{first}; {second}"


def _list(words: Iterable[str]) -> str:
    return ", ".join(words) or "none"
