"""The ``walshadow`` program: its commands, its global options, and how errors leave it.

``--help`` must be quick, so nothing here or in the modules of the commands imports NumPy, Numba, Arrow, psycopg or
``walshadow_core.api`` at the top: handlers do. For the same reason the commands that plugins add are
looked up only when a name is asked for that the core does not have.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import functools
import logging
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, TextIO, cast

import typer
from typer.core import TyperGroup

from walshadow_core.cli import inspect, plugins, signals
from walshadow_core.cli.demo import demo
from walshadow_core.cli.load import load
from walshadow_core.cli.options import remember, scrubbed
from walshadow_core.cli.verify import verify
from walshadow_core.cli.warmup import warmup
from walshadow_core.ops.secrets import hide_argv

PROGRAM = "walshadow"
TRACEBACK_VARIABLE = "WALSHADOW_TRACEBACK"
_OURS = ("walshadow", "walshadow_core")
"""The core's loggers."""

EXIT_DONE, EXIT_FAILED, EXIT_USAGE, EXIT_SOME_TABLES, EXIT_DIFFERENCES, EXIT_INTERRUPTED = 0, 1, 2, 3, 4, 130

EPILOG = """\b
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 some tables failed,
            4 differences found, 130 interrupted.
Plugins may add commands of their own: see 'walshadow plugins list'."""


class LogLevel(enum.StrEnum):
    """The words of ``--log-level``."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Commands(TyperGroup):
    """The core's commands, then those of plugins: a plugin can't take the place of one of the core's."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, None if neither the core nor a plugin has it."""
        return super().get_command(ctx, cmd_name) or plugins.command_of_plugin(cmd_name)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; Ctrl-C says so in one word instead of being silent."""
        try:
            with signals.interrupting():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            raise SystemExit(_interrupted()) from None


app = typer.Typer(
    name=PROGRAM,
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

# In the order of --help.
for _command in (demo, signals.ending_at_once()(load), verify, warmup):
    app.command()(_command)
app.add_typer(inspect.app, name="inspect")
app.add_typer(plugins.app, name="plugins")


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"{PROGRAM} {version(PROGRAM)}")
        raise typer.Exit


@app.callback()
def _global_options(
    log_level: Annotated[
        LogLevel,
        typer.Option("--log-level", envvar="WALSHADOW_LOG_LEVEL", help="What to log, on stderr."),
    ] = LogLevel.WARNING,
    verbose: Annotated[
        int, typer.Option("-v", "--verbose", count=True, help="As --log-level info; twice: debug.", show_default=False)
    ] = 0,
    traceback: Annotated[
        bool, typer.Option("--traceback", envvar=TRACEBACK_VARIABLE, help="Show where an error came from.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Postgres's own bytes into ClickHouse: heap pages of a base backup, never the query path.

    \b
    Try it, with servers of its own:     walshadow demo
    Load a table:                        walshadow load --source DSN --table app.orders --to URL
    Compare it with the source:          walshadow verify --source DSN --table app.orders --to URL
    """
    if traceback:
        os.environ[TRACEBACK_VARIABLE] = "1"
    level = {0: log_level.value.upper(), 1: "INFO"}.get(verbose, "DEBUG")
    _start_logging(level)


class _Scrubbing(logging.Formatter):
    """Keeps secrets out of log lines, tracebacks included."""

    def format(self, record: logging.LogRecord) -> str:
        return scrubbed(super().format(record))


class _FromUs(logging.Filter):
    """Lets through what walshadow and its plugins say."""

    def filter(self, record: logging.LogRecord) -> bool:
        package = record.name.partition(".")[0]
        return package in _OURS or package in _packages_of_plugins()


class _ScrubbedStream:
    """stderr without secrets: for what Typer prints of a command line that has one in the wrong place."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write ``text`` without the secrets of this run."""
        self._stream.write(scrubbed(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _start_logging(level: str) -> None:
    """Log lines of walshadow and its plugins go to stderr. Libraries log what we then report in a line of our own:
    theirs come only to who asked for more."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Scrubbing("%(asctime)s %(levelname)s %(message)s"))
    if level not in ("INFO", "DEBUG"):
        handler.addFilter(_FromUs())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in _OURS if level == "WARNING" else (*_OURS, *_packages_of_plugins()):
        logging.getLogger(name).setLevel(level)


@functools.cache
def _packages_of_plugins() -> frozenset[str]:
    """The packages whose loggers are plugins'. Looked up when it matters: it takes time."""
    from importlib.metadata import entry_points

    return frozenset(point.module.partition(".")[0] for point in entry_points(group=PROGRAM))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program with ``argv`` (``sys.argv`` without its first word by default) and give its exit code."""
    # A list, as all are to be remembered.
    held = [remember(word) for word in (sys.argv[1:] if argv is None else argv)]
    if not any(held):
        return _run(argv)
    with contextlib.redirect_stderr(cast(TextIO, _ScrubbedStream(sys.stderr))):
        return _run(argv)


def _run(argv: Sequence[str] | None) -> int:
    try:
        if argv is None:
            signals.begin()
            hide_argv()
        try:
            app(args=None if argv is None else list(argv), prog_name=PROGRAM)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else EXIT_DONE if leaving.code is None else EXIT_FAILED
    except BrokenPipeError:
        _discard_stdout()
        return EXIT_FAILED
    except KeyboardInterrupt:
        return _interrupted()
    except OSError as error:
        if error.errno != errno.ENOSPC:
            return _report(error)
        _say(f"error: the output could not be written: {error.strerror}; what stderr says of tables holds")
        _discard_stdout()
        return EXIT_FAILED
    except Exception as error:
        return _report(error)
    return EXIT_DONE


def _report(error: Exception) -> int:
    from walshadow_core.api import WalshadowError

    if os.environ.get(TRACEBACK_VARIABLE, "0") not in ("", "0"):
        import traceback

        print(scrubbed("".join(traceback.format_exception(error))), end="", file=sys.stderr)
    if isinstance(error, WalshadowError):
        _say(f"error: {error}")
        return error.exit_code
    _say(
        f"error: {type(error).__name__}: {error}; this is a bug: "
        f"run with --traceback (or {TRACEBACK_VARIABLE}=1) and report it"
    )
    return EXIT_FAILED


def _interrupted() -> int:
    _say("interrupted")
    return EXIT_INTERRUPTED


def _say(text: str) -> None:
    print(scrubbed(" ".join(text.split())), file=sys.stderr)


def _discard_stdout() -> None:
    """Who read our output has left: keep the interpreter from complaining about it when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
