"""Passwords: where they may come from, and how they are kept out of messages and out of ``ps``.

Nothing heavy is imported here: `hide_argv` is the first thing that the program does.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, unquote

STARS = "***"
"""What is shown in place of a secret."""

HIDDEN_OPTIONS: Mapping[str, str] = {
    "--source": "WALSHADOW_SOURCE",
    "--dsn": "WALSHADOW_SOURCE",
    "--to": "WALSHADOW_TO",
}
"""Options whose values may hold a password, and the environment variable that each reads as well."""

_SECRET_NAME = r"[\w.-]*(?:passw(?:or)?d|passphrase|secret|token|key|credential|signature)[\w.-]*"
_SECRET_PARAM = re.compile(rf"([?&;#]{_SECRET_NAME}=)([^&;#]*)", re.IGNORECASE)
_HAS_PASSWORD = re.compile(rf"://[^@]*:[^@]*@|(?:^|[?&;#\s]){_SECRET_NAME}\s*=", re.IGNORECASE)
_SHORT = 4


# ------------------------------------------------------------------------------- where they come from


def resolve_secret(text: str) -> str:
    """``@/path/to/file`` gives what is in the file, without the space around it; any other text is itself.

    Raises UsageError, naming the file, if it can't be read or is empty.
    """
    if not text.startswith("@"):
        return text
    path = Path(text[1:]).expanduser()
    try:
        content = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise _usage(f"{path} can't be read: {reason}", "write @/path/to/file, or the value itself") from None
    if not content:
        raise _usage(f"{path} is empty", "put the DSN or URL into it")
    return content


# ---------------------------------------------------------------------------------------- messages


def secrets_in(text: str) -> tuple[str, ...]:
    """The secrets in a DSN or URL, as they are written there and as they are meant, for `scrub`."""
    found: list[str] = []
    _, sep, rest = text.partition("://")
    if sep:
        userinfo, rest = _split_userinfo(rest)
        found.append((userinfo or "").partition(":")[2])
        found += [value for _, value in _SECRET_PARAM.findall(rest)]
        found += [unquote(value) for value in found]
    if not sep or text.startswith(("postgresql:", "postgres:")):
        found += _dsn_secrets(text)
    return tuple(dict.fromkeys(value for value in found if value))


def scrub(text: str, secrets: Iterable[str]) -> str:
    """``text`` with every one of ``secrets``, as it is or percent-encoded, as ``***``.

    Secrets of less than four characters are replaced where they stand as words of their own.
    """
    forms = {form for secret in secrets if secret for form in (secret, quote(secret, safe=""))}
    for form in sorted(forms, key=len, reverse=True):
        if len(form) < _SHORT:
            text = re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", STARS, text)
        else:
            text = text.replace(form, STARS)
    return text


def _split_userinfo(rest: str) -> tuple[str | None, str]:
    """What is before and after the ``@`` that ends a URL's userinfo. A later ``@`` than the authority's counts
    where what is before it may be a piece of a password rather than a path or parameters."""
    authority = rest[: _end_of(rest, "/?#")]
    at = authority.rfind("@")
    last = rest.rfind("@")
    if ":" in authority and last > at:
        is_port = authority.rpartition(":")[2].isdigit()
        if at >= 0 or not is_port or "=" not in rest[_end_of(rest, "?") : last]:
            at = last
    return (None, rest) if at < 0 else (rest[:at], rest[at + 1 :])


def _end_of(text: str, stops: str) -> int:
    return min((i for i in map(text.find, stops) if i >= 0), default=len(text))


def _dsn_secrets(dsn: str) -> tuple[str, ...]:
    from walshadow_core.api import UsageError
    from walshadow_core.catalog.connect import parse_dsn, secrets_of

    try:
        return secrets_of(parse_dsn(dsn))
    except UsageError:
        return ()


# ---------------------------------------------------------------------------------------------- ps


def has_password(word: str) -> bool:
    """Whether a word of the command line looks as if a password were in it. Quick: nothing is parsed."""
    return _HAS_PASSWORD.search(word) is not None


def hidden(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Command-line arguments without the options whose values have a password, and the environment variables
    that say the same. An option that comes several times counts as the last one says, as on the command line.
    """
    found: list[tuple[int, int, str, str]] = []
    position = 0
    while position < len(arguments) and arguments[position] != "--":
        name, equals, value = arguments[position].partition("=")
        words = 1 if equals else 2
        if name in HIDDEN_OPTIONS and position + words <= len(arguments):
            found.append((position, words, name, value if equals else arguments[position + 1]))
            position += words
        else:
            position += 1
    secret = {name for _, _, name, value in found if has_password(value)}
    moved = [option for option in found if option[2] in secret]
    gone = {place for position, words, _, _ in moved for place in range(position, position + words)}
    kept = [argument for place, argument in enumerate(arguments) if place not in gone]
    return kept, {HIDDEN_OPTIONS[name]: value for _, _, name, value in moved}


def hide_argv() -> None:
    """Keep passwords out of ``ps``: if an argument of this process has one, the value moves to the environment
    (which other users can't read) and the program starts anew without it.

    Does nothing where there is nothing to hide, where Python did not start with these arguments (a test that
    sets ``sys.argv``), and on systems without exec. For the moment until the program has started anew the
    value is in the process list: a file (``@/path``) or the environment is better.
    """
    arguments, before = sys.argv[1:], sys.orig_argv[: len(sys.orig_argv) - len(sys.argv) + 1]
    kept, environment = hidden(arguments)
    if not environment or os.name != "posix" or sys.orig_argv != before + arguments or not sys.executable:
        return
    os.environ.update(environment)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *before[1:], *kept])


def _usage(message: str, remedy: str) -> Exception:
    from walshadow_core.api import UsageError

    return UsageError(message, remedy)
