"""Measures how fast whole networks run in a page, beside their peers, and makes the networks for
it."""
