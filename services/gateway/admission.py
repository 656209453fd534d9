"""How many manifests that are in no memory may be built at one time."""

import time
from collections.abc import Callable
from math import inf

MOST_AT_ONCE = 16
"""Misses under way at one time, while they are answered fast."""
SLOW_S = 0.06
"""A miss that takes longer than this, most of it behind others, is slow."""
LATE_S = 0.01
"""While the thread comes to its work later than this, one miss is under way at a time."""
FEWEST = 1
"""Misses that may be under way though they are slow."""
LONGEST_PAUSE_S = 1.0


class Admission:
    """The number of misses under way grows by one while as many are answered fast, and halves with
    a slow one, as a congestion window does (RFC 5681). It halves once for those that were under way
    together: they were slow for the same reason.

    Then, and while the thread is late, the next waits as long as the last one took, so that misses
    have half of the thread at most. Neither happens where nobody was refused: a slow database alone
    is no flood.
    """

    def __init__(
        self, late_s: Callable[[], float], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`late_s`: how late the thread came to its work of late."""
        self._late_s = late_s
        self._clock = clock
        self._limit = float(MOST_AT_ONCE)
        self._halved_s = -inf
        self._refused = False
        self._closed_until_s = 0.0
        self.under_way = 0

    def enter(self) -> bool:
        """Whether a miss may begin. If so, `leave` is called at its end."""
        limit = 1 if self._late_s() > LATE_S else int(self._limit)
        if self.under_way >= limit or self._clock() < self._closed_until_s:
            self._refused = True
            return False
        self.under_way += 1
        return True

    def leave(self, took_s: float) -> None:
        self.under_way -= 1
        now_s = self._clock()
        slow = took_s > SLOW_S
        if not slow:
            self._limit = min(MOST_AT_ONCE, self._limit + 1 / self._limit)
        halves = self._refused and slow and now_s - took_s >= self._halved_s
        if halves:
            self._limit, self._halved_s = max(FEWEST, self._limit / 2), now_s
        if halves or (self._refused and self._late_s() > LATE_S):
            self._closed_until_s = now_s + min(took_s, LONGEST_PAUSE_S)
        self._refused = False
