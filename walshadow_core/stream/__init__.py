"""WAL as it comes: records out of files, archives and streams."""
