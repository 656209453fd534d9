"""Compiler, search space and microbenchmarks. Pure: no database, no network."""
