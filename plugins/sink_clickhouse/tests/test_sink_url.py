"""URL forms, passwords, and that no secret is shown."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
from walshadow_sink_clickhouse.engine import EngineServer
from walshadow_sink_clickhouse.plugin import walshadow_destination
from walshadow_sink_clickhouse.url import Target, parse_url

from walshadow_core.api import DestinationError, UsageError


@pytest.mark.parametrize(
    ("url", "expected", "shown"),
    [
        ("clickhouse://h", ("h", 8123, "default", "", "default"), "clickhouse://h:8123/default"),
        ("clickhouse://u:p%40w@h:99/my%20db", ("h", 99, "u", "p@w", "my db"), "clickhouse://u@h:99/my%20db"),
        ("clickhouses://u@h?database=d", ("h", 8443, "u", "", "d"), "clickhouses://u@h:8443/d"),
        ("clickhouse://[::1]:8123/d", ("::1", 8123, "default", "", "d"), "clickhouse://[::1]:8123/d"),
    ],
)
def test_forms(url: str, expected: tuple[Any, ...], shown: str) -> None:
    """Host, port, user, password, database."""
    target = parse_url(url, {}, {})
    assert (target.host, target.port, target.user, target.password, target.database) == expected
    assert target.display_url == shown


def test_embedded_form() -> None:
    """An absolute path, the database as a setting; options win over the URL."""
    target = parse_url("chdb:///data/my%20engine?database=db&out_of_range=null", {"out_of_range": "error"}, {})
    assert (target.path, target.database, target.settings.out_of_range) == (Path("/data/my engine"), "db", "error")
    assert target.display_url == "chdb:///data/my%20engine?database=db"


def test_where_a_password_comes_from(tmp_path: Path) -> None:
    """The URL, then the file, then the environment."""
    file = tmp_path / "pw"
    file.write_text("from file\n")
    environment = {"CLICKHOUSE_PASSWORD": "from env"}
    in_file = {"password_file": str(file)}
    assert parse_url("clickhouse://u:inurl@h", in_file, environment).password == "inurl"
    assert parse_url("clickhouse://u@h", in_file, environment).password == "from file"
    assert parse_url("clickhouse://u@h", {}, environment).password == "from env"
    with pytest.raises(UsageError, match="can't read the password file"):
        parse_url("clickhouse://u@h", {"password_file": str(tmp_path / "none")}, {})


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("clickhouse://u:hidden-word@/db", "names no host"),
        ("clickhouse://u:hidden-word@h:port/db", "port is not a number"),
        ("clickhouse://u:hidden-word@h:99999/db", "port is not a number"),
        ("clickhouse://u:hidden-word@[::1/db", "can't be read"),
        ("clickhouse://u:hidden-word@h/a?database=b", "two databases"),
        ("clickhouse://u:hidden-word@h/a?nosuch=1&insert_timeout=x", "insert_timeout: .*no setting 'nosuch'"),
        ("chdb://relative/path", "absolute path"),
        ("clickhouse://u:hidden-word@h/a?out_of_range=maybe", "out_of_range"),
    ],
)
def test_mistakes(url: str, words: str) -> None:
    """Each is a usage error that names the thing, and no secret."""
    with pytest.raises(UsageError, match=words) as error:
        parse_url(url, {}, {})
    assert "hidden-word" not in str(error.value)


def test_other_schemes_are_left_alone() -> None:
    """The hook answers for its own schemes only."""
    assert walshadow_destination("parquet:///x", {}) is None
    assert walshadow_destination("clickhouse", {}) is None


def test_password_is_not_in_a_repr() -> None:
    """Whoever prints a target."""
    target = parse_url("clickhouse://u:hidden-word@h", {}, {})
    assert isinstance(target, Target) and "hidden-word" not in repr(target)


def test_nobody_answers() -> None:
    """One line, the remedy, no password."""
    destination = walshadow_destination("clickhouse://u:hidden-word@127.0.0.1:9/db", {})
    assert destination is not None
    with pytest.raises(DestinationError, match=r"no ClickHouse answers at clickhouse://u@127\.0\.0\.1:9/db; ") as error:
        destination.fingerprint("t")
    assert "hidden-word" not in str(error.value) and "\n" not in str(error.value)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here to make a certificate")
def test_tls(embedded_path: Path, tmp_path: Path) -> None:
    """clickhouses:// trusts the given authority, refuses an unknown certificate in one line, or does not look."""
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *names], check=True, capture_output=True)
    server = EngineServer(embedded_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server._server.socket = context.wrap_socket(server._server.socket, server_side=True)
    url = f"clickhouses://u:hidden-word@localhost:{server.port}/d"
    with server:
        for options in ({"ca_cert": str(certificate)}, {"verify": "false"}):
            destination = walshadow_destination(url, options)
            assert destination is not None and destination.fingerprint("t") is None
            destination.close()
        stranger = walshadow_destination(url, {})
        assert stranger is not None
        with pytest.raises(DestinationError, match=r"no TLS with clickhouses://u@localhost.*ca_cert") as error:
            stranger.fingerprint("t")
        assert "hidden-word" not in str(error.value) and "\n" not in str(error.value)
