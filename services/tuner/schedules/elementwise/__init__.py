"""Injective operators: every entry from a few others."""
