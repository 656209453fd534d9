"""Limits how many manifests that are in no memory may be built at one time, and for whom."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
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
RESERVED = 4
"""So many more may be under way at one time for networks that have asked for few,"""
RESERVED_PER_S = 20.0
"""and so many begin in a second, however many networks there are."""
FEW = 4
"""Misses of one network in `WINDOW_S` that are few: those of a page."""
WINDOW_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A miss that is under way has one."""

    reserved: bool


class Admission:
    """The number of misses under way grows by one while as many are answered fast, and halves with
    a slow one, as a congestion window does (RFC 5681). It halves once for those that were under way
    together: they were slow for the same reason.

    Then, and while the thread is late, the next waits as long as the last one took, so that misses
    have half of the thread at most. Neither happens where nobody was refused: a slow database alone
    is no flood.

    Where there is no place left, a network that was given few lately has one of the reserve: a page
    whose class nobody asked for yet does not wait for the end of the flood.
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
        self._reserved = 0
        self._reserve = float(RESERVED)
        self._refilled_s = clock()
        self._given: Counter[str] = Counter()
        self._window_s = -inf

    def enter(self, network: str) -> Place | None:
        """None where a miss may not begin; else `leave` is called at its end."""
        now_s = self._clock()
        if now_s >= self._window_s + WINDOW_S:
            self._window_s = now_s
            self._given.clear()
        limit = 1 if self._late_s() > LATE_S else int(self._limit)
        if self.under_way < limit and now_s >= self._closed_until_s:
            self.under_way += 1
            self._given[network] += 1
            return Place(reserved=False)
        self._refused = True
        self._reserve = min(RESERVED, self._reserve + RESERVED_PER_S * (now_s - self._refilled_s))
        self._refilled_s = now_s
        if self._given[network] >= FEW or self._reserved >= RESERVED or self._reserve < 1:
            return None
        self._reserved += 1
        self._reserve -= 1
        self._given[network] += 1
        return Place(reserved=True)

    def leave(self, place: Place, took_s: float) -> None:
        if place.reserved:
            self._reserved -= 1
            return
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
