"""A manifest is built once for all who ask; classes that have voted wait for no others."""

import asyncio

import pytest
from psycopg import OperationalError

from services.gateway.builds import AT_ONCE, Builds
from services.gateway.changes import Sources
from services.gateway.manifests import ServedManifest

SERVED = ServedManifest(body=b"", etag="", issued_at="", levels=(), serial=0, sources=Sources())


class Database:
    """Answers nobody until it is let."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.asked = 0

    async def make(self) -> ServedManifest:
        self.asked += 1
        await self.free.wait()
        return SERVED


def test_few_are_built_at_once_and_who_has_voted_waits_for_none_of_them() -> None:
    async def flood() -> None:
        builds, database = Builds(), Database()
        others = [
            asyncio.create_task(builds.build(number, database.make, known=False))
            for number in range(10)
        ]
        await asyncio.sleep(0)
        voted = asyncio.create_task(builds.build("voted", database.make, known=True))
        for _ in range(100):
            await asyncio.sleep(0)
        assert database.asked == AT_ONCE + 1
        database.free.set()
        assert {await each for each in (*others, voted)} == {SERVED}
        assert database.asked == len(others) + 1

    asyncio.run(flood())


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
        for _ in range(AT_ONCE + 1):
            with pytest.raises(OperationalError, match="away"):
                await builds.build("key", fail, known=False)
        assert await builds.build("key", database.make, known=False) is SERVED

    asyncio.run(twice())
