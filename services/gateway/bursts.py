"""Spreads the failures and ballots that a network may send in a minute over that minute.

A ballot takes milliseconds of the only thread, also one that changes nothing: sixteen networks that
sent the 300 of a minute as fast as they could kept it busy for ten seconds, in which page loads
waited.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from services.gateway.problems import Refusal

AT_ONCE = 50
"""So many may come together: agents of one office that finish at the same time file a few each."""
PER_SECOND = 5.0
"""So many of a network may follow, or as many as its limit allows where that is more."""
LONGEST_S = 60
"""Nobody is told to come back later than this: in a minute a network may send its limit anew."""
MOST_REMEMBERED = 4096
"""Networks of which it is remembered what they have left. Past it all have everything again."""


@dataclass(slots=True, kw_only=True)
class _Bucket:
    """Tokens that a network had `left` at `since_s`. `promised`: so many were told to come back
    whose time had not come; the next one's is behind theirs.
    """

    since_s: float
    left: float = float(AT_ONCE)
    promised: float = 0.0

    def refill(self, now_s: float, per_second: float) -> None:
        came = (now_s - self.since_s) * per_second
        self.left = min(float(AT_ONCE), self.left + came)
        self.promised = max(0.0, self.promised - came)
        self.since_s = now_s


class Bursts:
    """A bucket of tokens for each network, of this process alone."""

    def __init__(
        self, per_second: float = PER_SECOND, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second = max(per_second, PER_SECOND)
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    def take(self, network: str) -> None:
        """Raises Refusal (429) for one too many."""
        bucket = self._bucket(network)
        bucket.refill(self._clock(), self._per_second)
        if bucket.left >= 1:
            bucket.left -= 1
            return
        wait_s = (1 - bucket.left + bucket.promised) / self._per_second
        if wait_s < LONGEST_S:
            bucket.promised += 1
        raise _refusal(min(LONGEST_S, math.ceil(wait_s)))

    def _bucket(self, network: str) -> _Bucket:
        bucket = self._buckets.get(network)
        if bucket is None:
            if len(self._buckets) >= MOST_REMEMBERED:
                self._buckets.clear()
            bucket = self._buckets[network] = _Bucket(since_s=self._clock())
        return bucket


def _refusal(wait_s: int) -> Refusal:
    return Refusal(
        HTTPStatus.TOO_MANY_REQUESTS,
        f"this network sent more than {AT_ONCE} failures and ballots at once; "
        f"come back in {wait_s} s",
        {"Retry-After": str(wait_s)},
    )
