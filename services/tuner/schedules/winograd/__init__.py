"""Convolutions of 3 x 3 as products of transformed tiles."""
