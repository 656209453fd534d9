"""Spreads the failures and ballots that a network may send in a minute over that minute.

A ballot takes milliseconds of the only thread, also one that changes nothing: sixteen networks that
sent the 300 of a minute as fast as they could kept it busy for ten seconds, in which page loads
waited.
"""

import math
import time
from collections.abc import Callable
from http import HTTPStatus

from services.gateway.problems import Refusal

AT_ONCE = 50
"""So many may come together: agents of one office that finish at the same time file a few each."""
PER_SECOND = 5.0
"""So many of a network may follow, or as many as its limit allows where that is more."""
MOST_REMEMBERED = 4096
"""Networks of which it is remembered what they have left. Past it all have everything again."""


class Bursts:
    """A bucket of tokens for each network, of this process alone."""

    def __init__(
        self, per_second: float = PER_SECOND, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second = max(per_second, PER_SECOND)
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}
        """Maps a network to what it had left, and when."""

    def take(self, network: str) -> None:
        """Raises Refusal (429) for one too many."""
        now_s = self._clock()
        before, since_s = self._left.get(network, (float(AT_ONCE), now_s))
        left = min(float(AT_ONCE), before + (now_s - since_s) * self._per_second)
        if left < 1:
            wait_s = math.ceil((1 - left) / self._per_second)
            raise Refusal(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"this network sent more than {AT_ONCE} failures and ballots at once; "
                f"come back in {wait_s} s",
                {"Retry-After": str(wait_s)},
            )
        if len(self._left) >= MOST_REMEMBERED:
            self._left.clear()
        self._left[network] = left - 1, now_s
