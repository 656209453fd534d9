"""Pages that tune themselves look at some things together."""

import asyncio
import time
from contextlib import ExitStack

import pytest

from kernelzoo.domain.workload import WorkloadKey
from services.gateway.problems import Refusal
from services.gateway.queueing import Tried
from services.gateway.streams import (
    LOOKED_EVERY_S,
    LOOKS_AT_ONCE,
    MOST,
    MOST_OF_NETWORK,
    Stream,
    Streams,
    Unconfirmed,
)


def unconfirmed(waits: int) -> Unconfirmed:
    one = Tried(
        workload_key=WorkloadKey("k"),
        calls=1,
        flops=1,
        expected_ns=None,
        weight=1,
        compiled=(),
        waiting=waits,
    )
    return Unconfirmed(left=(one,), workloads={}, newest_s=0.0)


def test_pages_are_told_of_what_changes_and_of_nothing_else() -> None:
    async def looks() -> None:
        streams, waits = Streams(), iter([2, 2, 1])

        async def see() -> Unconfirmed:
            return unconfirmed(next(waits))

        first, beside = await asyncio.gather(*(streams.look("plan", None, see) for _ in range(2)))
        await asyncio.sleep(LOOKED_EVERY_S)
        again = await streams.look("plan", None, see)
        await asyncio.sleep(LOOKED_EVERY_S)
        changed = await streams.look("plan", None, see)
        assert beside is first
        assert again is first, "whoever has sent it has nothing to do"
        assert changed.left[0].waiting == 1

    asyncio.run(looks())


def test_nobody_looks_again_before_something_changed() -> None:
    async def looks() -> None:
        streams, waits = Streams(), iter([2, 1])

        async def see() -> Unconfirmed:
            return unconfirmed(next(waits))

        first = await streams.look("plan", 7, see)
        await asyncio.sleep(LOOKED_EVERY_S)
        assert await streams.look("plan", 7, see) is first
        assert (await streams.look("plan", 8, see)).left[0].waiting == 1

    asyncio.run(looks())


def test_looks_at_many_classes_leave_half_of_the_time_to_others() -> None:
    async def looks(classes: int, took_s: float) -> float:
        streams = Streams()

        async def see() -> Unconfirmed:
            await asyncio.sleep(took_s)
            return unconfirmed(1)

        start_s = time.monotonic()
        await asyncio.gather(*(streams.look(number, None, see) for number in range(classes)))
        return time.monotonic() - start_s

    took_s, rounds = 0.05, 4
    elapsed_s = asyncio.run(looks(rounds * LOOKS_AT_ONCE, took_s))
    assert elapsed_s >= (2 * rounds - 1) * took_s


def test_a_look_that_fails_gives_its_place_back() -> None:
    async def looks() -> None:
        streams = Streams()

        async def fail() -> Unconfirmed:
            raise ConnectionError

        async def see() -> Unconfirmed:
            return unconfirmed(1)

        for number in range(2 * LOOKS_AT_ONCE):
            failed = await asyncio.gather(streams.look(number, None, fail), return_exceptions=True)
            assert isinstance(failed[0], ConnectionError)
        async with asyncio.timeout(5):
            await streams.look("plan", None, see)

    asyncio.run(looks())


def test_what_else_there_is_to_do_comes_between_two_streams_that_wake_together() -> None:
    async def turns() -> list[int]:
        streams, ticks, seen = Streams(), 0, []

        async def stream() -> None:
            async with streams.turn():
                seen.append(ticks)

        waiting = [asyncio.create_task(stream()) for _ in range(20)]
        while not all(each.done() for each in waiting):
            await asyncio.sleep(0)
            ticks += 1
        return seen

    seen = asyncio.run(turns())
    assert len(set(seen)) == len(seen)


def opened(streams: Streams, held: ExitStack, network: str) -> Stream | None:
    """None where it is refused."""
    try:
        streams.refuse_excess(network)
    except Refusal:
        return None
    stream = Stream(yields=True)
    held.enter_context(streams.counted(network, stream))
    return stream


@pytest.mark.parametrize("attackers", [8, 40])
def test_networks_that_take_all_streams_leave_one_to_every_other(attackers: int) -> None:
    """Attack: networks open as many streams as they are let, so that no other page tunes itself.

    What it cost before: eight networks with 32 each.
    """
    streams = Streams()
    with ExitStack() as held:
        taken = [
            stream
            for number in range(attackers)
            for _ in range(MOST_OF_NETWORK)
            if (stream := opened(streams, held, f"attacker {number}"))
        ]
        honest = [opened(streams, held, f"page {number}") for number in range(100)]
        assert all(honest)
        assert not any(each.ended for each in honest if each)
        assert sum(each.ended for each in taken) >= len(taken) + len(honest) - MOST
        assert streams.total() <= MOST
        # Whoever was ended comes back to a smaller share.
        assert opened(streams, held, "attacker 0") is None
    assert streams.total() == 0


def test_a_network_alone_has_as_many_as_ever() -> None:
    streams = Streams()
    with ExitStack() as held:
        found = [opened(streams, held, "one") for _ in range(2 * MOST_OF_NETWORK)]
        assert sum(each is not None for each in found) == MOST_OF_NETWORK
