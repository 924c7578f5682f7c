"""From tuples to Arrow columns."""
