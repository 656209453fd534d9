"""Has caches before the gateway forget what is not right any more, by the tags of answers.

Each gateway hears of every change from PostgreSQL, forgets what it held itself, and then tells the
CDN: so the last that tells it has nothing old left. A denied kernel is forgotten at once, and once
more when all answers that were being built have been sent. What is merely outdated is asked for
again; caches that can only forget are not told of it, as it is asked for within a minute anyway.

Nothing is stored. Who was cut off from PostgreSQL tells the CDN again of all that was denied for as
long as a cache may give an old answer.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from hashlib import sha256
from typing import Any

import structlog
from psycopg import AsyncConnection, OperationalError
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from kernelzoo.metrics import PURGE_FAILURES, PURGES
from kernelzoo.store import denials
from kernelzoo.store.asynchronous import fetch_all
from services.gateway.background import running
from services.gateway.cdn import Cdn

log = structlog.get_logger(__name__)

ZOO = "zoo"
"""The tag of all that says what is served."""
STALE_S = 86_400
"""A cache gives an old answer for so long where the gateway does not answer (`stale-if-error`)."""
MOST_DENIED = 10_000
"""Caches forget all that says what is served where more was denied."""
LOOKED_EVERY_S = 0.1
SOFT_EVERY_S = 5.0
AGAIN_S = 10.0
"""Longer than it takes to build and send an answer, which may have begun before a change."""
LONGEST_RETRY_S = 60.0


def device_tag(device_class: str) -> str:
    """A denial may hold for all classes of a device, so the device is the tag. A short hash of what
    stands before the first colon, as anything may be asked for.
    """
    device_id = device_class.partition(":")[0]
    return f"device-{sha256(device_id.encode()).hexdigest()[:16]}"


def artifact_tag(sha256_text: str) -> str:
    return f"artifact-{sha256_text[:16]}"


def tagged(*tags: str) -> Mapping[str, str]:
    """Returns the headers that name the tags of an answer."""
    return {"Surrogate-Key": " ".join(tags), "Cache-Tag": ",".join(tags)}


def class_tags(*device_classes: str) -> Mapping[str, str]:
    """Returns the headers of what says which kernels these classes are given."""
    return tagged(ZOO, *dict.fromkeys(map(device_tag, device_classes)))


class Outdated:
    """Tags of what caches hold and is not right any more: `hard` must be forgotten, `soft` asked
    for again. It collects nothing where nobody purges.
    """

    def __init__(self, *, collects: bool) -> None:
        self._collects = collects
        self.hard: set[str] = set()
        self.soft: set[str] = set()
        self.missed = False
        """Changes were not heard of for a while."""
        self._deaf_since_s: float | None = None
        """Nothing was heard of changes since, up to the time at which that is looked up."""

    def note_denied(self, artifact: str, device_class: str) -> None:
        if self._collects:
            self.hard |= {artifact_tag(artifact), device_tag(device_class)}

    def note_anything_denied(self) -> None:
        """Notes that more was denied than anybody lists."""
        if self._collects:
            self.hard.add(ZOO)

    def note_changed(self, device_class: str) -> None:
        """Notes that one class is served something else, or every class where it is ''. Offers to
        classes that have not voted change all the time, and wait until caches ask."""
        if self._collects:
            self.soft.add(device_tag(device_class) if device_class else ZOO)

    def note_deaf(self) -> None:
        """Notes that no change is heard of from now on, if not before."""
        if self._deaf_since_s is None:
            self._deaf_since_s = time.monotonic()

    def note_missed(self) -> None:
        self.missed = self._collects

    @contextmanager
    def looking_up_what_was_missed(self) -> Iterator[float]:
        """Gives for how many seconds nothing was heard of. If that fails, it is still missed."""
        since_s, self._deaf_since_s, self.missed = self._deaf_since_s, None, False
        try:
            yield 0.0 if since_s is None else time.monotonic() - since_s
        except BaseException:
            self.missed = True
            self._deaf_since_s = since_s
            raise


class Purging:
    """Use `watching` to run it; it does nothing without a CDN."""

    def __init__(
        self, cdn: Cdn | None, pool: AsyncConnectionPool[AsyncConnection[Any]], outdated: Outdated
    ) -> None:
        self._cdn = cdn
        self._pool = pool
        self._outdated = outdated
        self._again: deque[tuple[float, frozenset[str]]] = deque()
        """Tags that are forgotten once more, each with the time at which that is due."""
        self._softened_s = 0.0
        self._retry_s = 0.0
        """The wait after the last failure."""

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        if self._cdn is None:
            yield
            return
        async with running(self._run(self._cdn)):
            yield

    async def _run(self, cdn: Cdn) -> None:
        while True:
            try:
                await self._find_missed()
                await self._forget(cdn)
                await self._soften(cdn)
            except (OSError, OperationalError, PoolTimeout) as error:
                PURGE_FAILURES.inc()
                self._retry_s = min(max(2 * self._retry_s, 1.0), LONGEST_RETRY_S)
                log.warning(
                    "caches may hold what was denied; they are told again",
                    error=str(error),
                    in_s=self._retry_s,
                )
                await asyncio.sleep(self._retry_s)
            else:
                self._retry_s = 0.0
                await asyncio.sleep(LOOKED_EVERY_S)

    async def _find_missed(self) -> None:
        if not self._outdated.missed:
            return
        with self._outdated.looking_up_what_was_missed() as deaf_s:
            async with self._pool.connection() as db:
                # This gateway itself gave old answers until now.
                rows = await fetch_all(db, denials.decided_lately(STALE_S + deaf_s, MOST_DENIED))
        for row in rows:
            self._outdated.note_denied(row.sha256, row.device_class)
        if len(rows) == MOST_DENIED:
            self._outdated.note_anything_denied()

    async def _forget(self, cdn: Cdn) -> None:
        now_s = time.monotonic()
        new = frozenset(self._outdated.hard)
        due = [tags for at_s, tags in self._again if at_s <= now_s]
        tags = new.union(*due)
        if not tags:
            return
        await asyncio.to_thread(cdn.purge, sorted(tags), soft=False)
        # Only now: what failed is told again, and what came meanwhile is told next.
        PURGES.labels("hard").inc()
        self._outdated.hard -= new
        for _ in due:
            self._again.popleft()
        if new:
            self._again.append((now_s + AGAIN_S, new))
            log.info("caches were told to forget", tags=len(new))

    async def _soften(self, cdn: Cdn) -> None:
        now_s = time.monotonic()
        tags = frozenset(self._outdated.soft)
        if not tags or now_s < self._softened_s + SOFT_EVERY_S:
            return
        self._softened_s = now_s
        # Whether or not it succeeds: caches ask within a minute.
        self._outdated.soft -= tags
        if not cdn.softens:
            return
        await asyncio.to_thread(cdn.purge, [ZOO] if ZOO in tags else sorted(tags), soft=True)
        PURGES.labels("soft").inc()
