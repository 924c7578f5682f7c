"""Redo: copied pages brought forward to one moment with the WAL, as recovery does, for the filter set alone."""
