"""Leases that wait for a verdict share messages, and none is forgotten."""

import asyncio
from itertools import chain

from kernelzoo.jobs import Message
from services.gateway.notifier import AT_ONCE, Notifier


def sent(*bursts: list[int]) -> list[list[int]]:
    """The leases of each message where leases are answered in bursts, and the gateway then ends."""
    sent: list[Message] = []

    async def gateway() -> None:
        loop, told = asyncio.get_running_loop(), asyncio.Event()

        def send(job: Message) -> None:
            sent.append(job)
            loop.call_soon_threadsafe(told.set)

        notifier = Notifier(send)
        async with notifier.sending():
            for burst in bursts:
                for lease_id in burst:
                    notifier.notify(lease_id)
                await told.wait()

    asyncio.run(gateway())
    return [list(chain.from_iterable(job.arguments)) for job in sent]  # type: ignore[arg-type]


def test_the_first_is_told_at_once_and_those_that_follow_together() -> None:
    assert sent([1], [2, 3], [4]) == [[1], [2, 3, 4]]


def test_a_lease_that_is_answered_in_parts_is_named_once() -> None:
    assert sent([5, 5, 6]) == [[5, 6]]


def test_messages_stay_short() -> None:
    many = list(range(AT_ONCE + 1))
    assert sent(many) == [many[:-1], many[-1:]]
