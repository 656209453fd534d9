"""The gateway's connections to PostgreSQL, with a watch on how long requests wait for one."""

import select
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


async def _refuse_closed(connection: AsyncConnection[Any]) -> None:
    """Raises OperationalError for a connection that the server has ended.

    An idle one has nothing to read unless the server said something, which is mostly goodbye; only
    then is it asked. To ask each time it is lent was a round trip of every request.
    """
    poller = select.poll()
    poller.register(connection.fileno(), select.POLLIN)
    if poller.poll(0):
        await MeasuredPool.check_connection(connection)


def measured_pool(database_url: str) -> MeasuredPool:
    """Not open yet: enter it."""
    return MeasuredPool(
        database_url,
        min_size=2,
        max_size=POOL_SIZE,
        kwargs={"autocommit": True},
        check=_refuse_closed,
        timeout=10,
        open=False,
    )
