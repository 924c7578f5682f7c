"""PostgreSQL's byte formats, and nothing else: no I/O here."""
