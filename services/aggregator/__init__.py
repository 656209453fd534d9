"""Decides what becomes of reports: output checks, the vote, the publishing rule. Pure functions."""
