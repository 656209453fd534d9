"""Open streams of candidates for pages that tune themselves: how many, and what they look at.

Pages of one class ask for the same, so that what is there is looked up once for all of them.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus

from services.gateway.problems import Refusal
from services.gateway.queueing import Tried
from services.gateway.remembered import Remembered

MOST = 256
MOST_OF_NETWORK = 32
RETRY_S = 5
LOOKED_EVERY_S = 0.5
LOOKS_AT_ONCE = 2
"""A share of the connections of agents: whoever asks for strange classes holds no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unconfirmed:
    """What of a plan its class has not confirmed, and the time of the newest compilation."""

    left: tuple[Tried, ...]
    newest_s: float


class Streams:
    """Counts those of this process."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()
        self._seen: Remembered[Unconfirmed] = Remembered(LOOKED_EVERY_S)
        self._looking = asyncio.Semaphore(LOOKS_AT_ONCE)

    def refuse_excess(self, network: str) -> None:
        """Raises Refusal (429 or 503) where one more is too many."""
        later = {"Retry-After": str(RETRY_S)}
        if self._open[network] >= MOST_OF_NETWORK:
            raise Refusal(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"this network has {MOST_OF_NETWORK} streams of candidates open; let one of them "
                "end, then ask again",
                later,
            )
        if self._open.total() >= MOST:
            raise Refusal(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "too many pages tune themselves; the model runs all the same, ask again later",
                later,
            )

    @contextmanager
    def counted(self, network: str) -> Iterator[None]:
        self._open[network] += 1
        try:
            yield
        finally:
            self._open[network] -= 1
            if self._open[network] <= 0:
                del self._open[network]

    async def look(self, plan: Hashable, see: Callable[[], Awaitable[Unconfirmed]]) -> Unconfirmed:
        """What `see` finds, or found a moment ago."""

        async def in_turn() -> Unconfirmed:
            async with self._looking:
                return await see()

        return await self._seen.get(plan, in_turn)
