"""Pages of classes that have voted wait for no build where much changes."""

import asyncio
from typing import cast

from kernelzoo.domain.zoo import HitLevel
from kernelzoo.metrics import CacheResult
from kernelzoo.store.notifications import CANDIDATES, ZOO
from services.gateway import cache
from services.gateway.builds import Builds
from services.gateway.cache import ManifestCache
from services.gateway.changes import Sources
from services.gateway.manifests import Key, ServedManifest, issue_time
from services.gateway.purging import Outdated
from services.gateway.recall import Asked, recalled
from services.gateway.standby import Standby
from services.gateway.state import State
from services.gateway.wake import Wake

WORKLOAD, CLASS = "matmul:f32:m8k8n8", "0123456789abcdef:r1-0:wasm+simd128"
KEY = (WORKLOAD, CLASS, "")
OWN = Sources(entries=((WORKLOAD, CLASS),))
BORROWED = Sources(offers=(WORKLOAD,))


class _Gateway:
    """Stands for as much of a gateway's state as remembers manifests."""

    def __init__(self, level: HitLevel = HitLevel.EXACT) -> None:
        self.wake, self.builds, self.level = Wake("", Outdated(collects=False)), Builds(), level
        self.standby = Standby(None, 0)
        self.sources = OWN if level == HitLevel.EXACT else BORROWED
        self.serial = 1
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
            body=body,
            etag="",
            issued_at=issue_time(),
            levels=((str(self.level), 1),),
            serial=self.serial,
            sources=self.sources,
        )

    async def ask(
        self, network: str = "a", *, key: Key = KEY, after: int = 0, in_haste: bool = False
    ) -> tuple[bytes, CacheResult]:
        by = Asked(network=network, device_classes=(CLASS,), after=after, in_haste=in_haste)
        found = await recalled(cast(State, self), self.cache, key, by, self.make)
        return found.served.body, found.cache

    def change(self, rows: bytes, payload: str = "", channel: str = ZOO) -> None:
        self.rows = rows
        self.wake._hear(channel, payload)


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
        gateway.wake._served_since_s[-1] -= cache.OUTDATED_S
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


def test_a_change_of_something_else_leaves_what_is_remembered() -> None:
    async def told() -> None:
        for level in (HitLevel.EXACT, HitLevel.COMMON):
            gateway = _Gateway(level)
            await gateway.ask()
            for payload in ("another", f"another\n{CLASS}"):
                gateway.change(b"second", payload)
                gateway.change(b"second", "another", CANDIDATES)
            assert await gateway.ask() == (b"first", CacheResult.HIT)
            assert gateway.built == 1

    asyncio.run(told())


def test_votes_of_other_classes_change_what_a_class_borrows_and_not_what_it_voted_for() -> None:
    async def told() -> None:
        voted, borrowing = _Gateway(), _Gateway(HitLevel.COMMON)
        other = f"{WORKLOAD}\nfedcba9876543210:r1-0:wasm+simd128"
        for gateway in (voted, borrowing):
            await gateway.ask()
            gateway.change(b"second", other)
        assert await voted.ask() == (b"first", CacheResult.HIT)
        assert await borrowing.ask() == (b"second", CacheResult.MISS)
        for payload, channel in ((f"{WORKLOAD}\n{CLASS}", ZOO), (WORKLOAD, CANDIDATES), ("", ZOO)):
            gateway = _Gateway()
            await gateway.ask()
            gateway.change(b"second", payload, channel)
            gateway.wake._served_since_s[-1] -= cache.OUTDATED_S
            assert await gateway.ask() == (b"second", CacheResult.MISS)

    asyncio.run(told())


def test_nothing_is_kept_for_long_over_changes_of_something_else() -> None:
    """Similar shapes' findings are offered, too."""

    async def told() -> None:
        gateway = _Gateway(HitLevel.COMMON)
        await gateway.ask()
        gateway.change(b"second", "another")
        assert await gateway.ask() == (b"first", CacheResult.HIT)
        gateway.change(b"third", "another")
        held = gateway.cache._find(KEY)
        assert held is not None
        held.built_s -= cache.SURE_S
        assert await gateway.ask() == (b"third", CacheResult.MISS)

    asyncio.run(told())


def test_what_two_networks_asked_for_is_not_pushed_out_by_what_one_asks_for() -> None:
    """Attack: what page loads of classes without a vote are served is pushed out of the memory.

    What it cost before: a request for each of 2,000 invented classes.
    """

    async def told() -> None:
        gateway = _Gateway(HitLevel.COMMON)
        await gateway.ask("a")
        assert await gateway.ask("b") == (b"first", CacheResult.HIT)
        for number in range(2 * cache.MOST_WANTED):
            invented = (WORKLOAD, f"{number:016x}:r1-0:wasm+simd128", "")
            await gateway.ask("attacker", key=invented)
            await gateway.ask("attacker", key=invented)
        gateway.rows = b"second"
        assert await gateway.ask("c") == (b"first", CacheResult.HIT)

    asyncio.run(told())


def test_where_nothing_can_be_built_a_class_is_given_what_it_was_before() -> None:
    async def told() -> None:
        gateway = _Gateway(HitLevel.COMMON)
        await gateway.ask()
        gateway.change(b"second", f"{WORKLOAD}\nanother class")
        assert await gateway.ask(in_haste=True) == (b"first", CacheResult.HIT)
        assert await gateway.ask() == (b"second", CacheResult.MISS)
        # A kernel may have been denied.
        gateway.change(b"third")
        assert gateway.cache.guess(KEY) is None

    asyncio.run(told())


def test_a_page_that_saw_a_later_one_of_another_gateway_is_given_a_later_one() -> None:
    async def told() -> None:
        gateway = _Gateway()
        await gateway.ask()
        gateway.change(b"second", "another")
        gateway.serial = 5
        assert await gateway.ask(after=1) == (b"first", CacheResult.HIT)
        assert await gateway.ask(after=5) == (b"second", CacheResult.MISS)
        gateway.rows = b"third"
        assert await gateway.ask(after=9) == (b"second", CacheResult.HIT), "once in half a second"

    asyncio.run(told())
