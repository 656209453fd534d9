"""Manifests that are being built: each once for all who ask for it meanwhile, few at a time.

A manifest in memory costs a tenth of a millisecond, one that is built some milliseconds of the only
thread. `shedding` refuses those that there is no time for.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager

from services.gateway.background import running
from services.gateway.manifests import ServedManifest

AT_ONCE = 2
"""Manifests built at one time for classes that are known to have voted, and as many for others."""
LOOKED_EVERY_S = 0.02


class Builds:
    """Owns the watch on how late the thread is. Use `watching` to run it."""

    def __init__(self) -> None:
        self._slots = {known: asyncio.Semaphore(AT_ONCE) for known in (True, False)}
        self._under_way: dict[Hashable, asyncio.Task[ServedManifest]] = {}
        self.late_s = 0.0
        """The thread came to its work so late, of late."""

    def under_way(self, key: Hashable) -> bool:
        return key in self._under_way

    async def build(
        self, key: Hashable, make: Callable[[], Awaitable[ServedManifest]], *, known: bool
    ) -> ServedManifest:
        """Built once for all who ask for it meanwhile. `known`: its class has voted."""
        # One who leaves must not take it from the others.
        return await asyncio.shield(self.begin(key, make, known=known))

    def begin(
        self, key: Hashable, make: Callable[[], Awaitable[ServedManifest]], *, known: bool
    ) -> asyncio.Task[ServedManifest]:
        """The one build of it that is under way from now on."""
        task = self._under_way.get(key)
        if task is None:
            task = asyncio.create_task(self._made(make, known=known))
            self._under_way[key] = task
            task.add_done_callback(lambda made: self._forget(key, made))
        return task

    async def _made(
        self, make: Callable[[], Awaitable[ServedManifest]], *, known: bool
    ) -> ServedManifest:
        async with self._slots[known]:
            return await make()

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
            self.late_s = max(time.monotonic() - due_s, 0.8 * self.late_s)
