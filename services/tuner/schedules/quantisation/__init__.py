"""Schedules the range of activations, and what makes bytes of them."""
