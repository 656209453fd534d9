"""Writes what the crowd learned in the formats of other tuners and as tables for runtimes.

Pure: values to text and text to values. The domain alone is known here, so that the command line
and the services may both use it.
"""
