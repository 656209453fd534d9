"""Attention of a block of rows over a cache that they join, by tiles of scores."""
