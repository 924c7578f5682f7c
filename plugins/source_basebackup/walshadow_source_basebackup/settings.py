"""The options of mode ``base_backup``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError, field_validator

from walshadow_core.api import UsageError

MODE = "base_backup"

MIN_RATE, MAX_RATE = 32 << 10, 1 << 30
"""What Postgres takes as MAX_RATE (32 kB/s to 1 GB/s), here in bytes."""
MAX_LABEL = 1024
"""Bytes that a backup label may have (``MAXPGPATH``)."""

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def parse_rate(value: object) -> object:
    """``'32MB'``, ``'64M'``, ``'1G'``, ``'100kB/s'`` or a number of bytes to bytes per second, in units of 1024
    as Postgres reads them. Raises ValueError."""
    if not isinstance(value, str):
        return value
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmg]?)(?:i?b)?(?:/s)?\s*", value, re.IGNORECASE)
    if not found:
        raise ValueError(f"{value!r} is not a rate; write 32MB, 1G or a number of bytes per second")
    return int(float(found[1]) * _UNITS[found[2].lower()])


class Settings(BaseModel):
    """How the backup is taken."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    dsn: SecretStr = Field(
        description="Connection string of the source: libpq words or a postgresql:// URL. What it leaves out comes "
        "from libpq's own places: PGHOST and friends, a service file, ~/.pgpass.",
        examples=["host=db.example.com user=walshadow dbname=shop"],
    )
    max_rate: Annotated[int | None, BeforeValidator(parse_rate)] = Field(
        default=None,
        ge=MIN_RATE,
        le=MAX_RATE,
        description="Most bytes per second that the server may send, 32kB to 1GB; without it, as fast as it can.",
        examples=["32MB"],
    )
    checkpoint: Literal["fast", "spread"] = Field(
        default="fast",
        description="The checkpoint that begins the backup: 'fast' at once, with a burst of writes at the source; "
        "'spread' over checkpoint_completion_target, which can take minutes.",
        examples=["spread"],
    )
    label: str | None = Field(
        default=None,
        min_length=1,
        description="The label of the backup, as the server's backup_label has it; 'walshadow' if not given.",
        examples=["load of app.orders"],
    )
    connect_timeout: int = Field(
        default=10,
        ge=1,
        le=3600,
        description="Seconds to wait for a connection, per address; connect_timeout in the dsn goes before it.",
        examples=["30"],
    )

    @field_validator("dsn")
    @classmethod
    def _dsn_is_understood(cls, dsn: SecretStr) -> SecretStr:
        # here, so that a list of plugins does not load libpq
        import psycopg
        from psycopg.conninfo import conninfo_to_dict

        try:
            conninfo_to_dict(dsn.get_secret_value())
        except psycopg.Error:
            # libpq's own message quotes the piece that it stumbled over, which may be the password
            raise ValueError(
                "not a connection string; write 'host=… user=… dbname=…' or 'postgresql://user@host/dbname', "
                "with spaces in values quoted, in a URL with %20"
            ) from None
        return dsn

    @field_validator("label")
    @classmethod
    def _label_fits(cls, label: str | None) -> str | None:
        if label is not None and (len(label.encode()) > MAX_LABEL or not label.isprintable()):
            raise ValueError(f"at most {MAX_LABEL} bytes, printable characters only")
        return label

    @property
    def max_rate_kb(self) -> int | None:
        """``max_rate`` as the protocol wants it."""
        return None if self.max_rate is None else self.max_rate // 1024


def parse_settings(options: Mapping[str, Any]) -> Settings:
    """Options as the user gave them to Settings. Raises UsageError, in one line and without their values."""
    try:
        return Settings.model_validate(dict(options))
    except ValidationError as error:
        raise UsageError("; ".join(_explain(e["loc"], e["type"], e["msg"]) for e in error.errors())) from None


def _explain(location: tuple[int | str, ...], kind: str, message: str) -> str:
    name = ".".join(map(str, location))
    if kind == "extra_forbidden":
        known = ", ".join(n for n in Settings.model_fields if n != "dsn")
        return f"{MODE} has no option {name!r}; it has {known}"
    if kind == "missing":
        return f"{MODE} needs the source's connection string: give --source, or WALSHADOW_SOURCE"
    if name == "max_rate" and kind in ("greater_than_equal", "less_than_equal"):
        message = "Postgres takes rates from 32kB to 1GB per second"
    return f"{MODE} option {name}: {message.removeprefix('Value error, ')}"
