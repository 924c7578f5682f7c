"""The options that users give as ``--to-option NAME=VALUE``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, Json, Secret

PREFIX = "parquet+"
"""What our URLs begin with; an fsspec protocol follows."""


class Settings(BaseModel):
    """Every field has a description: ``walshadow plugins show sink-parquet`` prints them."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    compression: Literal["zstd", "snappy", "gzip", "brotli", "lz4", "none"] = Field(
        "zstd", description="Compression of the Parquet files."
    )
    rows_per_file: int = Field(5_000_000, gt=0, description="Rows of a file at most; then the next one is begun.")
    out_of_range: Literal["null", "error"] = Field(
        "null",
        description="Values that Parquet can't hold (infinite dates and timestamps, numeric NaN, 24:00:00): "
        "write NULL and count them, or fail.",
    )
    storage_options: Secret[Json[dict[str, Any]]] = Field(
        default_factory=lambda: Secret({}),
        description="What the fsspec file system takes, as a JSON object: keys, endpoints.",
    )
