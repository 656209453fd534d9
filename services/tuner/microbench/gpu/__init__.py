"""Probes of GPUs: loop programs that the WGSL printer writes, as it writes kernels."""
