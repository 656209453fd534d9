"""Products of matrices with constant weights by seven products of their quarters."""
