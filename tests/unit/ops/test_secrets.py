"""Passwords stay out of messages, and out of the process list."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from walshadow_core.api import UsageError
from walshadow_core.ops.secrets import (
    STARS,
    hidden,
    hide_argv,
    resolve_secret,
    scrub,
    secrets_in,
)

# ------------------------------------------------------------------------------------------ resolving


def test_a_value_is_itself() -> None:
    assert resolve_secret("host=h user=a@b") == "host=h user=a@b"
    assert resolve_secret("") == ""


def test_a_file(tmp_path: Path) -> None:
    (tmp_path / "dsn").write_text("\n postgresql://u:p@h/d\n\n")
    assert resolve_secret(f"@{tmp_path}/dsn") == "postgresql://u:p@h/d"


def test_a_file_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dsn").write_text("x")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve_secret("@~/dsn") == "x"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\xfd")
    for name, words in (("none", "No such file"), ("empty", "is empty"), ("bytes", "not UTF-8"), ("", "directory")):
        with pytest.raises(UsageError) as error:
            resolve_secret(f"@{tmp_path}/{name}")
        assert words in str(error.value) and str(tmp_path) in str(error.value)


# ------------------------------------------------------------------------------------------ messages


def shown(given: str) -> str:
    """A DSN or URL as a message would show it."""
    return scrub(given, secrets_in(given))


@pytest.mark.parametrize(
    "dsn",
    ["host=h password=hunter2 user=u", "host=h user=u password = 'hunter2 x'", "postgresql://u:hunter2@h/d",
     "postgres://u:hunter%402@h/d", "postgresql://h/d?user=u&password=hunter2", "host=h sslpassword=hunter2 user=u"],
)  # fmt: skip
def test_passwords_of_a_dsn(dsn: str) -> None:
    assert "hunter" not in shown(dsn) and STARS in shown(dsn)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("clickhouse://u:hunter2@h:8123/db", "clickhouse://u:***@h:8123/db"),
        ("clickhouse://u:@h:8123/db", "clickhouse://u:@h:8123/db"),
        ("clickhouse://u@h/db", "clickhouse://u@h/db"),
        ("clickhouse://h:8123/db", "clickhouse://h:8123/db"),
        ("clickhouse://[::1]:8123/db?secure=1", "clickhouse://[::1]:8123/db?secure=1"),
        ("clickhouse://:hunter2@h", "clickhouse://:***@h"),
        ("chdb:///a/b@c?database=db", "chdb:///a/b@c?database=db"),
        ("clickhouse://h/db?password=hunter2&x=1", "clickhouse://h/db?password=***&x=1"),
        ("s3://b/p?aws_secret_access_key=hunter2&Token=hunter2#k", "s3://b/p?aws_secret_access_key=***&Token=***#k"),
        ("http://h:80/?user=a@b", "http://h:80/?user=a@b"),
        ("clickhouse://u:hunter@2@h:8123/db", "clickhouse://u:***@h:8123/db"),
        ("clickhouse://u:hunter/2@h:8123/db", "clickhouse://u:***@h:8123/db"),
        ("clickhouse://u:hunter?a=2@h:8123/db", "clickhouse://u:***@h:8123/db"),
        ("clickhouse://u:hunter#2@h:8123/db", "clickhouse://u:***@h:8123/db"),
        ("clickhouse://u:12/hunter@h:8123/db", "clickhouse://u:***@h:8123/db"),
        ("password=hunter2", "password=***"),
        ("/just/a/path", "/just/a/path"),
    ],
)
def test_passwords_of_a_url(url: str, expected: str) -> None:
    assert shown(url) == expected


@given(st.text(st.one_of(st.sampled_from("@/?#=:&;1%"), st.characters(blacklist_categories=("Cs",)))))
@example("1@/x")
@example("@h/x=?")
@example("1@h?x=1")
def test_a_password_with_anything_in_it(middle: str) -> None:
    secret = f"<{middle}>"
    for written in (secret, quote(secret, safe="")):
        assert shown(f"clickhouse://u:{written}@h:8123/db") == "clickhouse://u:***@h:8123/db"


def test_secrets_in() -> None:
    assert secrets_in("clickhouse://u:p%40ss@h/db?token=tok") == ("p%40ss", "tok", "p@ss")
    assert "p@ss" in secrets_in("postgresql://u:p%40ss@h/db")
    assert secrets_in("host=h password='p w'") == ("p w",)
    assert secrets_in("host=h") == () == secrets_in("clickhouse://h:1/db") == secrets_in("password=a b")


def test_scrub() -> None:
    assert scrub("auth of u with p@ss (p%40ss) failed", ["p@ss"]) == "auth of u with *** (***) failed"
    assert scrub("longer and long", ["long", "longer"]) == "*** and ***"
    assert scrub("a cat, a", ["a"]) == "*** cat, ***"
    assert scrub("nothing", ["", "x"]) == "nothing"


# ------------------------------------------------------------------------------------------------- ps


def test_hidden() -> None:
    dsn, url = "postgresql://u:p@h/d", "clickhouse://u:p@h/d"
    assert hidden(["load", "--source", dsn, "--table", "t", f"--to={url}", "--json"]) == (
        ["load", "--table", "t", "--json"], {"WALSHADOW_SOURCE": dsn, "WALSHADOW_TO": url})  # fmt: skip
    assert hidden(["--dsn", "host=h password=x"]) == ([], {"WALSHADOW_SOURCE": "host=h password=x"})


def test_what_needs_no_hiding_stays() -> None:
    plain = ["load", "--source", "host=h user=u", "--to", "chdb:///tmp/x", "--table", "--source=x"]
    assert hidden(plain) == (plain, {})
    assert hidden(["--source", "@/a/file", "--to=@/b"]) == (["--source", "@/a/file", "--to=@/b"], {})
    assert hidden(["load", "--source"]) == (["load", "--source"], {})
    after = ["load", "--", "--source", "u://a:b@c"]
    assert hidden(after) == (after, {})
    assert hidden([]) == ([], {})


def test_the_last_of_several_counts() -> None:
    assert hidden(["--to", "c://u:p@h", "--to=c://h"]) == ([], {"WALSHADOW_TO": "c://h"})
    assert hidden(["--to=c://h", "--to", "c://u:p@h"]) == ([], {"WALSHADOW_TO": "c://u:p@h"})


def test_not_in_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["walshadow", "--source", "postgresql://u:p@h/d"])
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("started anew inside a test"))
    before = dict(os.environ)
    hide_argv()
    assert dict(os.environ) == before


_PROGRAM = """
import json, os, sys
from walshadow_core.ops.secrets import hide_argv
hide_argv()
heavy = [m for m in ("numpy", "pyarrow", "psycopg", "numba", "typer") if m in sys.modules]
print(json.dumps({"pid": os.getpid(), "argv": sys.argv[1:], "flags": sys.flags.utf8_mode, "heavy": heavy,
                  "source": os.environ.get("WALSHADOW_SOURCE"), "to": os.environ.get("WALSHADOW_TO")}), flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc to see what ps would show")
@pytest.mark.parametrize("how", ["script", "module"])
def test_ps_does_not_show_it(tmp_path: Path, how: str) -> None:
    (tmp_path / "program.py").write_text(_PROGRAM)
    start = [str(tmp_path / "program.py")] if how == "script" else ["-m", "program"]
    command = [sys.executable, "-X", "utf8", *start, "load", "--source", "host=h password='hunter2 ü'",
               "--table", "my table", "--to=clickhouse://u:hunter2@h/db", "--json"]  # fmt: skip
    environment = {k: v for k, v in os.environ.items() if not k.startswith("WALSHADOW_")}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None and child.stdout is not None
        said = json.loads(child.stdout.readline())
        shown = Path(f"/proc/{said['pid']}/cmdline").read_bytes().decode()
        child.stdin.close()
    assert said["pid"] == child.pid
    assert "hunter2" not in shown and "my table" in shown
    assert said["argv"] == ["load", "--table", "my table", "--json"]
    assert said["source"] == "host=h password='hunter2 ü'"
    assert said["to"] == "clickhouse://u:hunter2@h/db"
    assert said["flags"] == 1, "the interpreter's own options are kept"
    assert said["heavy"] == [], "nothing heavy is imported before"
