"""Attack by manifests that are in no memory: classes are claims, and each costs a build.

What it cost before: a request each; 1,000 a second were answered after 63 s at the worst.
"""

import asyncio
import time

import pytest
from psycopg import OperationalError

from services.gateway.builds import AT_ONCE, LATE_S, LOOKED_EVERY_S, MOST_WAITING, Builds
from services.gateway.manifests import ServedManifest
from services.gateway.problems import Refusal

SERVED = ServedManifest(body=b"", etag="", issued_at="", levels=())


class Database:
    """Answers nobody until it is let."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.asked = 0

    async def make(self) -> ServedManifest:
        self.asked += 1
        await self.free.wait()
        return SERVED


async def _flood(requests: int) -> tuple[list[object], Database]:
    """What requests of a class each get, and beside them one of a class that has voted."""
    builds, database = Builds(), Database()
    async with builds.watching():
        flood = [
            asyncio.create_task(builds.build(number, database.make, known=False))
            for number in range(requests)
        ]
        await asyncio.sleep(0)
        real = asyncio.create_task(builds.build("real", database.make, known=True))
        await asyncio.sleep(LOOKED_EVERY_S)
        assert database.asked == AT_ONCE + 1
        database.free.set()
        return [*await asyncio.gather(*flood, return_exceptions=True), await real], database


def test_a_flood_is_refused_at_once_but_for_what_can_be_built_soon() -> None:
    found, database = asyncio.run(_flood(1000))
    refused = [each for each in found if isinstance(each, Refusal)]
    assert len(refused) == 1000 - MOST_WAITING
    assert {each.status for each in refused} == {503}
    assert refused[0].headers == {"Retry-After": "2"}
    assert database.asked == MOST_WAITING + 1
    assert found[-1] is SERVED, "who has voted is answered"


def test_what_many_ask_for_at_once_is_built_once() -> None:
    async def many() -> int:
        builds, database = Builds(), Database()
        asking = [
            asyncio.create_task(builds.build("same", database.make, known=False))
            for _ in range(100)
        ]
        await asyncio.sleep(0)
        asking[0].cancel()
        database.free.set()
        found = await asyncio.gather(*asking, return_exceptions=True)
        assert found[1:] == [SERVED] * 99, "one who leaves does not take it from the others"
        return database.asked

    assert asyncio.run(many()) == 1


def test_a_failure_is_told_to_all_who_wait_and_tried_again() -> None:
    async def fail() -> ServedManifest:
        raise OperationalError("away")

    async def twice() -> None:
        builds, database = Builds(), Database()
        database.free.set()
        for _ in range(MOST_WAITING + 1):
            with pytest.raises(OperationalError, match="away"):
                await builds.build("key", fail, known=False)
        assert await builds.build("key", database.make, known=False) is SERVED

    asyncio.run(twice())


def test_while_the_thread_is_late_they_are_built_one_at_a_time() -> None:
    async def late() -> None:
        builds, database = Builds(), Database()
        async with builds.watching():
            await asyncio.sleep(2 * LOOKED_EVERY_S)
            time.sleep(LOOKED_EVERY_S + 5 * LATE_S)  # noqa: ASYNC251 - as work that takes long
            await asyncio.sleep(0.001)
            first = asyncio.create_task(builds.build("first", database.make, known=False))
            await asyncio.sleep(0)
            with pytest.raises(Refusal, match="ask again in a moment"):
                await builds.build("second", database.make, known=False)
            real = asyncio.create_task(builds.build("real", database.make, known=True))
            database.free.set()
            assert [await first, await real] == [SERVED, SERVED]

    asyncio.run(late())
