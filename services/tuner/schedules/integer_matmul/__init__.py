"""Schedules products of activations of 8 bits with weights of 8 or 7 bits, whose sums are exact."""
