"""Probe modules: one variable at a time, in registers only, for ρ and the limit of a core."""
