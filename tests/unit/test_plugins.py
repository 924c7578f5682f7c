"""Finding, loading and asking plugins: each kind of broken plugin, conflicts, and errors that name them."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
import typer
from pydantic import BaseModel, ConfigDict, Field

from walshadow_core.api import PgType, PluginInfo, SourceError, TypeCodec, UsageError, WalshadowError, hookimpl
from walshadow_core.plugins import BROKEN, CONFLICT, DISABLED, OK, Plugins


class Point:
    """An entry point whose content is at hand."""

    def __init__(self, name: str, load: Callable[[], Any]) -> None:
        self.name = name
        self.load = load
        self.dist = None


def module(name: str, **hooks: Callable[..., Any]) -> ModuleType:
    made = ModuleType(name)
    for hook, function in hooks.items():
        setattr(made, hook, hookimpl(function))
    return made


def info(**words: Any) -> Callable[[], PluginInfo]:
    return lambda: PluginInfo(**{"name": "p", "summary": "", **words})


def source_plugin(name: str, mode: str, answer: Callable[[Mapping[str, Any]], Any], **words: Any) -> Point:
    def backup_source(mode: str, settings: Mapping[str, Any]) -> Any:
        return answer(settings)

    hooks = {
        "walshadow_plugin_info": info(name=name, modes=(mode,), **words),
        "walshadow_backup_source": backup_source,
    }
    return Point(name, lambda: module(name, **hooks))


def sink_plugin(name: str, *schemes: str) -> Point:
    def destination(url: str, settings: Mapping[str, Any]) -> Any:
        return f"{name} for {url}"

    hooks = {
        "walshadow_plugin_info": info(name=name, schemes=schemes),
        "walshadow_destination": destination,
    }
    return Point(name, lambda: module(name, **hooks))


def raising(error: BaseException) -> Callable[..., Any]:
    def function(*_: Any) -> Any:
        raise error

    return function


def load(*points: Point, **environ: str) -> Plugins:
    return Plugins.load(points, environ)  # type: ignore[arg-type]


def states(plugins: Plugins) -> dict[str, str]:
    return {p.name: p.status for p in plugins.all if p.name != "gate"}


GOOD = source_plugin("good", "good", lambda settings: "a source")


def with_unknown_hook() -> ModuleType:
    return module("p", walshadow_plugin_info=info(), walshadow_bakcup_source=lambda: None)


def with_wrong_arguments() -> ModuleType:
    return module("p", walshadow_plugin_info=info(), walshadow_destination=lambda url, colour: None)


@pytest.mark.parametrize(
    ("loader", "reason"),
    [
        (raising(ImportError("no module\ncalled numpyy")), "ImportError: no module called numpyy"),
        (raising(SyntaxError("invalid syntax")), "SyntaxError: invalid syntax"),
        (raising(RuntimeError("boom")), "RuntimeError: boom"),
        (raising(SystemExit("no license")), "SystemExit: no license"),
        (with_unknown_hook, "walshadow_bakcup_source"),
        (with_wrong_arguments, "colour"),
        (lambda: module("p"), "no hook walshadow_plugin_info"),
        (lambda: module("p", walshadow_plugin_info=lambda: {"name": "p"}), "gave dict, not a PluginInfo"),
        (lambda: module("p", walshadow_plugin_info=raising(KeyError("x"))), "KeyError: 'x'"),
        (lambda: module("p", walshadow_plugin_info=info(modes="base_backup")), "modes .* not a tuple of words"),
        (lambda: module("p", walshadow_plugin_info=info(settings=dict)), "not a pydantic model"),
        (lambda: module("p", walshadow_plugin_info=info(name="good")), "another plugin is called good too"),
    ],
)
def test_a_broken_plugin_is_kept_with_its_error_and_the_others_go_on(loader: Callable[[], Any], reason: str) -> None:
    plugins = load(GOOD, Point("odd", loader))
    assert states(plugins) == {"good": OK, "odd": BROKEN}
    (broken,) = plugins.broken
    assert broken.error is not None
    assert pytest.raises(AssertionError, match=reason).matches(AssertionError(broken.error))
    assert "\n" not in broken.error
    assert plugins.source("good", {}) == "a source"


def test_no_hook_of_a_broken_plugin_is_called() -> None:
    def broken() -> ModuleType:
        made = with_unknown_hook()
        made.walshadow_warmup = hookimpl(raising(RuntimeError("called")))  # type: ignore[attr-defined]
        return made

    assert [name for name, _ in load(Point("odd", broken)).warmups()] == ["gate"]


def test_the_gate_is_a_plugin_like_any_other() -> None:
    (gate,) = [p for p in load().all if p.name == "gate"]
    hooks = ("walshadow_plugin_info", "walshadow_visibility_resolver", "walshadow_warmup")
    assert (gate.status, gate.hooks) == (OK, hooks)


def test_plugins_are_left_out_by_entry_point_without_being_imported() -> None:
    odd = Point("odd", raising(AssertionError("imported")))
    plugins = load(GOOD, odd, WALSHADOW_DISABLE_PLUGINS=" odd , other")
    assert states(plugins) == {"good": OK, "odd": DISABLED}


def test_plugins_are_left_out_by_their_own_name() -> None:
    named = source_plugin("long-name", "m", lambda settings: None)
    named.name = "entry"
    plugins = load(named, WALSHADOW_DISABLE_PLUGINS="long-name")
    assert states(plugins) == {"long-name": DISABLED}
    with pytest.raises(UsageError, match=r"no plugin answers to the mode m.*left out by WALSHADOW_DISABLE_PLUGINS"):
        plugins.source("m", {})


def test_two_claims_of_a_mode_are_an_error_that_names_both() -> None:
    plugins = load(
        source_plugin("first", "m", lambda settings: 1), source_plugin("second", "m", lambda settings: 2), GOOD
    )
    assert states(plugins) == {"first": CONFLICT, "second": CONFLICT, "good": OK}
    with pytest.raises(UsageError, match="mode m is claimed by more than one plugin: first, second"):
        plugins.source("m", {})
    assert plugins.find("first").error == "mode m is claimed by second too"
    assert plugins.source("good", {}) == "a source"


def test_a_conflict_ends_when_one_is_left_out() -> None:
    points = source_plugin("first", "m", lambda settings: 1), source_plugin("second", "m", lambda settings: 2)
    assert load(*points, WALSHADOW_DISABLE_PLUGINS="second").source("m", {}) == 1


def test_two_claims_of_a_scheme_are_an_error_that_names_both() -> None:
    plugins = load(sink_plugin("first", "x", "y"), sink_plugin("second", "x"))
    with pytest.raises(UsageError, match="URL scheme x is claimed by more than one plugin: first, second"):
        plugins.destination("x://secret@host", {})
    assert plugins.destination("y://host", {}) == "first for y://host"


def test_an_unknown_mode_lists_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"mode object_store; there are: good; pip install"):
        load(GOOD).source("object_store", {})


def test_a_mode_of_a_plugin_of_ours_names_what_to_install() -> None:
    with pytest.raises(UsageError, match="pip install walshadow-source-basebackup"):
        load(GOOD).source("base_backup", {})


def test_a_mode_that_is_nearly_right_is_offered() -> None:
    with pytest.raises(UsageError, match=r"did you mean good\?"):
        load(GOOD).source("goood", {})


def test_an_unknown_mode_names_the_broken_plugins() -> None:
    with pytest.raises(UsageError, match="broken: odd: RuntimeError: boom"):
        load(Point("odd", raising(RuntimeError("boom")))).source("base_backup", {})


def test_a_scheme_with_a_plus_goes_to_who_claims_the_family() -> None:
    plugins = load(sink_plugin("family", "files+"), sink_plugin("exact", "files+s3"))
    assert plugins.destination("files+gs://b", {}) == "family for files+gs://b"
    assert plugins.destination("FILES+GS://b", {}) == "family for FILES+GS://b"
    assert plugins.destination("files+s3://b", {}) == "exact for files+s3://b"
    with pytest.raises(UsageError, match="no plugin answers to the URL scheme files;"):
        plugins.destination("files://b", {})


@pytest.mark.parametrize("url", ["user:hunter2@host/db", "://hunter2", "", "nope://u:hunter2@h/db"])
def test_errors_about_a_url_do_not_show_it(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(sink_plugin("s", "known")).destination(url, {})
    assert "hunter2" not in str(caught.value)
    assert "known" in str(caught.value)


def test_a_plugin_that_claims_a_mode_and_gives_nothing_is_named() -> None:
    with pytest.raises(WalshadowError, match="plugin lazy claims m and gave nothing for it"):
        load(source_plugin("lazy", "m", lambda settings: None)).source("m", {})


def test_a_plugin_that_claims_a_mode_without_the_hook_is_named() -> None:
    point = Point("half", lambda: module("half", walshadow_plugin_info=info(name="half", modes=("m",))))
    with pytest.raises(WalshadowError, match="plugin half claims m and has no hook walshadow_backup_source"):
        load(point).source("m", {})


def test_a_plugin_that_fails_is_named_with_its_error() -> None:
    plugins = load(source_plugin("bad", "m", raising(ZeroDivisionError("by zero"))))
    with pytest.raises(
        WalshadowError, match="plugin bad failed in walshadow_backup_source: ZeroDivisionError: by zero"
    ):
        plugins.source("m", {})


def test_errors_that_a_plugin_words_itself_pass_as_they_are() -> None:
    error = SourceError("no", "do this")
    with pytest.raises(SourceError) as caught:
        load(source_plugin("p", "m", raising(error))).source("m", {})
    assert caught.value is error


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    dsn: str = ""
    max_rate: int = Field(0, description="Bytes a second.")


STRICT = source_plugin("strict", "m", lambda settings: Strict(**settings), settings=Strict)


def test_options_are_checked_by_the_plugins_model_without_showing_values() -> None:
    options = {"max_rate": "hunter2"}
    with pytest.raises(UsageError, match="strict: option max_rate: Input should be a valid integer") as caught:
        load(STRICT).source("m", options)
    assert options["max_rate"] not in str(caught.value)
    assert options["max_rate"] not in "".join(traceback.format_exception(caught.value)), "nor with --traceback"


def test_an_option_that_the_plugin_does_not_have_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(UsageError, match=r"strict has no option max_rat; it has: max_rate; did you mean max_rate\?"):
        load(STRICT).source("m", {"max_rat": "1"})
    with pytest.raises(UsageError, match="good has no option x; it has: none"):
        load(GOOD).source("good", {"x": "1"})


def test_the_cores_own_settings_reach_a_plugin_and_need_no_field() -> None:
    assert load(STRICT).source("m", {"dsn": "host=db"}) == Strict(dsn="host=db")
    assert load(GOOD).source("good", {"dsn": "host=db"}) == "a source"


def resolver_plugin(name: str, *claims: str) -> Point:
    def resolver(status: Any, settings: Mapping[str, Any]) -> Any:
        return f"{name}'s" if settings.get("resolver") in claims else None

    hooks = {
        "walshadow_plugin_info": info(name=name, resolvers=claims),
        "walshadow_visibility_resolver": resolver,
    }
    return Point(name, lambda: module(name, **hooks))


def test_the_resolver_that_was_asked_for_decides() -> None:
    plugins = load(resolver_plugin("everything", "everything"))
    assert plugins.resolver(object(), {"resolver": "everything"}) == "everything's"  # type: ignore[arg-type]
    for settings in ({}, {"resolver": ""}, {"resolver": None}):
        assert type(plugins.resolver(object(), settings)).__name__ == "Gate"  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no plugin answers to the visibility resolver none; there are: gate, ever"):
        plugins.resolver(object(), {"resolver": "none"})  # type: ignore[arg-type]


def test_wal_fetchers_are_asked_by_their_own_words() -> None:
    def fetcher(mode: str, settings: Mapping[str, Any]) -> Any:
        return f"segments of {mode}"

    hooks = {"walshadow_plugin_info": info(fetchers=("folder",)), "walshadow_wal_fetcher": fetcher}
    assert load(Point("p", lambda: module("p", **hooks))).fetcher("folder", {}) == "segments of folder"


def test_warmups_are_those_of_plugins_with_kernels() -> None:
    done: list[str] = []
    hooks = {"walshadow_plugin_info": info(), "walshadow_warmup": lambda: done.append("p")}
    warmups = dict(load(GOOD, Point("p", lambda: module("p", **hooks))).warmups())
    assert list(warmups) == ["gate", "p"]
    warmups["p"]()
    assert done == ["p"]


def test_commands_are_asked_of_one_plugin_at_a_time() -> None:
    def register(app: typer.Typer) -> None:
        app.command("hello")(lambda: None)

    hooks = {"walshadow_plugin_info": info(), "walshadow_register_commands": register}
    plugins = load(Point("p", lambda: module("p", **hooks)), GOOD)
    app, other = typer.Typer(), typer.Typer()
    plugins.register_commands(app, plugins.find("p"))
    plugins.register_commands(other, plugins.find("good"))
    assert ([c.name for c in app.registered_commands], other.registered_commands) == (["hello"], [])


def test_our_own_plugins_are_found_by_their_entry_points() -> None:
    found = {p.name: (p.status, p.error) for p in Plugins.load(environ={}).all}
    for name in ("gate", "source-basebackup", "sink-clickhouse", "sink-parquet"):
        assert found[name] == (OK, None)


def test_an_entry_point_on_the_path_is_found_broken_with_its_distribution(tmp_path: Path) -> None:
    """As a user's environment has it: a distribution whose module does not parse."""
    (tmp_path / "broken_plugin.py").write_text("def broken(:\n")
    dist = tmp_path / "walshadow_broken-1.5.dist-info"
    dist.mkdir()
    (dist / "METADATA").write_text("Metadata-Version: 2.1\nName: walshadow-broken\nVersion: 1.5\n")
    (dist / "entry_points.txt").write_text("[walshadow]\nbroken = broken_plugin\n")
    script = (
        "from walshadow_core.plugins import Plugins\n"
        "for p in Plugins.load().broken: print(p.name, p.distribution, p.version, p.error)"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert run.stdout.startswith("broken walshadow-broken 1.5 SyntaxError: ")


def test_versions_come_from_the_distribution() -> None:
    versions = {p.name: p.version for p in Plugins.load(environ={}).all}
    assert versions["gate"] == importlib.metadata.version("walshadow")


# ------------------------------------------------------------------------------------------ types


def type_plugin(name: str, answer: Callable[[PgType], Any]) -> Point:
    hooks = {"walshadow_plugin_info": info(name=name), "walshadow_type_codec": lambda pg_type: answer(pg_type)}
    return Point(name, lambda: module(name, **hooks))


EAN = PgType(70001, "public", "ean13", "b", 8, "d", True)
CODEC = TypeCodec(pa.uint64(), lambda values: pa.array([]))


def test_a_type_is_decoded_by_who_knows_it() -> None:
    plugins = Plugins.load(
        [
            type_plugin("a", lambda t: None),
            type_plugin("b", lambda t: CODEC if t.name == "ean13" else None),
            sink_plugin("c"),
        ],
        {},
    )
    assert plugins.type_codec(EAN) is CODEC
    assert plugins.type_codec(replace(EAN, name="seg")) is None


def test_a_type_that_two_decode_is_an_error_until_one_is_left_out() -> None:
    points = [type_plugin("a", lambda t: CODEC), type_plugin("b", lambda t: CODEC)]
    with pytest.raises(UsageError, match=r"public.ean13 is decoded by more than one plugin: a, b; .*PLUGINS=b"):
        Plugins.load(points, {}).type_codec(EAN)
    assert Plugins.load(points, {"WALSHADOW_DISABLE_PLUGINS": "a"}).type_codec(EAN) is CODEC


def test_an_answer_that_is_no_codec_and_a_failure_name_the_plugin() -> None:
    with pytest.raises(WalshadowError, match="plugin a gave str for type ean13, not a TypeCodec"):
        Plugins.load([type_plugin("a", lambda t: "uint64")], {}).type_codec(EAN)
    with pytest.raises(WalshadowError, match="plugin a failed in walshadow_type_codec: ZeroDivisionError"):
        Plugins.load([type_plugin("a", lambda t: 1 // 0)], {}).type_codec(EAN)
