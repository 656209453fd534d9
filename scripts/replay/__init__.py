"""Kernel replay: which generated kernels differ between two commits (see `__main__`)."""
