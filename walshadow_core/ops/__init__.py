"""Progress display, logging, secrets."""
