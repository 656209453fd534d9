"""Where much changes, pages of classes that have voted wait for no build."""

import asyncio
from typing import cast

from kernelzoo.domain.zoo import HitLevel
from kernelzoo.metrics import CacheResult
from services.gateway import manifests
from services.gateway.builds import Builds
from services.gateway.manifests import ManifestCache, ServedManifest, issue_time
from services.gateway.recall import recalled
from services.gateway.state import State
from services.gateway.wake import Wake

KEY = ("matmul:f32:m8k8n8", "0123456789abcdef:r1-0:wasm+simd128", "")


class _Gateway:
    """As much of a gateway's state as remembers manifests."""

    def __init__(self, level: HitLevel = HitLevel.EXACT) -> None:
        self.wake, self.builds, self.level = Wake(""), Builds(), level
        self.wake.connected = True
        self.cache = ManifestCache(self.wake)
        self.rows = b"first"
        self.built = 0
        self.building = asyncio.Event()
        self.building.set()

    async def make(self) -> ServedManifest:
        self.built += 1
        body = self.rows
        await self.building.wait()
        return ServedManifest(
            body=body, etag="", issued_at=issue_time(), levels=((str(self.level), 1),)
        )

    async def ask(self) -> tuple[bytes, CacheResult]:
        served, result = await recalled(cast(State, self), self.cache, KEY, self.make)
        return served.body, result

    def change(self, rows: bytes) -> None:
        self.rows = rows
        self.wake._announce()


def test_an_outdated_one_is_given_while_it_is_built_anew() -> None:
    async def told() -> None:
        gateway = _Gateway()
        assert await gateway.ask() == (b"first", CacheResult.MISS)
        gateway.change(b"second")
        gateway.building.clear()
        for _ in range(3):
            assert await gateway.ask() == (b"first", CacheResult.HIT)
            gateway.change(b"second")
        gateway.building.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert await gateway.ask() == (b"second", CacheResult.HIT)
        assert gateway.built == 2, "not with every change"

    asyncio.run(told())


def test_no_page_is_given_what_ended_too_long_ago_or_while_nobody_listened() -> None:
    async def told() -> None:
        gateway = _Gateway()
        await gateway.ask()
        gateway.change(b"second")
        gateway.wake._served_since_s[-1] -= manifests.OUTDATED_S
        assert await gateway.ask() == (b"second", CacheResult.MISS)
        gateway.rows = b"third"
        gateway.wake.connected = False
        assert await gateway.ask() == (b"third", CacheResult.MISS)
        gateway.rows = b"fourth"
        gateway.wake._begin_listening()
        assert await gateway.ask() == (b"fourth", CacheResult.MISS)

    asyncio.run(told())


def test_a_class_that_has_not_voted_waits_for_what_is_right_now() -> None:
    async def told() -> None:
        gateway = _Gateway(HitLevel.DEFAULT)
        await gateway.ask()
        assert await gateway.ask() == (b"first", CacheResult.HIT)
        gateway.change(b"second")
        assert await gateway.ask() == (b"second", CacheResult.MISS)

    asyncio.run(told())
