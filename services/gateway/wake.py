"""Listens to PostgreSQL's notifications, so that long polls and caches follow the rows."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from math import inf

import psycopg
import structlog
from psycopg.sql import SQL, Identifier

from kernelzoo.store import notifications
from kernelzoo.store.notifications import Change
from services.gateway.background import running
from services.gateway.changes import Changes
from services.gateway.filed import FiledBallots
from services.gateway.purging import Outdated

log = structlog.get_logger(__name__)

RECONNECT_S = 0.5
CONNECT_S = 5
CHANGES_KEPT_S = 5.0
"""For so long it is known when a generation ended."""


class Wake:
    """Owns one listening connection and the events it sets. Use `listening` to run it."""

    def __init__(self, database_url: str, outdated: Outdated) -> None:
        self._database_url = database_url
        self._outdated = outdated
        self._changed = asyncio.Event()
        self.connected = False
        self._failures = 0
        """It could not listen, or was cut off, so often in a row."""
        self.generation = 0
        self.served_generation = 0
        """The generation of what manifests are made from, which leases are no part of."""
        self.denied_generation = 0
        """The one of them that began with the latest denial."""
        self.changes = Changes()
        self.ballots = FiledBallots()
        self._served_since_s: deque[float] = deque()
        """The times at which the last of these generations began."""

    @property
    def away(self) -> bool:
        """Says whether the database was asked for a connection in vain: one that is merely cut is
        there again with the next attempt."""
        return self._failures > 1

    def outdated_s(self, served_generation: int) -> float:
        """Returns how long ago this generation ended: 0 while it lasts, infinite where nobody
        knows."""
        younger = self.served_generation - served_generation
        if younger <= 0:
            return 0.0
        if younger > len(self._served_since_s):
            return inf
        return time.monotonic() - self._served_since_s[-younger]

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
            self._failures += 1
            self.connected = False
            self.ballots.end()
            self._outdated.note_deaf()
            await asyncio.sleep(RECONNECT_S)

    async def _listen(self) -> None:
        async with await psycopg.AsyncConnection.connect(
            self._database_url,
            autocommit=True,
            connect_timeout=CONNECT_S,
            # Who only listens would else not notice for hours that the other side is gone.
            keepalives_idle=5,
            keepalives_interval=2,
            keepalives_count=3,
        ) as connection:
            # Raises where the schema is not there yet.
            await connection.execute("SELECT FROM workload LIMIT 1")
            for channel in notifications.CHANNELS:
                await connection.execute(SQL("LISTEN {}").format(Identifier(channel)))
            self._begin_listening()
            async for notice in connection.notifies():
                self._hear(notice.channel, notice.payload)

    def _begin_listening(self) -> None:
        """Begins anew, as what changed before was not heard of."""
        self.connected = True
        self._failures = 0
        self.ballots.begin()
        self._served_since_s.clear()
        self.served_generation += 1
        self.changes.note_everything(self.served_generation)
        self._outdated.note_missed()
        self._announce()

    def _hear(self, channel: str, payload: str) -> None:
        if channel == notifications.BALLOTS:
            self.ballots.note(payload)
            return
        if channel == notifications.DENIED:
            self._serve_anew()
            self.denied_generation = self.served_generation
            self.changes.note_everything(self.served_generation)
            artifact, _, device_class = payload.partition("\n")
            self._outdated.note_denied(artifact, device_class)
        elif channel != notifications.LEASES:
            self._serve_anew()
            change = Change.told(payload)
            self.changes.note(channel, change, self.served_generation)
            if change.device_class or not change.workload_key:
                self._outdated.note_changed(change.device_class)
        self._announce()

    def _announce(self) -> None:
        """Wakes all who wait now; who waits later waits for the next one."""
        self.generation += 1
        self._changed.set()
        self._changed = asyncio.Event()

    def _serve_anew(self) -> None:
        now_s = time.monotonic()
        self.served_generation += 1
        self._served_since_s.append(now_s)
        while self._served_since_s[0] < now_s - CHANGES_KEPT_S:
            self._served_since_s.popleft()
