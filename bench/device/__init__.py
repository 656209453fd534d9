"""Measures what a page does of a device: primitives, and how stable its probe is."""
