"""What a user can set: in the URL after ``?``, or as ``--to-option name=value`` (which wins)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from walshadow_core.api import UsageError

OutOfRange = Literal["clamp", "null", "error"]


class Settings(BaseModel):
    """Settings of the ClickHouse destination."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    database: str | None = Field(default=None, description="the database, if the URL's path does not name it")
    password_file: Path | None = Field(default=None, description="a file that holds the password")
    out_of_range: OutOfRange = Field(
        default="clamp",
        description="values that ClickHouse can't hold (dates out of its range, infinity, NaN in a Decimal): "
        "clamp to the nearest bound (a NaN becomes NULL), null, or error",
    )
    compression: Literal["auto", "none", "lz4", "zstd"] = Field(
        default="auto", description="of inserts over HTTP; auto is none on loopback, lz4 elsewhere"
    )
    insert_timeout: int = Field(default=300, ge=1, description="seconds that one insert may take")
    connect_timeout: int = Field(default=10, ge=1, description="seconds that a connection may take")
    verify: bool = Field(default=True, description="check the server's certificate (clickhouses://)")
    ca_cert: Path | None = Field(default=None, description="the authority's certificate, for clickhouses://")
    client_cert: Path | None = Field(default=None, description="a client certificate, for clickhouses://")
    client_cert_key: Path | None = Field(default=None, description="the key of client_cert")
    blocks: int = Field(
        default=4, ge=2, le=64, description="blocks that may be in memory at once, over all tables of a load"
    )


def make_settings(values: Mapping[str, Any]) -> Settings:
    """Validate ``values``. Raises UsageError naming each setting that is unknown or out of range."""
    try:
        return Settings(**values)
    except ValidationError as error:
        problems = []
        for item in error.errors():
            name = ".".join(str(part) for part in item["loc"])
            if item["type"] == "extra_forbidden":
                problems.append(f"no setting {name!r}")
            else:
                problems.append(f"{name}: {item['msg']}")
        raise UsageError(
            f"ClickHouse destination: {', '.join(problems)}",
            "`walshadow plugins show sink-clickhouse` lists the settings",
        ) from None
