"""The catalog as a backup's own files have it: no server is asked."""
