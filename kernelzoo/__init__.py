"""Every process of kernelzoo agrees on this: values, store, jobs, settings."""

__version__ = "0.1.0"
