"""Products of few rows with constant weights, which are read ahead of their use."""
