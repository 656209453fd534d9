"""Evaluates tensor programs in NumPy.

`operators` is one table of what functions and operations compute. Two walkers use it: `entries`
computes a few entries of an output from what they need, and `stages` whole tensors, stage by stage.
Neither shares code with the compiler, so that a fault of one is not a fault of the other.
"""
