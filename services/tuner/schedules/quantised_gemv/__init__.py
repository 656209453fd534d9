"""Products of few rows and quantised weights: threads share each row of the weights."""
