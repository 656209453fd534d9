"""The signed list of what a class of devices is never to run, by which a page that pins keys checks
a manifest: whoever holds the way to the zoo can hand it an old one, of before a denial.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from typing import Any

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from kernelzoo.domain.device import DeviceClass
from kernelzoo.signing import Signer
from kernelzoo.store import denials
from kernelzoo.store.asynchronous import fetch_all
from services.gateway.manifests import issue_time
from services.gateway.remembered import Remembered
from services.gateway.wire.denials import DeniedList

MOST = 100_000
LOOKED_EVERY_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedList:
    body: bytes
    etag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    artifacts: Mapping[str, list[str]]
    serial: int


class Denied:
    """Reads what is denied once for all classes, so that nobody's class costs the database."""

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection[Any]], signer: Signer) -> None:
        self._pool = pool
        self._signer = signer
        self._known: Remembered[_Known] = Remembered(LOOKED_EVERY_S)

    async def to(self, device_class: DeviceClass) -> SignedList:
        known = await self._known.get("all", self._read)
        document = DeniedList(
            denied=1,
            device_class=str(device_class),
            artifacts=known.artifacts.get(str(device_class), []),
            issued_at=issue_time(),
            serial=known.serial,
            signatures=[],
        )
        body = self._signer.seal(document.model_dump_json(exclude={"signatures"}).encode())
        return SignedList(body=body, etag=f'"{sha256(body).hexdigest()[:32]}"')

    async def _read(self) -> _Known:
        async with self._pool.connection() as db:
            rows = await fetch_all(db, denials.of_classes(MOST))
        by_class = groupby(sorted(rows, key=_class_of), key=_class_of)
        return _Known(
            artifacts={name: [row.sha256 for row in each] for name, each in by_class},
            serial=rows[0].serial if rows else 0,
        )


def _class_of(row: denials.DeniedArtifactRow) -> str:
    return row.device_class
