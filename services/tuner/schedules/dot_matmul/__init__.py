"""Schedules products of integers by dot products of four bytes each, in blocks as products of
reals."""
