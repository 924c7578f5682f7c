"""walshadow: Postgres's own bytes into ClickHouse."""
