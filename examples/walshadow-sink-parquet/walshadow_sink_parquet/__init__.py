"""A walshadow destination that writes Parquet files; made with ``walshadow_core.api`` alone."""
