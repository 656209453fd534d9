"""Which candidates are worth measuring first, learned from what the crowd has measured.

Observations in, the bytes of a model and its evaluation out; no clock, no chance, no I/O.
"""
