"""Remembers what is good once: Redis remembers for all gateways together what was shown."""

from dataclasses import dataclass, field
from http import HTTPStatus

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from services.gateway.problems import Refusal

log = structlog.get_logger(__name__)

PATIENCE_S = 1.0


@dataclass(frozen=True, slots=True)
class SpentNames:
    """A connection each time: few identities are attested, each once."""

    redis_url: str = field(repr=False)

    async def spend(self, name: str, *, good_for_s: int) -> bool:
        """Returns whether it is the first time within `good_for_s`. Raises Refusal (503) while
        Redis is away: what cannot be remembered is not taken.
        """
        redis = Redis.from_url(
            self.redis_url, socket_timeout=PATIENCE_S, socket_connect_timeout=PATIENCE_S
        )
        try:
            async with redis:
                return bool(await redis.set(f"kernelzoo-spent/{name}", 1, nx=True, ex=good_for_s))
        except (RedisError, OSError) as error:
            log.warning("Redis is away; no token is taken", error=str(error))
            raise Refusal(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "the attestation cannot be checked now; go on measuring, and show a new one later",
                {"Retry-After": "60"},
            ) from error
