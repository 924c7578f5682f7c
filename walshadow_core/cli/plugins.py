"""``walshadow plugins``: what is installed, what it provides, what can be set."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from walshadow_core.cli.options import Json

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from walshadow_core.plugins import Plugin, Plugins

app = typer.Typer(no_args_is_help=True, help="Look at the installed plugins and their settings.")

_STYLES = {"ok": "green", "broken": "red", "conflict": "yellow", "disabled": "dim"}


@app.command("list")
def list_plugins(as_json: Json = False) -> None:
    """List the installed plugins: name, version, what each provides, status.

    A plugin that can't be loaded is listed as broken, with its error. WALSHADOW_DISABLE_PLUGINS=a,b leaves
    some out.
    """
    from walshadow_core.plugins import Plugins

    plugins = Plugins.load()
    if as_json:
        typer.echo(json.dumps([_facts(plugins, p) for p in plugins.all], indent=2))
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    table = Table(Column("name", no_wrap=True), "version", "provides", "modes, schemes", "status")
    for plugin in plugins.all:
        facts = _facts(plugins, plugin)
        status = f"[{_STYLES[plugin.status]}]{plugin.status}[/]"
        words = [*facts["modes"], *(_scheme(s) for s in facts["schemes"])]
        table.add_row(
            escape(plugin.name), escape(plugin.version), ", ".join(facts["provides"]), escape(", ".join(words)), status
        )
    console = Console(highlight=False)
    console.print(table)
    for plugin in plugins.all:
        if plugin.error:
            style = _STYLES[plugin.status]
            console.print(f"[{style}]{escape(plugin.name)}[/]: {escape(plugin.error)}", soft_wrap=True)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="The plugin's name, as 'walshadow plugins list' has it.")],
    as_json: Json = False,
) -> None:
    """Show one plugin: what it provides, and its settings with their types, defaults and meaning.

    \b
    Settings of a source are given as     --from-option NAME=VALUE
    those of a destination as             --to-option NAME=VALUE
    """
    from walshadow_core.plugins import Plugins

    plugins = Plugins.load()
    plugin = plugins.find(name)
    facts = {**_facts(plugins, plugin), "settings": _settings(plugin)}
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    console.print(f"[bold]{escape(plugin.name)}[/] {escape(plugin.version)} ({escape(plugin.distribution)})")
    if plugin.info is not None:
        console.print(escape(plugin.info.summary))
    console.print(f"status: [{_STYLES[plugin.status]}]{plugin.status}[/] {escape(plugin.error or '')}".rstrip())
    for what in ("provides", "modes", "schemes", "commands"):
        if facts[what]:
            console.print(f"{what}: {escape(', '.join(facts[what]))}")
    if not facts["settings"]:
        console.print("no settings")
        return
    table = Table("setting", "type", "default", "meaning")
    for setting in facts["settings"]:
        default = "required" if setting["required"] else json.dumps(setting["default"])
        if setting["secret"]:
            default = "required, secret" if setting["required"] else "secret"
        table.add_row(*map(escape, (setting["name"], setting["type"], default, setting["description"])))
    console.print(table)


def command_of_plugin(name: str) -> Any:
    """The command that a plugin adds under that name, None if none does.

    Raises UsageError if two do, WalshadowError if a plugin fails to say what it adds and no other has it.
    """
    from walshadow_core.api import UsageError, WalshadowError
    from walshadow_core.plugins import Plugins

    plugins = Plugins.load()
    found: list[tuple[Plugin, Any]] = []
    failure: WalshadowError | None = None
    for plugin in plugins.usable:
        try:
            commands = _commands(plugins, plugin)
        except WalshadowError as error:
            failure = error
            continue
        if name in commands:
            found.append((plugin, commands[name]))
    if len(found) > 1:
        raise UsageError(
            f"command {name} is added by more than one plugin: {', '.join(p.name for p, _ in found)}",
            f"leave one out: WALSHADOW_DISABLE_PLUGINS={found[-1][0].name}",
        )
    if found:
        return found[0][1]
    if failure is not None:
        raise failure
    return None


def _commands(plugins: Plugins, plugin: Plugin) -> dict[str, Any]:
    if "walshadow_register_commands" not in plugin.hooks:
        return {}
    own = typer.Typer(rich_markup_mode=None)
    own.callback()(lambda: None)
    plugins.register_commands(own, plugin)
    return dict(typer.main.get_group(own).commands)


def _facts(plugins: Plugins, plugin: Plugin) -> dict[str, Any]:
    info = plugin.info
    return {
        "name": plugin.name,
        "entry_point": plugin.entry,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "summary": info.summary if info else "",
        "provides": _provides(plugin),
        "modes": list(info.modes) if info else [],
        "schemes": list(info.schemes) if info else [],
        "resolvers": list(info.resolvers) if info else [],
        "fetchers": list(info.fetchers) if info else [],
        "commands": _command_names(plugins, plugin),
        "status": plugin.status,
        "error": plugin.error,
    }


def _scheme(scheme: str) -> str:
    """A scheme as URLs begin; one that ends in + claims every scheme that begins so."""
    return f"{scheme}{'…' if scheme.endswith('+') else ''}://"


def _provides(plugin: Plugin) -> list[str]:
    names = {
        "walshadow_backup_source": "backup source",
        "walshadow_wal_fetcher": "WAL fetcher",
        "walshadow_visibility_resolver": "visibility resolver",
        "walshadow_destination": "destination",
        "walshadow_register_commands": "commands",
    }
    return [noun for hook, noun in names.items() if hook in plugin.hooks]


def _command_names(plugins: Plugins, plugin: Plugin) -> list[str]:
    from walshadow_core.api import WalshadowError

    if not plugin.usable:
        return []
    try:
        return sorted(_commands(plugins, plugin))
    except WalshadowError as error:
        plugin.error = str(error)
        return []


def _settings(plugin: Plugin) -> list[dict[str, Any]]:
    model = plugin.info.settings if plugin.info is not None else None
    return [_setting(name, field) for name, field in model.model_fields.items()] if model else []


def _setting(name: str, field: FieldInfo) -> dict[str, Any]:
    kind = _type_name(field.annotation)
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    secret = "Secret" in kind or bool(extra.get("secret"))
    kind = re.sub(r"Secret\[(.*)\]", r"\1", kind).replace("SecretStr", "str").replace("SecretBytes", "bytes")
    required = field.is_required()
    default = None if required or secret else _plain(field.get_default(call_default_factory=True))
    return {
        "name": name,
        "type": kind,
        "required": required,
        "default": default,
        "secret": secret,
        "description": field.description or "",
    }


def _type_name(annotation: Any) -> str:
    """``str``, ``int | None``, ``'clamp' | 'null'``: a type as a person would write it."""
    from types import NoneType, UnionType
    from typing import Literal, Union, get_args, get_origin

    origin = get_origin(annotation)
    if annotation is NoneType:
        return "none"
    if origin is Literal:
        return " | ".join(map(str, get_args(annotation)))
    if origin in (Union, UnionType):
        return " | ".join(_type_name(a) for a in get_args(annotation))
    if origin is Annotated:
        return _type_name(get_args(annotation)[0])
    if origin is not None:
        return f"{_type_name(origin)}[{', '.join(_type_name(a) for a in get_args(annotation))}]"
    return str(getattr(annotation, "__name__", annotation))


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
