"""The pass: a backup to staging to published tables."""
