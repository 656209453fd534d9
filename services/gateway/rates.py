"""How often one network, agent or application may ask. Redis counts for all gateways together.

Redis may be flushed or away at any time: then counting begins anew, or each process counts alone.
"""

import math
import time
from http import HTTPStatus

import structlog
from limits import RateLimitItem, parse
from limits.aio.storage import MemoryStorage, RedisStorage
from limits.aio.strategies import SlidingWindowCounterRateLimiter
from limits.errors import StorageError
from redis.asyncio import ConnectionPool

from kernelzoo.errors import InvalidInput
from kernelzoo.settings import Settings
from services.gateway.problems import Refusal

log = structlog.get_logger(__name__)

AWAY_S = 5.0
"""How long Redis is not asked again after it did not answer."""
PATIENCE_S = 0.25


class Rates:
    """`close` ends the connections to Redis."""

    def __init__(self, settings: Settings) -> None:
        self._sessions = _rate("sessions_rate", settings.sessions_rate)
        self._agents = _rate("agent_rate", settings.agent_rate)
        self._applications = _rate("application_rate", settings.application_rate)
        self._pool = ConnectionPool.from_url(
            settings.redis_url, socket_timeout=PATIENCE_S, socket_connect_timeout=PATIENCE_S
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

    async def session(self, network: str) -> None:
        """Each raises Refusal (429) for one request too many."""
        await self._count(self._sessions, "this network's sessions", network)

    async def agent(self, identity: str) -> None:
        await self._count(self._agents, "this agent's requests", identity)

    async def application(self, number: int) -> None:
        await self._count(self._applications, "this application's requests", str(number))

    async def close(self) -> None:
        await self._pool.aclose()

    async def _count(self, rate: RateLimitItem | None, what: str, who: str) -> None:
        if rate is None:
            return
        if time.monotonic() >= self._away_until_s:
            try:
                await self._refuse_excess(self._shared, rate, what, who)
            except StorageError as error:
                self._away_until_s = time.monotonic() + AWAY_S
                log.warning("Redis is away; this process limits rates alone", error=str(error))
            else:
                return
        await self._refuse_excess(self._own, rate, what, who)

    async def _refuse_excess(
        self, limiter: SlidingWindowCounterRateLimiter, rate: RateLimitItem, what: str, who: str
    ) -> None:
        if await limiter.hit(rate, what, who):
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
