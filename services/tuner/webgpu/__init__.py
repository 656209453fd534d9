"""Kernels for GPUs: their settings, and their loop nests over workgroups and threads."""
