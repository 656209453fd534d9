"""Who waits for a manifest that is built, and who is told at once to come back.

A manifest in memory costs a tenth of a millisecond, one that is built some milliseconds of the only
thread. Device classes are claims, so that anybody can ask for as many that are in no memory as it
likes. Beyond what is left beside everything else these are refused before anything is done for
them, so that pages whose manifest was in memory, agents and health checks are answered as ever.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from http import HTTPStatus

from kernelzoo.metrics import MANIFESTS_SHED
from services.gateway.background import running
from services.gateway.manifests import ServedManifest
from services.gateway.problems import Refusal

AT_ONCE = 2
"""Of classes that are known to have voted, and as many of all others."""
MOST_WAITING = 16
"""Of the others. Each is built within milliseconds, so that the last waits a tenth of a second."""
LATE_S = 0.01
"""While the thread comes to its work later than this, the others are built one at a time."""
LOOKED_EVERY_S = 0.02
RETRY_S = 2


class Builds:
    """Owns the watch on how late the thread is. Use `watching` to run it."""

    def __init__(self) -> None:
        self._slots = {known: asyncio.Semaphore(AT_ONCE) for known in (True, False)}
        self._under_way: dict[Hashable, asyncio.Task[ServedManifest]] = {}
        self._waiting = 0
        self._late_s = 0.0

    async def build(
        self, key: Hashable, make: Callable[[], Awaitable[ServedManifest]], *, known: bool
    ) -> ServedManifest:
        """Built once for all who ask for it meanwhile. `known`: its class has voted.

        Raises Refusal (503) for one that is not, while there is too much to do.
        """
        task = self._under_way.get(key)
        if task is None:
            if not known and self._waiting >= (1 if self._late_s > LATE_S else MOST_WAITING):
                MANIFESTS_SHED.inc()
                raise Refusal(
                    HTTPStatus.SERVICE_UNAVAILABLE,
                    "too many manifests are asked for that have to be made first; "
                    "the page runs without for now, ask again in a moment",
                    {"Retry-After": str(RETRY_S)},
                )
            self._waiting += not known
            task = asyncio.create_task(self._made(make, known=known))
            self._under_way[key] = task
            task.add_done_callback(lambda made: self._forget(key, made))
        # One who leaves must not take it from the others.
        return await asyncio.shield(task)

    async def _made(
        self, make: Callable[[], Awaitable[ServedManifest]], *, known: bool
    ) -> ServedManifest:
        try:
            async with self._slots[known]:
                return await make()
        finally:
            self._waiting -= not known

    def _forget(self, key: Hashable, made: asyncio.Task[ServedManifest]) -> None:
        del self._under_way[key]
        if not made.cancelled():
            made.exception()  # Seen, even where everybody who waited for it has left.

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        async with running(self._watch()):
            yield

    async def _watch(self) -> None:
        while True:
            due_s = time.monotonic() + LOOKED_EVERY_S
            await asyncio.sleep(LOOKED_EVERY_S)
            # Remembered for a while, so that it does not flicker between all and none.
            self._late_s = max(time.monotonic() - due_s, 0.8 * self._late_s)
