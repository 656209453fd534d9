"""The gateway's connections to PostgreSQL, with a watch on how long requests wait for one."""

import select
import time
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from kernelzoo.metrics import CONNECTION_POOL_TIMEOUTS, CONNECTION_POOL_WAIT


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """`connections` at most; whoever waits for one longer than `wait_s`, or behind `queue` others,
    gets none. What a gateway asks takes milliseconds: what takes `statement_s` is given up, so that
    nobody can hold a connection with a question that is public.
    """

    connections: int
    wait_s: float
    queue: int
    statement_s: float


AGENTS = PoolPlan(connections=12, wait_s=10.0, queue=0, statement_s=5.0)
"""Connections of agents, the console and the operator. Long polls wake together: their
queue has no end (0)."""
PAGES = PoolPlan(connections=4, wait_s=0.5, queue=64, statement_s=1.0)
"""Connections of page loads, which others do not hold up, and which do not hold up others."""


CONNECT_S = 5


class MeasuredPool(AsyncConnectionPool[AsyncConnection[Any]]):
    async def getconn(self, timeout: float | None = None) -> AsyncConnection[Any]:  # noqa: ASYNC109 - as its parent
        start_s = time.perf_counter()
        try:
            return await super().getconn(timeout)
        except PoolTimeout:
            CONNECTION_POOL_TIMEOUTS.inc()
            raise
        finally:
            CONNECTION_POOL_WAIT.observe(time.perf_counter() - start_s)


async def _refuse_closed(connection: AsyncConnection[Any]) -> None:
    """Raises OperationalError for a connection that the server has ended.

    An idle one has nothing to read unless the server said something, which is mostly goodbye; only
    then is it asked. To ask each time it is lent was a round trip of every request.
    """
    poller = select.poll()
    poller.register(connection.fileno(), select.POLLIN)
    if poller.poll(0):
        await MeasuredPool.check_connection(connection)


def measured_pool(database_url: str, plan: PoolPlan) -> MeasuredPool:
    """Not open yet: enter it."""

    async def limit_statements(connection: AsyncConnection[Any]) -> None:
        await connection.execute(
            "SELECT set_config('statement_timeout', %s, false)", (f"{plan.statement_s}s",)
        )

    return MeasuredPool(
        database_url,
        min_size=2,
        max_size=plan.connections,
        max_waiting=plan.queue,
        kwargs={
            "autocommit": True,
            # A host that is gone answers nothing at all.
            "connect_timeout": CONNECT_S,
            "tcp_user_timeout": 1000 * CONNECT_S,
        },
        configure=limit_statements,
        check=_refuse_closed,
        timeout=plan.wait_s,
        open=False,
    )
