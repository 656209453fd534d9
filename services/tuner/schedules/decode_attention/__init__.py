"""Attention of one token over a cache that it joins."""
