"""walshadow backup source: one BASE_BACKUP over a replication connection, read as a stream."""
