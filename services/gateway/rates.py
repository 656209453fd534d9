"""Limits how often one network, agent or application may ask, and how many of its polls may wait.

Redis counts requests for all gateways together. It may be flushed or away at any time: then
counting begins anew, or each process counts alone. Agents ask so often that a process takes a few
requests at a time for each: Redis counts them as asked, whether or not the agent comes to ask them
here.

A request for a lease that waits keeps a connection and is woken whenever anything changes, so that
thousands of them take a core's whole time while they wait for nothing. Each process counts those of
one agent, and of the strangers of one network.
"""

import math
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus

import structlog
from limits import RateLimitItem, RateLimitItemPerMinute, parse
from limits.aio.storage import MemoryStorage, RedisStorage
from limits.aio.strategies import SlidingWindowCounterRateLimiter
from limits.errors import StorageError
from redis.asyncio import ConnectionPool

from kernelzoo.errors import InvalidInput
from kernelzoo.settings import Settings
from services.gateway.bursts import Bursts
from services.gateway.problems import Refusal
from services.gateway.tokens import Session

log = structlog.get_logger(__name__)

AWAY_S = 5.0
"""Redis is not asked again for so long after it did not answer."""
PATIENCE_S = 0.25
SHARE = 50
"""An agent's requests are taken from its limit by the fiftieth part of it,"""
GOOD_FOR = 1 / 12
"""and hold for this part of its period: so one that asks evenly loses a quarter of it at worst."""
VAIN = RateLimitItemPerMinute(30)
"""Reports of an agent that answer no open lease of its for the first time: those whose answer was
lost, and a few of agents that are mistaken."""
MOST_TAKEN = 4096
"""Agents of whom the process remembers what it has taken."""


@dataclass(slots=True, kw_only=True)
class _Taken:
    """Requests of an agent that are counted and not yet made."""

    left: int
    until_s: float

    def use(self) -> bool:
        if self.left == 0 or time.monotonic() >= self.until_s:
            return False
        self.left -= 1
        return True


class RateLimits:
    """`close` ends the connections to Redis."""

    def __init__(self, settings: Settings) -> None:
        self._sessions = _rate("sessions_rate", settings.sessions_rate)
        self._reports = _rate("reports_rate", settings.reports_rate)
        self._agents = _rate("agent_rate", settings.agent_rate)
        self._applications = _rate("application_rate", settings.application_rate)
        self._pool = ConnectionPool.from_url(
            settings.redis_url,
            socket_timeout=PATIENCE_S,
            socket_connect_timeout=PATIENCE_S,
            # Else each new connection looks for the client's version among the installed packages:
            # 100 agents that came at once held the only thread for 150 ms.
            driver_info=None,
        )
        redis = RedisStorage(
            f"async+{settings.redis_url}",
            wrap_exceptions=True,
            implementation="redispy",
            key_prefix="kernelzoo-rate",
            connection_pool=self._pool,  # type: ignore[arg-type]
        )
        self._shared = SlidingWindowCounterRateLimiter(redis)
        self._own = SlidingWindowCounterRateLimiter(MemoryStorage())
        self._away_until_s = 0.0
        self._taken: dict[str, _Taken] = {}
        self._bursts = _bursts(self._reports)

    async def session(self, network: str) -> None:
        """Each raises Refusal (429) for one request too many."""
        await self._count(self._sessions, "this network's sessions", network)

    async def report(self, network: str) -> None:
        """Failures and ballots, of which each may have a key counted again, and wrong outputs, for
        which a plan is read."""
        if self._bursts is not None:
            # It is this process's thread that is spared, of which Redis need not know.
            self._bursts.take(network)
        await self._count(self._reports, "this network's failures and ballots", network)

    async def agent(self, identity: str) -> None:
        taken = self._taken.get(identity)
        if taken is None or not taken.use():
            await self._take(identity)

    async def vain(self, identity: str) -> None:
        """A report that is refused costs what one that is stored does."""
        await self._count(VAIN, "this agent's reports that answer no lease", identity)

    async def application(self, number: int) -> None:
        await self._count(self._applications, "this application's requests", str(number))

    async def close(self) -> None:
        await self._pool.aclose()

    async def _take(self, identity: str) -> None:
        """Counts this request and, where the limit leaves room for them, a few that may follow."""
        if (rate := self._agents) is None:
            return
        what, several = "this agent's requests", rate.amount // SHARE
        with suppress(Refusal):
            if several > 1:
                await self._count(rate, what, identity, several)
                self._remember(identity, several - 1, rate.get_expiry() * GOOD_FOR)
                return
        await self._count(rate, what, identity)

    def _remember(self, identity: str, left: int, good_for_s: float) -> None:
        if len(self._taken) >= MOST_TAKEN:
            self._taken.clear()
        self._taken[identity] = _Taken(left=left, until_s=time.monotonic() + good_for_s)

    async def _count(
        self, rate: RateLimitItem | None, what: str, who: str, requests: int = 1
    ) -> None:
        if rate is None:
            return
        if time.monotonic() >= self._away_until_s:
            try:
                await self._refuse_excess(self._shared, rate, what, who, requests)
            except StorageError as error:
                self._away_until_s = time.monotonic() + AWAY_S
                log.warning("Redis is away; this process limits rates alone", error=str(error))
            else:
                return
        await self._refuse_excess(self._own, rate, what, who, requests)

    async def _refuse_excess(
        self,
        limiter: SlidingWindowCounterRateLimiter,
        rate: RateLimitItem,
        what: str,
        who: str,
        requests: int,
    ) -> None:
        if await limiter.hit(rate, what, who, cost=requests):
            return
        window = await limiter.get_window_stats(rate, what, who)
        wait_s = max(1, math.ceil(window.reset_time - time.time()))
        raise Refusal(
            HTTPStatus.TOO_MANY_REQUESTS,
            f"{what} are limited to {rate}; come back in {wait_s} s",
            {"Retry-After": str(wait_s)},
        )


def _rate(name: str, text: str) -> RateLimitItem | None:
    """None for '', which is no limit."""
    if not text:
        return None
    try:
        return parse(text)
    except ValueError as error:
        raise InvalidInput(
            f"KERNELZOO_{name.upper()} is {text[:40]!r}; write it as 60/minute, or '' for no limit"
        ) from error


def _bursts(rate: RateLimitItem | None) -> Bursts | None:
    return None if rate is None else Bursts(rate.amount / rate.get_expiry())


PER_IDENTITY = 8
"""Two targets in each of two tabs, and as many again that were left and have not noticed."""
RETRY_S = 5


class Polls:
    """Counts those of this process. The operator's agents are counted by identity alone."""

    def __init__(self, per_network: int) -> None:
        self._per_network = per_network
        self._open: Counter[str] = Counter()

    def is_full(self, network: str) -> bool:
        """Returns whether the next poll of a stranger of this network is refused."""
        return self._open[network] >= self._per_network

    @contextmanager
    def polling(self, session: Session) -> Iterator[None]:
        """Raises Refusal (429) for one too many."""
        identity = str(session.identity_id)
        if self._open[identity] >= PER_IDENTITY:
            raise _too_many("this agent", PER_IDENTITY)
        if not session.operated and self.is_full(session.network):
            raise too_many_of_network(self._per_network)
        counted = [identity] if session.operated else [identity, session.network]
        self._open.update(counted)
        try:
            yield
        finally:
            self._open.subtract(counted)
            for each in counted:
                if self._open[each] <= 0:
                    del self._open[each]


def too_many_of_network(most: int) -> Refusal:
    return _too_many("this network", most)


def _too_many(who: str, most: int) -> Refusal:
    return Refusal(
        HTTPStatus.TOO_MANY_REQUESTS,
        f"{who} has {most} requests for a lease waiting; let one of them end, then ask again",
        {"Retry-After": str(RETRY_S)},
    )
