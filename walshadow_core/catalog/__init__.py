"""Relation descriptors."""
