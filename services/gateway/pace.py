"""Spreads over time what falls due together, so that it does not hold the thread at one stretch."""

from math import inf

EVERY_S = 0.0005
"""To end a connection takes a tenth of this."""


class Pace:
    """Gives turns, one `every_s`, in the order in which they are asked for."""

    def __init__(self, every_s: float = EVERY_S) -> None:
        self._every_s = every_s
        self._last_s = -inf

    def turn_s(self, due_s: float) -> float:
        """Returns when it is the turn of what is due then: not before, and behind the one that was
        given last."""
        self._last_s = max(due_s, self._last_s + self._every_s)
        return self._last_s
