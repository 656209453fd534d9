"""How many manifests that are in no memory may be built at one time."""

import time
from collections.abc import Callable

MOST_AT_ONCE = 16
"""Misses under way at one time, while they are answered fast."""
SLOW_S = 0.1
"""A miss that takes longer than this is slow."""
LATE_S = 0.01
"""While the thread comes to its work later than this, one miss is under way at a time."""
FEWEST = 1
"""Misses that may be under way though they are slow."""
LONGEST_PAUSE_S = 1.0


class Admission:
    """The number of misses under way may grow by one with each that was answered fast, and halves
    with each slow one, as a congestion window does (RFC 5681).

    After a slow one, or while the thread is late, the next waits as long as the last one took, so
    that misses have half of the thread at most. Neither happens where nobody was refused: a slow
    database alone is no flood.
    """

    def __init__(
        self, late_s: Callable[[], float], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`late_s`: how late the thread came to its work of late."""
        self._late_s = late_s
        self._clock = clock
        self._limit = MOST_AT_ONCE
        self._refused = False
        self._closed_until_s = 0.0
        self.under_way = 0

    def enter(self) -> bool:
        """Whether a miss may begin. If so, `leave` is called at its end."""
        limit = 1 if self._late_s() > LATE_S else self._limit
        if self.under_way >= limit or self._clock() < self._closed_until_s:
            self._refused = True
            return False
        self.under_way += 1
        return True

    def leave(self, took_s: float) -> None:
        self.under_way -= 1
        slow = took_s > SLOW_S
        if not slow:
            self._limit = min(MOST_AT_ONCE, self._limit + 1)
        if self._refused and slow:
            self._limit = max(FEWEST, self._limit // 2)
        if self._refused and (slow or self._late_s() > LATE_S):
            self._closed_until_s = self._clock() + min(took_s, LONGEST_PAUSE_S)
        self._refused = False
