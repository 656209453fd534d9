"""Reductions over rows: sums, norms, softmax."""
