"""The gateway's connections to PostgreSQL, with a watch on how long requests wait for one."""

import time
from typing import Any

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from kernelzoo.metrics import POOL_TIMEOUTS, POOL_WAIT_SECONDS

POOL_SIZE = 16


class MeasuredPool(AsyncConnectionPool[AsyncConnection[Any]]):
    async def getconn(self, timeout: float | None = None) -> AsyncConnection[Any]:  # noqa: ASYNC109 - as its parent
        start_s = time.perf_counter()
        try:
            return await super().getconn(timeout)
        except PoolTimeout:
            POOL_TIMEOUTS.inc()
            raise
        finally:
            POOL_WAIT_SECONDS.observe(time.perf_counter() - start_s)


def measured_pool(database_url: str) -> MeasuredPool:
    """Not open yet: enter it."""
    return MeasuredPool(
        database_url,
        min_size=2,
        max_size=POOL_SIZE,
        kwargs={"autocommit": True},
        check=MeasuredPool.check_connection,
        timeout=10,
        open=False,
    )
