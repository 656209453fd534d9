"""Products of a few rows with a matrix, which is streamed."""
