"""A set of kernels, or a model, as files for a static host."""
