"""Listens to PostgreSQL's notifications, so that long polls and caches follow the rows."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import psycopg
import structlog
from psycopg.sql import SQL, Identifier

from kernelzoo.store import notifications
from services.gateway.background import running

log = structlog.get_logger(__name__)

RECONNECT_S = 0.5


class Wake:
    """Owns one listening connection and the events it sets. Use `listening` to run it."""

    def __init__(self, database_url: str) -> None:
        self._database_url = database_url
        self._changed = asyncio.Event()
        self.connected = False
        self.generation = 0
        self.served_generation = 0
        """The generation of what manifests are made from, which leases are no part of."""

    async def wait(self, since: int, timeout_s: float) -> None:
        """Until there is a notification after the generation `since`, or for `timeout_s`.

        Who looks at rows remembers the generation first: what changes meanwhile is not missed.
        """
        if self.generation != since:
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), timeout_s)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        async with running(self._run()):
            yield

    async def _run(self) -> None:
        while True:
            try:
                await self._listen()
            except (psycopg.OperationalError, psycopg.errors.UndefinedTable) as error:
                log.warning("not listening to the database", error=str(error))
            self.connected = False
            await asyncio.sleep(RECONNECT_S)

    async def _listen(self) -> None:
        async with await psycopg.AsyncConnection.connect(
            self._database_url,
            autocommit=True,
            # Who only listens would else not notice for hours that the other side is gone.
            keepalives_idle=5,
            keepalives_interval=2,
            keepalives_count=3,
        ) as connection:
            # Raises where the schema is not there yet.
            await connection.execute("SELECT FROM workload LIMIT 1")
            for channel in (notifications.CANDIDATES, notifications.LEASES, notifications.ZOO):
                await connection.execute(SQL("LISTEN {}").format(Identifier(channel)))
            self.connected = True
            self._announce()
            async for notice in connection.notifies():
                self._announce(served=notice.channel != notifications.LEASES)

    def _announce(self, *, served: bool = True) -> None:
        """Wakes all who wait now; who waits later waits for the next one."""
        self.generation += 1
        self.served_generation += served
        self._changed.set()
        self._changed = asyncio.Event()
