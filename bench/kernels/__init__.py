"""Measures how fast kernels are and how fast they are compiled, beside their peers."""
