"""Collects garbage in pieces that do not hold the gateway's only thread.

A collection held it for 130 ms where it looked through what was imported and built, which stays,
and for 28 to 79 ms where it looked through fifty thousand objects that came since, as connections
of a flood do, and found nothing. Reference counts free what requests make: 200 agents leave some 20
objects a second that only a collection finds.
"""

import asyncio
import gc

YOUNGEST_EVERY_S = 0.05
"""The interpreter counts what is made less what is freed, so that where old connections go as new
ones come it waits for long, and then has forty thousand objects to look through."""
COLLECTED_AT = (2_000, 5_000, 10)
"""Objects beyond those that were there at the last collection of the youngest, where many come
between two of these; how many of these make one of those that are older, which takes 0.1 s under a
flood, and how many of those one of all."""


def spare_what_is_there() -> None:
    """Call it once everything is imported and built."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTED_AT)


async def collect_youngest() -> None:
    """Goes on until it is cancelled."""
    while True:
        await asyncio.sleep(YOUNGEST_EVERY_S)
        gc.collect(0)
