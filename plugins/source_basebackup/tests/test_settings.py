"""The options: what they take, and one line for what they don't."""

from __future__ import annotations

import pytest
from walshadow_source_basebackup.plugin import walshadow_backup_source, walshadow_plugin_info
from walshadow_source_basebackup.settings import Settings, parse_settings

from walshadow_core.api import UsageError

SECRET = "s3cr3t-w0rd"


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("32MB", 32 << 20),
        ("64M", 64 << 20),
        ("1G", 1 << 30),
        ("1 GiB/s", 1 << 30),
        ("100kB/s", 100 << 10),
        ("1.5m", 3 << 19),
        ("32768", 32768),
        (65536, 65536),
    ],
)
def test_rates(text: str | int, rate: int) -> None:
    settings = parse_settings({"dsn": "", "max_rate": text})
    assert settings.max_rate == rate
    assert settings.max_rate_kb == rate // 1024


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "needs the source's connection string: give --source"),
        ({"dsn": "", "max_rte": "1G"}, "has no option 'max_rte'; it has max_rate, checkpoint"),
        ({"dsn": "", "max_rate": "fast"}, "option max_rate: 'fast' is not a rate; write 32MB"),
        ({"dsn": "", "max_rate": "31kB"}, "option max_rate: Postgres takes rates from 32kB to 1GB"),
        ({"dsn": "", "max_rate": "2G"}, "option max_rate: Postgres takes rates from 32kB to 1GB"),
        ({"dsn": "", "checkpoint": "slow"}, "option checkpoint: Input should be 'fast' or 'spread'"),
        ({"dsn": "", "label": "é" * 513}, "option label: at most 1024 bytes"),
        ({"dsn": "", "label": "a\nb"}, "option label: .*printable"),
        ({"dsn": "", "connect_timeout": "soon"}, "option connect_timeout: "),
        ({"dsn": f"host=db password=two {SECRET}"}, "option dsn: not a connection string"),
        ({"dsn": f"postgresql://me:{SECRET}%zz@db/shop"}, "option dsn: not a connection string"),
    ],
)
def test_errors_are_one_line_without_secrets(options: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        walshadow_backup_source("base_backup", options)
    assert "\n" not in str(caught.value)
    assert SECRET not in str(caught.value)
    assert caught.value.exit_code == 2


def test_secrets_are_not_printed() -> None:
    settings = parse_settings({"dsn": f"host=db password={SECRET}"})
    assert SECRET not in repr(settings) + str(settings) + str(settings.model_dump())


def test_every_setting_is_explained() -> None:
    for field in Settings.model_fields.values():
        assert field.description and field.examples
    assert walshadow_plugin_info().settings is Settings
    assert walshadow_plugin_info().modes == ("base_backup",)


def test_another_mode_is_not_ours() -> None:
    assert walshadow_backup_source("object_store", {}) is None
