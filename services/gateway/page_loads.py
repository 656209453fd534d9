"""Counts what pages ask for, so that people see which devices and workloads matter most.

A count lives in memory for up to `WRITE_EVERY_S`, and a crash loses it. Answers that a browser or a
CDN kept are not seen at all: the counts weigh keys against one another, and bill nobody.
"""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import structlog
from psycopg import AsyncConnection, OperationalError
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from kernelzoo.metrics import PAGE_LOADS_LOST
from kernelzoo.store import page_loads
from kernelzoo.store.asynchronous import execute
from services.gateway.background import repeated

log = structlog.get_logger(__name__)

WRITE_EVERY_S = 5.0
CAPACITY = 4096
"""Keys in memory: a stranger may invent classes as fast as it can ask."""


class PageLoads:
    """Owns the sums that are not yet written. Use `writing` to have them written."""

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection[Any]]) -> None:
        self._pool = pool
        self._sums: Counter[tuple[str, str]] = Counter()

    def count(self, name: str, *device_classes: str) -> None:
        """`name` is of a registered set or workload; a page of two classes counts for both."""
        for device_class in device_classes:
            key = name, device_class
            if key not in self._sums and len(self._sums) >= CAPACITY:
                PAGE_LOADS_LOST.inc()
            else:
                self._sums[key] += 1

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        async with repeated(self.write, WRITE_EVERY_S):
            yield

    async def write(self) -> None:
        """Adds the sums to their rows. What a database that is away does not take is kept."""
        sums, self._sums = self._sums, Counter()
        if not sums:
            return
        try:
            async with self._pool.connection() as db:
                await execute(db, page_loads.add(sums))
        except (OperationalError, PoolTimeout) as error:
            log.warning("page loads not written yet", error=str(error))
            self._sums.update(sums)
