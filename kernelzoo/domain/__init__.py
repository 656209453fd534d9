"""Frozen values that every process shares. Standard library only."""
