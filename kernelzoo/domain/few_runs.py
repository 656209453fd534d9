"""Decides when a page that runs a model few times is offered another kernel than the fastest.

The gateway lends by it what may be offered, so that enough measure it; the aggregator decides by it
what is offered (docs/adr/0072).
"""

RUNS = (1, 30)
"""One, and few: of a page that runs a model for some seconds."""

CLOSE = 2.0
"""Whoever runs a kernel more often than it said waits twice as long at the most."""

SAVING = 0.1
"""Costs before warm runs are measured once by each, not in interleaved rounds: totals closer than
this change places between two measurements of one device."""
