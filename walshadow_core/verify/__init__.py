"""Comparing a destination with its source."""
