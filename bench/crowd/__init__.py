"""Measures what a crowd finds and what it is served: fallback chain, cost model, sharing,
attackers."""
