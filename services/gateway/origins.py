"""Whose pages may speak as agents: the zoo's own, and those that applications registered.

A browser says the origin of the page with every request that is not a mere read, and no page can
change it. A program that is no browser can: it is held by its network, as everybody is.
"""

import time
from typing import Any

from psycopg import AsyncConnection, OperationalError
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from kernelzoo.store import applications
from kernelzoo.store.asynchronous import fetch_all

KNOWN_FOR_S = 5.0
"""How long an origin that was registered or taken away may go unnoticed."""


class Origins:
    """Remembers what applications registered. `own`: the zoo's origins, separated by commas; where
    it is empty, the zoo's own pages are those whose origin names the host that was asked.
    """

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection[Any]], own: str) -> None:
        self._pool = pool
        self._own = frozenset(each.strip() for each in own.split(",") if each.strip())
        self._registered: frozenset[str] = frozenset()
        self._until_s = 0.0

    def is_own(self, origin: str, host: str) -> bool:
        """`host`: the request's header, with the port where that is not the usual one."""
        return origin in self._own if self._own else origin.partition("://")[2] == host

    async def allows(self, origin: str, host: str) -> bool:
        return self.is_own(origin, host) or origin in await self._known()

    def forget(self) -> None:
        """What is registered was changed by this gateway; others notice it within seconds."""
        self._until_s = 0.0

    async def _known(self) -> frozenset[str]:
        if time.monotonic() >= self._until_s:
            self._until_s = time.monotonic() + KNOWN_FOR_S
            try:
                async with self._pool.connection() as db:
                    rows = await fetch_all(db, applications.origins())
            except (OperationalError, PoolTimeout):
                return self._registered
            self._registered = frozenset(row.origin for row in rows)
        return self._registered
