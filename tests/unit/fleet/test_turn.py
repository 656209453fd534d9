"""The turn to time: one agent at a time, and none that is gone keeps it."""

import asyncio

import pytest

from workers.fleet.turn import TimingTurn


def test_the_turn_goes_round_in_the_order_of_asking() -> None:
    async def scenario() -> list[str | None]:
        turn = TimingTurn()
        await turn.acquire("a")
        waiting = [asyncio.create_task(turn.acquire(name)) for name in ("b", "c")]
        await asyncio.sleep(0)
        holders = [turn.holder]
        for name in ("a", "b", "c"):
            turn.release(name)
            holders.append(turn.holder)
        await asyncio.gather(*waiting)
        return holders

    assert asyncio.run(scenario()) == ["a", "b", "c", None]


def test_an_agent_that_dies_with_the_turn_passes_it_on() -> None:
    async def scenario() -> str | None:
        turn = TimingTurn()
        await turn.acquire("a")
        second = asyncio.create_task(turn.acquire("b"))
        await asyncio.sleep(0)
        turn.forfeit("a")
        await asyncio.wait_for(second, 1)
        return turn.holder

    assert asyncio.run(scenario()) == "b"


def test_an_agent_that_dies_while_it_waits_is_never_given_the_turn() -> None:
    async def scenario() -> str | None:
        turn = TimingTurn()
        await turn.acquire("a")
        dead, alive = (asyncio.create_task(turn.acquire(name)) for name in ("b", "c"))
        await asyncio.sleep(0)
        turn.forfeit("b")
        turn.release("a")
        await asyncio.wait_for(alive, 1)
        with pytest.raises(asyncio.CancelledError):
            await dead
        return turn.holder

    assert asyncio.run(scenario()) == "c"


def test_a_page_that_hangs_loses_the_turn_after_its_limit() -> None:
    async def scenario() -> str | None:
        turn = TimingTurn(limit_s=0.01)
        await turn.acquire("hung")
        await asyncio.wait_for(turn.acquire("next"), 1)
        return turn.holder

    assert asyncio.run(scenario()) == "next"


def test_releasing_what_another_holds_changes_nothing() -> None:
    async def scenario() -> str | None:
        turn = TimingTurn()
        await turn.acquire("a")
        turn.release("b")
        return turn.holder

    assert asyncio.run(scenario()) == "a"


def test_asking_twice_is_asking_once() -> None:
    async def scenario() -> str | None:
        turn = TimingTurn()
        await turn.acquire("a")
        await asyncio.wait_for(turn.acquire("a"), 1)
        turn.release("a")
        return turn.holder

    assert asyncio.run(scenario()) is None
