"""The signed list of what a class of devices is never to run, by which a page that pins keys checks
a manifest: whoever holds the way to the zoo can hand it an old one, of before a denial. By the same
list the gateway checks what it kept for times without a database.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from typing import Any

import msgspec
import structlog
from psycopg import AsyncConnection, OperationalError
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from kernelzoo.domain.device import DeviceClass
from kernelzoo.signing import Signer
from kernelzoo.store import denials
from kernelzoo.store.asynchronous import fetch_all
from services.gateway.background import running
from services.gateway.manifests import issue_time
from services.gateway.remembered import Remembered
from services.gateway.standby import Standby
from services.gateway.wake import Wake
from services.gateway.wire.denials import DeniedList

log = structlog.get_logger(__name__)

MOST = 100_000
LOOKED_EVERY_S = 2.0
WATCHED_EVERY_S = 5.0
"""While what is served changes, and else each hour, the list is read and kept within this time,
whether or not anybody asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedList:
    body: bytes
    etag: str


class _Known(msgspec.Struct, frozen=True, kw_only=True):
    """`artifacts`: hashes by class. `issued_at`: when they were read, to the hour."""

    artifacts: Mapping[str, list[str]]
    serial: int
    issued_at: str


class Denied:
    """Reads what is denied once for all classes, so that nobody's class costs the database. While
    that is away, what was read last is given, of the time at which it was read. Use `watching` to
    have it kept.
    """

    def __init__(
        self,
        pool: AsyncConnectionPool[AsyncConnection[Any]],
        signer: Signer,
        wake: Wake,
        standby: Standby,
    ) -> None:
        self._pool = pool
        self._signer = signer
        self._wake = wake
        self._standby = standby
        self._known: Remembered[_Known] = Remembered(LOOKED_EVERY_S)
        self._last: _Known | None = None
        self._on_disk: _Known | None = None
        self._read_generation = -1
        """Counts as `Wake.served_generation`, which was looked at before the list was read last."""

    async def to(self, device_class: DeviceClass) -> SignedList:
        known = await self._latest()
        document = DeniedList(
            denied=1,
            device_class=str(device_class),
            artifacts=known.artifacts.get(str(device_class), []),
            issued_at=known.issued_at,
            serial=known.serial,
            signatures=[],
        )
        body = self._signer.seal(document.model_dump_json(exclude={"signatures"}).encode())
        return SignedList(body=body, etag=f'"{sha256(body).hexdigest()[:32]}"')

    async def hashes(self, device_classes: Iterable[str]) -> frozenset[str]:
        """Returns the artifacts that any of these classes must not run, as it was known last."""
        known = await self._latest()
        return frozenset(each for name in device_classes for each in known.artifacts.get(name, ()))

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        async with running(self._watch()):
            yield

    async def _watch(self) -> None:
        while self._standby.keeps:
            if self._wake.connected and self._is_behind():
                try:
                    # It may be one that was read before the change, which is not remembered for
                    # as long as this waits: the next turn reads it anew.
                    await self._known.get("all", self._read)
                except (OperationalError, PoolTimeout) as error:
                    log.warning("what is denied is not known anew", error=str(error))
            await asyncio.sleep(WATCHED_EVERY_S)

    def _is_behind(self) -> bool:
        """Also where nothing changed within the hour: pages refuse a list that is a day old."""
        return (
            self._read_generation != self._wake.served_generation
            or self._last is None
            or self._last.issued_at != issue_time()
            or self._on_disk != self._last
        )

    async def _latest(self) -> _Known:
        """Raises OperationalError or PoolTimeout where the database is away and nothing is kept."""
        if self._wake.away and (last := await self._last_known()) is not None:
            return last
        try:
            return await self._known.get("all", self._read)
        except (OperationalError, PoolTimeout):
            last = await self._last_known()
            if last is None:
                raise
            return last

    async def _last_known(self) -> _Known | None:
        if self._last is None and (kept := await self._standby.denied()) is not None:
            try:
                self._last = msgspec.json.decode(kept, type=_Known)
            except msgspec.DecodeError:
                log.warning("the kept list of what is denied is torn; it is not used")
        return self._last

    async def _read(self) -> _Known:
        generation = self._wake.served_generation
        async with self._pool.connection() as db:
            rows = await fetch_all(db, denials.of_classes(MOST))
        by_class = groupby(sorted(rows, key=_class_of), key=_class_of)
        known = _Known(
            artifacts={name: [row.sha256 for row in each] for name, each in by_class},
            serial=rows[0].serial if rows else 0,
            issued_at=issue_time(),
        )
        self._last, self._read_generation = known, generation
        if known != self._on_disk and await self._standby.keep_denied(msgspec.json.encode(known)):
            self._on_disk = known
        return known


def _class_of(row: denials.DeniedArtifactRow) -> str:
    return row.device_class
