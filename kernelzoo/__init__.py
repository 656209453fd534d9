"""What every process of kernelzoo agrees on: values, store, jobs, settings."""

__version__ = "0.1.0"
