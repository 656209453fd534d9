"""Recurrences: a loop over steps, each of which is made from the one before."""
